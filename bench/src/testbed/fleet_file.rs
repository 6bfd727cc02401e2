//! The running fleet's file: a person's fleet file, with rates and capacity scaled alike, the round trips that the
//! clients really take, and the controller's own settings.
use std::path::Path;

use toml::{Table, Value};

use super::addresses::CONTROLLER;

/// Where the controller listens for agents.
pub const CONTROLLER_PORT: u16 = 7460;

/// What differs from the person's file.
#[derive(Clone, Copy, Debug)]
pub struct Changes<'a> {
    /// Factor on every demand and on every profile's capacity.
    pub scale: f64,
    /// Round trips of every class, if the clients take others than the file says.
    pub round_trips: Option<f64>,
    /// Folder with `ca.pem`, `cert.pem` and `key.pem`.
    pub tls: &'a Path,
    pub state_dir: &'a Path,
}

/// Why there is no running fleet's file.
#[derive(Debug, thiserror::Error)]
pub enum FleetFileError {
    #[error("the fleet file is not TOML")]
    Syntax(#[from] toml::de::Error),
    #[error("the running fleet's file cannot be written as TOML")]
    Write(#[from] toml::ser::Error),
    #[error("{part} has no number {key}")]
    Number { part: &'static str, key: &'static str },
}

/// The text of the running fleet's file.
///
/// # Errors
/// The person's file is not TOML, or lacks a number to scale.
pub fn running(text: &str, changes: Changes<'_>) -> Result<String, FleetFileError> {
    let mut file: Table = text.parse()?;
    scale(&mut file, "demand", "rps", changes.scale)?;
    scale(&mut file, "profile", "capacity_rps", changes.scale)?;
    if let Some(round_trips) = changes.round_trips {
        for class in parts(&mut file, "class") {
            class.insert("round_trips".to_owned(), Value::Float(round_trips));
        }
    }
    let path = |path: &Path| Value::String(path.display().to_string());
    let tls = Table::from_iter([
        ("ca".to_owned(), path(&changes.tls.join("ca.pem"))),
        ("certificate".to_owned(), path(&changes.tls.join("cert.pem"))),
        ("key".to_owned(), path(&changes.tls.join("key.pem"))),
    ]);
    let settings = file.entry("controller").or_insert_with(|| Value::Table(Table::new()));
    if let Value::Table(settings) = settings {
        settings.insert("listen".to_owned(), Value::String(format!("{CONTROLLER}:{CONTROLLER_PORT}")));
        settings.insert("tls".to_owned(), Value::Table(tls));
        settings.insert("state_dir".to_owned(), path(changes.state_dir));
        settings.insert("admin_socket".to_owned(), path(&changes.state_dir.join("admin.sock")));
    }
    Ok(toml::to_string(&file)?)
}

fn scale(file: &mut Table, part: &'static str, key: &'static str, factor: f64) -> Result<(), FleetFileError> {
    for entry in parts(file, part) {
        let number = match entry.get(key) {
            Some(Value::Float(number)) => *number,
            Some(Value::Integer(number)) => *number as f64,
            _ => return Err(FleetFileError::Number { part, key }),
        };
        entry.insert(key.to_owned(), Value::Float(number * factor));
    }
    Ok(())
}

/// The tables of an array, as `[[name]]` makes it.
fn parts<'a>(file: &'a mut Table, name: &str) -> impl Iterator<Item = &'a mut Table> {
    let parts = file.get_mut(name).and_then(Value::as_array_mut);
    parts.into_iter().flatten().filter_map(Value::as_table_mut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::fixture;

    #[test]
    fn demand_and_capacity_are_scaled_alike_and_the_rest_stays() {
        let changes = Changes {
            scale: 0.5,
            round_trips: Some(2.0),
            tls: Path::new("/tls"),
            state_dir: Path::new("/state"),
        };

        let text = running(fixture::TEXT, changes).unwrap();
        let fleet = penstock_controller::fleet::parse(&text).unwrap();

        assert_eq!(fleet.demand[0].rate.get(), 5.0);
        assert_eq!(fleet.profiles[0].capacity.get(), 10.0);
        assert_eq!(fleet.classes[0].round_trips.get(), 2.0);
        assert_eq!(fleet.settings.listen.to_string(), "172.22.0.1:7460");
        assert_eq!(fleet.settings.state_dir, Path::new("/state"));
        assert_eq!(fleet.engines, fixture::fleet().engines);
    }
}
