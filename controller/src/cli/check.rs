//! `penstock-controller check FLEET.toml`.
use std::io::Write;
use std::path::PathBuf;

use penstock_controller::fleet;

#[derive(Debug, clap::Args)]
pub(crate) struct Check {
    /// The fleet file.
    fleet: PathBuf,
}

impl Check {
    pub(crate) fn run(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let fleet = fleet::read(&self.fleet)?;
        writeln!(
            out,
            "{}: no faults: {} sites, {} frontends, {} classes, {} engine groups, {} engines, {} services, {} hosts",
            self.fleet.display(),
            fleet.network.sites().count(),
            fleet.frontends.len(),
            fleet.classes.len(),
            fleet.groups.len(),
            fleet.engines.len(),
            fleet.services.len(),
            fleet.hosts.len(),
        )?;
        Ok(())
    }
}
