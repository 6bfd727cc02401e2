//! The agent's file, checked. Relative paths stand relative to the file's folder.
mod raw;

use std::{
    fs, io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
};

use penstock_wire::{
    HostId,
    transport::{CONTROLLER_NAME, TlsFiles},
};
use toml::Spanned;

use crate::proxy::config::{HttpConfig, HttpConfigError, RawHttp};
use raw::{Devices, Raw};

#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub host: HostId,
    /// `host:port` of each controller, tried in this order.
    pub controllers: Vec<String>,
    pub tls: TlsFiles,
    /// DNS name that the controller's certificate must have.
    pub controller_name: String,
    /// The last good snapshot, and what a person ordered, live here.
    pub state_dir: PathBuf,
    pub admin_socket: PathBuf,
    /// Where `/metrics` is served, if anywhere.
    pub metrics: Option<SocketAddr>,
    pub peers: Peers,
    pub data_path: DataPathConfig,
    /// The HTTP door, where there is one.
    pub http: Option<HttpConfig>,
}

/// Other hosts of the frontend.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Peers {
    /// Where new hosts may take the snapshot from this one, if anywhere.
    pub listen: Option<SocketAddr>,
    /// `host:port` of hosts that this one takes the snapshot from, while it has none and no controller answers.
    pub from: Vec<String>,
}

/// Where and how packets are handled.
#[derive(Clone, Debug, PartialEq)]
pub struct DataPathConfig {
    pub plane: Plane,
    pub object: PathBuf,
    pub pin_dir: PathBuf,
    /// At least one, unless the plane is user space.
    pub devices: Vec<String>,
    pub attach: Attach,
    pub redirect_only: bool,
    pub reset_lost: bool,
    pub outer4: Option<Ipv4Addr>,
    pub outer6: Option<Ipv6Addr>,
    /// Largest fraction of a table's slots that one snapshot may move unless it answers a failure.
    pub max_moved: f64,
}

/// What handles traffic.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Plane {
    /// The kernel program, and the HTTP door if there is one.
    Xdp,
    /// The HTTP door alone, with tables in memory: needs no privileges.
    Userspace,
}

/// Which XDP attachment is accepted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attach {
    /// Native, and generic where the driver has no native XDP.
    #[default]
    Best,
    Native,
    Generic,
}

/// Why there is no configuration. Nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("reading {}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// Not TOML, an unknown key, or a value of another kind.
    #[error("{}:\n{detail}", path.display())]
    Syntax { path: PathBuf, detail: String },
    #[error("{}:{line}: {key}: {what}", path.display())]
    Value { path: PathBuf, line: usize, key: &'static str, what: String },
}

impl Config {
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let unreadable = |source| ConfigError::Unreadable { path: path.to_owned(), source };
        let text = fs::read_to_string(path).map_err(unreadable)?;
        Self::parse(&text, path)
    }

    /// `path` names the file in messages, and its folder is where relative paths stand.
    fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let raw: Raw = toml::from_str(text).map_err(|error| ConfigError::Syntax {
            path: path.to_owned(),
            detail: error.to_string().trim_end().to_owned(),
        })?;
        let check = Check { text, path };
        let folder = path.parent().unwrap_or(Path::new(""));
        let at = |file: PathBuf| folder.join(file);
        let host = check.filled("host", &raw.host)?;
        if raw.controllers.get_ref().is_empty() {
            return Err(check.fault("controllers", &raw.controllers, "names no controller"));
        }
        check.addresses("controllers", &raw.controllers)?;
        let from = raw.peers.from.as_ref();
        from.map(|from| check.addresses("peers.from", from)).transpose()?;
        let http = match raw.http {
            Some(section) => Some(check.http(&section)?),
            None => None,
        };
        let plane = match raw.dataplane.get_ref().as_str() {
            "xdp" => Plane::Xdp,
            "userspace" if http.is_some() => Plane::Userspace,
            "userspace" => {
                return Err(check.fault("dataplane", &raw.dataplane, "\"userspace\" needs a section [http]"));
            }
            other => {
                let what = format!("{other:?} is not known; this build has \"xdp\" and \"userspace\"");
                return Err(check.fault("dataplane", &raw.dataplane, &what));
            }
        };
        let devices = match raw.device.as_ref().map(|device| device.get_ref().clone()) {
            Some(Devices::One(device)) => vec![device],
            Some(Devices::Several(devices)) => devices,
            None => Vec::new(),
        };
        if let Some(device) = &raw.device
            && (devices.is_empty() || devices.iter().any(String::is_empty))
        {
            return Err(check.fault("device", device, "names no device"));
        }
        if devices.is_empty() && plane == Plane::Xdp {
            return Err(check.fault("device", &raw.dataplane, "is missing: \"xdp\" needs at least one"));
        }
        let max_moved = *raw.max_moved.get_ref();
        if !(max_moved > 0.0 && max_moved <= 1.0) {
            return Err(check.fault("max_moved", &raw.max_moved, "is not a fraction above 0, up to 1"));
        }
        let state_dir = at(raw.state_dir);
        let pin_dir = raw.pin_dir.unwrap_or_else(|| default_pin_dir(&host));
        Ok(Self {
            admin_socket: raw.admin.socket.map_or_else(|| state_dir.join("admin.sock"), at),
            metrics: raw.admin.metrics,
            peers: Peers {
                listen: raw.peers.listen,
                from: raw.peers.from.map(Spanned::into_inner).unwrap_or_default(),
            },
            host: HostId(host),
            controllers: raw.controllers.into_inner(),
            tls: TlsFiles { ca: at(raw.tls.ca), certificate: at(raw.tls.cert), key: at(raw.tls.key) },
            controller_name: raw.tls.controller_name.unwrap_or_else(|| CONTROLLER_NAME.to_owned()),
            state_dir,
            http,
            data_path: DataPathConfig {
                plane,
                object: raw.object.map_or_else(default_object, at),
                pin_dir,
                devices,
                attach: raw.attach,
                redirect_only: raw.redirect_only,
                reset_lost: raw.reset_lost,
                outer4: raw.outer4,
                outer6: raw.outer6,
                max_moved,
            },
        })
    }
}

/// The kernel program beside the executable.
fn default_object() -> PathBuf {
    let beside = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.join("penstock-xdp.o")));
    beside.unwrap_or_else(|| PathBuf::from("penstock-xdp.o"))
}

fn default_pin_dir(host: &str) -> PathBuf {
    // A folder on bpffs may not have a dot in its name.
    Path::new("/sys/fs/bpf/penstock").join(host.replace(['.', '/'], "_"))
}

/// Places faults in the text.
struct Check<'a> {
    text: &'a str,
    path: &'a Path,
}

impl Check<'_> {
    fn filled(&self, key: &'static str, value: &Spanned<String>) -> Result<String, ConfigError> {
        let text = value.get_ref();
        if text.is_empty() { Err(self.fault(key, value, "is empty")) } else { Ok(text.clone()) }
    }

    /// Each must be host:port.
    fn addresses(&self, key: &'static str, addresses: &Spanned<Vec<String>>) -> Result<(), ConfigError> {
        let is_address = |address: &&String| {
            matches!(address.rsplit_once(':').map(|(_, port)| port.parse::<u16>()), Some(Ok(1..)))
        };
        match addresses.get_ref().iter().find(|address| !is_address(address)) {
            Some(address) => Err(self.fault(key, addresses, &format!("{address:?} is not host:port"))),
            None => Ok(()),
        }
    }

    /// Relative paths stand in the file's folder here too.
    fn http(&self, section: &Spanned<RawHttp>) -> Result<HttpConfig, ConfigError> {
        let folder = self.path.parent().unwrap_or(Path::new(""));
        match HttpConfig::try_from(section.get_ref().clone()) {
            Ok(config) => Ok(config.in_folder(folder)),
            Err(HttpConfigError::Value { key, reason }) => {
                Err(self.fault("http", section, &format!("{key}: {reason}")))
            }
        }
    }

    fn fault<T>(&self, key: &'static str, value: &Spanned<T>, what: &str) -> ConfigError {
        // A default has no place in the text.
        let line = self.text.get(..value.span().start).unwrap_or_default().matches('\n').count() + 1;
        ConfigError::Value { path: self.path.to_owned(), line, key, what: what.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
host = "a-1"
controllers = ["10.0.0.1:7400", "controller.example:7400"]
device = ["eth0", "eth1"]
state_dir = "state"
[tls]
ca = "ca.pem"
cert = "/etc/penstock/cert.pem"
key = "key.pem"
"#;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, Path::new("/etc/p/agent.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn relative_paths_stand_in_the_files_folder() {
        let config = parse(GOOD).unwrap();

        assert_eq!(config.state_dir, Path::new("/etc/p/state"));
        assert_eq!(config.admin_socket, Path::new("/etc/p/state/admin.sock"));
        assert_eq!(config.tls.ca, Path::new("/etc/p/ca.pem"));
        assert_eq!(config.tls.certificate, Path::new("/etc/penstock/cert.pem"));
        assert_eq!(config.data_path.pin_dir, Path::new("/sys/fs/bpf/penstock/a-1"));
        assert_eq!(config.data_path.devices, ["eth0", "eth1"]);
        assert_eq!(config.controller_name, CONTROLLER_NAME);
    }

    #[test]
    fn one_device_may_stand_alone() {
        let config = parse(&GOOD.replace(r#"["eth0", "eth1"]"#, r#""eth0""#)).unwrap();

        assert_eq!(config.data_path.devices, ["eth0"]);
    }

    #[test]
    fn user_space_needs_no_device() {
        let text = GOOD.replace(r#"device = ["eth0", "eth1"]"#, "dataplane = \"userspace\"");
        let http = "[http]\nlisten = [{ address = \"unix:door.sock\" }]\nclass = [{ id = \"c\" }]\n";

        let config = parse(&format!("{text}{http}")).unwrap();

        assert_eq!(config.data_path.plane, Plane::Userspace);
        let socket = crate::proxy::config::ListenAddress::Unix("/etc/p/door.sock".into());
        assert_eq!(config.http.unwrap().listen[0].address, socket);
    }

    #[test]
    fn a_faulty_value_is_named_by_line_and_key() {
        let faults = [
            (r#"host = "a-1""#, r#"host = """#, "/etc/p/agent.toml:2: host: is empty"),
            (
                r#""10.0.0.1:7400""#,
                r#""10.0.0.1""#,
                "/etc/p/agent.toml:3: controllers: \"10.0.0.1\" is not host:port",
            ),
            (r#"["eth0", "eth1"]"#, "[]", "/etc/p/agent.toml:4: device: names no device"),
            (
                "state_dir",
                "max_moved = 0.0\nstate_dir",
                "/etc/p/agent.toml:5: max_moved: is not a fraction above 0, up to 1",
            ),
            (
                "state_dir",
                "dataplane = \"tcx\"\nstate_dir",
                "/etc/p/agent.toml:5: dataplane: \"tcx\" is not known; this build has \"xdp\" and \"userspace\"",
            ),
            (
                "state_dir",
                "dataplane = \"userspace\"\nstate_dir",
                "/etc/p/agent.toml:5: dataplane: \"userspace\" needs a section [http]",
            ),
            (
                "[tls]",
                "[http]\nworkers = 0\nlisten = [{ address = \"[::]:80\" }]\nclass = [{ id = \"c\" }]\n[tls]",
                "/etc/p/agent.toml:6: http: workers: must be 1 or more",
            ),
        ];

        for (good, bad, message) in faults {
            assert_eq!(parse(&GOOD.replace(good, bad)).unwrap_err(), message);
        }
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_line() {
        let error = parse(&GOOD.replace("device", "devices")).unwrap_err();

        assert!(error.contains("line 4") && error.contains("devices"), "{error}");
    }
}
