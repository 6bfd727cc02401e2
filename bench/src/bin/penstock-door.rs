//! `penstock-door`: the HTTP door alone, with one table over the engines named on the command line, for the proxy
//! suite: no controller, no kernel program.
use std::{net::SocketAddr, sync::Arc};

use anyhow::Context;
use clap::Parser;
use penstock_abi::Tick;
use penstock_agent::proxy::{
    config::{HttpConfig, RawHttp},
    metrics::Metrics,
    route::Routes,
    server::Server,
};
use penstock_bench::proxy::snapshot;

#[derive(Debug, Parser)]
#[command(name = "penstock-door", about = "Opens the HTTP door with a table over the given engines")]
struct Arguments {
    /// Where to listen.
    #[arg(long)]
    listen: SocketAddr,
    /// Threads.
    #[arg(long, default_value_t = 1)]
    workers: usize,
    /// Engines, which share all slots evenly.
    #[arg(required = true)]
    engines: Vec<SocketAddr>,
}

fn main() -> anyhow::Result<()> {
    let Arguments { listen, workers, engines } = Arguments::parse();
    let section = format!(
        "listen = [{{ address = \"{listen}\" }}]\nworkers = {workers}\n[[class]]\nid = \"chat\"\nmodels = [\"m\"]\n"
    );
    let raw: RawHttp = toml::from_str(&section).context("the section of the HTTP door")?;
    let config = HttpConfig::try_from(raw)?;
    let routes = Arc::new(Routes::new(config.bound));
    routes.install(&snapshot(&engines), None, Tick(1))?;
    let metrics = Arc::new(Metrics::new(&config));
    let _server = Server::start(config, routes, metrics)?;
    let mut line = String::new();
    // Serves until its standard input ends, so that it never outlives the suite.
    std::io::stdin().read_line(&mut line).context("reading the end of standard input")?;
    Ok(())
}
