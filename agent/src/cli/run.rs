//! `penstock-agent run CONFIG.toml`.
use std::path::PathBuf;

use anyhow::Context as _;
use penstock_agent::{config::Config, datapath::Kernel, run};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    /// The agent's file.
    config: PathBuf,
    /// Log as JSON, one event a line.
    #[arg(long)]
    log_json: bool,
}

impl Run {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let config = Config::read(&self.config)?;
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_unset| EnvFilter::new("info"));
        let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
        if self.log_json {
            log.json().init()
        } else {
            log.init()
        }
        let orders = run::load_orders(&config);
        let path = if orders.detached.is_some() {
            Kernel::detached(&config.data_path)
        } else {
            Kernel::open(&config.data_path).context("setting up the data path")?
        };
        // The maps stay on this thread; sockets and the disk have the runtime's.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(async {
            let mut terminate = signal(SignalKind::terminate())?;
            let mut interrupt = signal(SignalKind::interrupt())?;
            let stop = async {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            };
            run::run(&config, orders, path, stop).await.map_err(anyhow::Error::from)
        })
    }
}
