//! `penstock-agent status [--json]`.
use std::io::Write;

use penstock_agent::{
    admin::{Answer, AskError, Request, ask},
    config::Config,
    install::Live,
};

use super::ConfigPath;

#[derive(Debug, clap::Args)]
pub(crate) struct StatusCommand {
    #[command(flatten)]
    path: ConfigPath,
    #[arg(long)]
    json: bool,
}

impl StatusCommand {
    pub(crate) fn run(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let config = Config::read(&self.path.config)?;
        match ask(&config.admin_socket, &Request::Status {}) {
            Ok(Answer::Status(status)) if self.json => {
                serde_json::to_writer(&mut *out, &status)?;
                writeln!(out)?;
            }
            Ok(Answer::Status(status)) => status.print(out)?,
            Ok(other) => anyhow::bail!("the agent answers something else: {other:?}"),
            Err(error @ AskError::NotRunning { .. }) => {
                // The data path goes on without its agent.
                if let Ok(live) = Live::open(&config.data_path.pin_dir) {
                    eprintln!("the agent is not running; the data path goes on with epoch {}", live.epoch());
                }
                return Err(error.into());
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
