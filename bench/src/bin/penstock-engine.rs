//! `penstock-engine`: OpenAI chat servers that follow a latency profile, for the demo and for load tests.
use std::{fs, path::PathBuf};

use anyhow::Context;
use clap::Parser;
use penstock_bench::engine::{config::EngineFile, serve};

#[derive(Debug, Parser)]
#[command(name = "penstock-engine", about = "Serves the OpenAI chat API at the pace of latency profiles")]
struct Arguments {
    /// TOML file with `stream_interval` and one `[[engine]]` for each engine: id, models, port, addresses, profile.
    config: PathBuf,
}

fn main() -> anyhow::Result<()> {
    let Arguments { config } = Arguments::parse();
    let text = fs::read_to_string(&config).with_context(|| format!("cannot read {}", config.display()))?;
    let file: EngineFile = toml::from_str(&text).with_context(|| format!("{}", config.display()))?;
    serve(file).context("the engines stopped")
}
