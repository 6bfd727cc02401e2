//! `penstock-agent run CONFIG.toml`.
use std::{path::PathBuf, sync::Arc};

use anyhow::Context as _;
use penstock_agent::{
    config::{Config, Plane},
    datapath::{DataPath, Kernel, Memory, WithDoor},
    proxy::{metrics::Metrics, route::Routes, server::Server},
    run,
};
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
        let path: Box<dyn DataPath> = match config.data_path.plane {
            Plane::Userspace => Box::new(Memory::default()),
            Plane::Xdp if orders.detached.is_some() => Box::new(Kernel::detached(&config.data_path)),
            Plane::Xdp => Box::new(Kernel::open(&config.data_path).context("setting up the data path")?),
        };
        let (path, door) = match &config.http {
            Some(http) => {
                let (routes, metrics) = (Arc::new(Routes::new(http.bound)), Arc::new(Metrics::new(http)));
                let path: Box<dyn DataPath> =
                    Box::new(WithDoor::new(path, Arc::clone(&routes), Arc::clone(&metrics)));
                let server = Server::start(http.clone(), routes, metrics).context("opening the HTTP door")?;
                (path, Some((server, http.drain)))
            }
            None => (path, None),
        };
        // The maps stay on this thread; sockets and the disk have the runtime's.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let outcome = runtime.block_on(async {
            let mut terminate = signal(SignalKind::terminate())?;
            let mut interrupt = signal(SignalKind::interrupt())?;
            let stop = async {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            };
            run::run(&config, orders, path, stop).await.map_err(anyhow::Error::from)
        });
        if let Some((server, drain)) = door {
            server.shutdown(drain);
        }
        outcome
    }
}
