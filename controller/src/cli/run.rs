//! `penstock-controller run FLEET.toml`.
use std::io::IsTerminal as _;
use std::path::PathBuf;

use anyhow::Context as _;
use penstock_controller::capacity::work;
use penstock_controller::fleet::{self, settings::PolicyName};
use penstock_controller::run::service;
use tracing::warn;
use tracing_subscriber::EnvFilter;

#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    /// The fleet file.
    fleet: PathBuf,
    /// Use another policy than the file's.
    #[arg(long)]
    policy: Option<PolicyName>,
    /// Publish to nobody and write no state: log what would change against what agents have in force.
    #[arg(long)]
    shadow: bool,
}

impl Run {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let (fleet, fleet_text) = fleet::read_with_text(&self.fleet)?;
        let filter =
            EnvFilter::builder().with_default_directive(tracing::Level::INFO.into()).from_env_lossy();
        let is_terminal = std::io::stderr().is_terminal();
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .with_ansi(is_terminal)
            .init();
        for bridged in work::bridged(&fleet) {
            warn!(
                profile = bridged.profile,
                from = bridged.from,
                to = bridged.to,
                "profile is not convex in work"
            );
        }
        let policy = self.policy.unwrap_or(fleet.settings.policy);
        let runtime = tokio::runtime::Runtime::new().context("starting the runtime")?;
        runtime.block_on(service::run(fleet, fleet_text, policy, self.shadow))?;
        Ok(())
    }
}
