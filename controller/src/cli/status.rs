//! `penstock-controller status FLEET.toml`: the running controller of a fleet file.
use std::io::Write;
use std::path::PathBuf;

use penstock_controller::admin::client;
use penstock_controller::fleet;

#[derive(Debug, clap::Args)]
pub(crate) struct Status {
    /// The fleet file that the controller runs from.
    fleet: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Status {
    pub(crate) fn run(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let status = client::status(&fleet::read(&self.fleet)?.settings.admin_socket)?;
        if self.json {
            serde_json::to_writer_pretty(&mut *out, &status)?;
            writeln!(out)?;
        } else {
            write!(out, "{status}")?;
        }
        Ok(())
    }
}
