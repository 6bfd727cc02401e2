//! `penstock-agent detach`.
use std::io::Write;

use anyhow::Context as _;
use penstock_agent::{
    admin::{AskError, Request, ask},
    config::Config,
    datapath::Kernel,
};

use super::{ConfigPath, UsageError};

#[derive(Debug, clap::Args)]
pub(crate) struct Detach {
    #[command(flatten)]
    path: ConfigPath,
}

impl Detach {
    pub(crate) fn run(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let config = Config::read(&self.path.config)?;
        match ask(&config.admin_socket, &Request::Status {}) {
            Err(AskError::NotRunning { .. }) => {}
            _ => return Err(UsageError("the agent is running; stop it first".to_owned()).into()),
        }
        let pins = config.data_path.pin_dir.display();
        Kernel::remove(&config.data_path).with_context(|| format!("removing {pins}"))?;
        writeln!(out, "detached: packets pass to the host stack; {pins} is gone")?;
        Ok(())
    }
}
