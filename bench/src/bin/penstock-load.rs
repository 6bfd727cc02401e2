//! `penstock-load`: an open-loop client of one service.
use std::{
    fs::File,
    io::{self, Write},
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use anyhow::{Context, bail};
use clap::Parser;
use penstock_bench::load::{
    client::{Prompt, Sources, Target},
    run::{Plan, run},
};

#[derive(Debug, Parser)]
#[command(
    name = "penstock-load",
    about = "Sends chat requests by a Poisson process, each on a new connection, and measures them"
)]
struct Arguments {
    /// Address to connect to, or an IPv6 /64 (as `2001:db8::/64`) whose low half becomes the conversation's key.
    #[arg(long)]
    vip: String,
    #[arg(long, default_value_t = 8000)]
    port: u16,
    #[arg(long)]
    model: String,
    /// Requests a second.
    #[arg(long)]
    rate: f64,
    /// Arrivals end after so many seconds.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Arrivals end after so many requests.
    #[arg(long, default_value_t = u64::MAX)]
    requests: u64,
    /// Requests to begin with, of spread lengths, as if the load had run for long. They are not recorded.
    #[arg(long, default_value_t = 0)]
    prefill: u32,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Space arrivals evenly instead of by a Poisson process.
    #[arg(long)]
    even: bool,
    /// Mean turns of a conversation; 1 gives every request a key of its own.
    #[arg(long, default_value_t = 1.0)]
    turns: f64,
    /// Connect from addresses of this IPv4 prefix (as `10.0.0.0/20`): each conversation has its own.
    #[arg(long, value_name = "PREFIX")]
    sources: Option<String>,
    #[arg(long, default_value_t = 600)]
    prompt_tokens: usize,
    #[arg(long, default_value_t = 100)]
    output_tokens: u32,
    /// Ask for whole answers instead of streams.
    #[arg(long)]
    no_stream: bool,
    #[arg(long, default_value_t = 120.0)]
    timeout_seconds: f64,
    /// Write one line of JSON for each request to this file, as answers complete.
    #[arg(long, value_name = "FILE")]
    records: Option<PathBuf>,
    /// Write the summary to this file instead of standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let plan = plan(&arguments)?;
    let summary = run(plan, arguments.records.as_deref()).context("the load ended early")?;
    let text = serde_json::to_string_pretty(&summary.report()).context("cannot write the summary")?;
    match &arguments.json {
        Some(path) => File::create(path)
            .and_then(|mut file| writeln!(file, "{text}"))
            .with_context(|| format!("cannot write {}", path.display())),
        None => writeln!(io::stdout(), "{text}").context("cannot write the summary"),
    }
}

fn plan(arguments: &Arguments) -> anyhow::Result<Plan> {
    if !(arguments.rate.is_finite() && arguments.rate > 0.0) {
        bail!("--rate is {}, and must be above 0", arguments.rate);
    }
    if !(arguments.turns.is_finite() && arguments.turns >= 1.0) {
        bail!("--turns is {}, and must be at least 1", arguments.turns);
    }
    if arguments.output_tokens == 0 {
        bail!("--output-tokens must be at least 1");
    }
    let seconds = |name: &str, value: f64| {
        Duration::try_from_secs_f64(value).with_context(|| format!("{name} is {value}"))
    };
    Ok(Plan {
        target: target(&arguments.vip, arguments.port)?,
        sources: arguments.sources.as_deref().map(sources).transpose()?,
        prompt: Prompt::new(
            &arguments.model,
            arguments.prompt_tokens,
            arguments.output_tokens,
            !arguments.no_stream,
        ),
        rate: arguments.rate,
        seed: arguments.seed,
        even: arguments.even,
        mean_turns: arguments.turns,
        length: seconds("--seconds", arguments.seconds)?,
        requests: arguments.requests,
        prefill: arguments.prefill,
        timeout: seconds("--timeout-seconds", arguments.timeout_seconds)?,
    })
}

fn sources(text: &str) -> anyhow::Result<Sources> {
    let parsed = text
        .split_once('/')
        .and_then(|(address, length)| Sources::new(address.parse().ok()?, length.parse().ok()?));
    parsed.with_context(|| format!("--sources {text} is no IPv4 prefix of at most 32 bits"))
}

fn target(vip: &str, port: u16) -> anyhow::Result<Target> {
    match vip.split_once('/') {
        Some((address, "64")) => {
            let prefix = address.parse().with_context(|| format!("--vip {vip} is no IPv6 prefix"))?;
            Ok(Target::Prefix(prefix, port))
        }
        Some(_) => bail!("--vip {vip} must be an address or a /64"),
        None => {
            let address: IpAddr = vip.parse().with_context(|| format!("--vip {vip} is no address"))?;
            Ok(Target::Address(SocketAddr::new(address, port)))
        }
    }
}
