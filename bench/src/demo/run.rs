//! The demo from its first line to its last.
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Write,
    path::PathBuf,
    thread,
    time::Instant,
};

use anyhow::Context;
use penstock_controller::fleet::{Fleet, settings::PolicyName};
use penstock_wire::ClassId;

use super::{
    gauge::Gauges,
    phase::{self, Plan},
    prediction::Prediction,
    result::DemoResult,
    screen::Screen,
    stop::Stop,
};
use crate::testbed::fleet::{Clients, Options as TestbedOptions, Testbed};

/// The three-region fleet.
const TALK: &str = include_str!("../../../examples/talk.toml");
/// Each request takes a new TCP connection and then asks: one round trip each.
const ROUND_TRIPS: f64 = 2.0;
/// CPU time of one request (connection, routing, both ends) and of each event of its stream, with room for bursts.
const REQUEST_CPU_SECONDS: f64 = 1.2e-3;
const EVENT_CPU_SECONDS: f64 = 45e-6;
/// Part of the machine that the load may take.
const CPU_SHARE: f64 = 0.75;
/// Seconds of load before it is measured. The optimizer's demand takes its time to be known.
const WARM_UP: [f64; 3] = [6.0, 4.0, 4.0];

/// What a person may choose.
#[derive(Clone, Debug)]
pub struct Options {
    /// Another fleet file than the three-region example.
    pub fleet: Option<PathBuf>,
    /// Measured seconds of each policy.
    pub seconds: f64,
    pub json: Option<PathBuf>,
    /// Factor on demand and capacity; chosen by the machine's CPUs when absent.
    pub scale: Option<f64>,
    /// Tokens of one event of a stream.
    pub stream_interval: u32,
}

/// Runs the demo.
///
/// # Errors
/// Anything that keeps the fleet from running. What was made is removed in every case.
pub fn run(options: &Options, stop: &Stop) -> anyhow::Result<()> {
    let text = match &options.fleet {
        Some(path) => fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?,
        None => TALK.to_owned(),
    };
    let fleet = match &options.fleet {
        Some(path) => penstock_controller::fleet::read(path)?,
        None => penstock_controller::fleet::parse(TALK).context("the built-in fleet")?,
    };
    let scale = options.scale.unwrap_or_else(|| affordable(&fleet, options.stream_interval));
    let mut screen = Screen::new();
    screen.say(&introduction(&fleet, scale, options))?;
    let begun = Instant::now();
    let testbed_options = TestbedOptions {
        scale,
        round_trips: Some(ROUND_TRIPS),
        stream_interval: options.stream_interval,
        engine_speed: 1.0,
    };
    let mut testbed = Testbed::build("demo", &text, testbed_options)?;
    stop.check()?;
    let gauges = gauges(&testbed);
    screen.say(&format!(
        "network, certificates and engines are up after {:.1} s",
        begun.elapsed().as_secs_f64()
    ))?;
    screen.clear()?;
    let mut result = DemoResult {
        scale,
        stream_interval: options.stream_interval,
        round_trips: ROUND_TRIPS,
        policies: Vec::new(),
    };
    // The same for each policy.
    let prefill_seconds = prefill_seconds(&testbed, &text)?;
    // Nearest last: what it queues at an overloaded group would still be there for the policy after it.
    let policies = [PolicyName::Optimizer, PolicyName::RoundRobin, PolicyName::Nearest];
    for (policy, warm_up) in policies.into_iter().zip(WARM_UP) {
        let clients = Clients {
            seconds: 0.0,
            seed: 7,
            mean_turns: 2.0,
            ipv4_share: 0.1,
            even: false,
            output_tokens: None,
            prefill_seconds: prefill_seconds.clone(),
        };
        let plan = Plan { policy, warm_up, measured: options.seconds, clients, scale };
        result.policies.push(phase::run(&mut testbed, &plan, &gauges, stop, &mut screen)?);
    }
    drop(gauges);
    screen.clear()?;
    result.print(&mut std::io::stdout().lock())?;
    if let Some(path) = &options.json {
        let text = serde_json::to_string_pretty(&result).context("writing the result")?;
        File::create(path)
            .and_then(|mut file| writeln!(file, "{text}"))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    drop(testbed);
    screen.say(&format!("\n  done in {:.1} s; everything is removed", begun.elapsed().as_secs_f64()))?;
    Ok(())
}

/// The largest factor on the load that the machine's CPUs can hold, at most 1, in steps of 5 %.
fn affordable(fleet: &Fleet, stream_interval: u32) -> f64 {
    let cpus = thread::available_parallelism().map_or(1.0, |cpus| cpus.get() as f64);
    let needed: f64 = fleet
        .demand
        .iter()
        .map(|demand| {
            let tokens = fleet.class(&demand.class).map_or(0.0, |class| class.mean_output.get());
            let events = tokens / f64::from(stream_interval.max(1));
            demand.rate.get() * (REQUEST_CPU_SECONDS + events * EVENT_CPU_SECONDS)
        })
        .sum();
    let scale = (CPU_SHARE * cpus / needed).min(1.0);
    ((scale * 20.0).floor() / 20.0).max(0.05)
}

/// What is in flight under the optimum, for the stated demand.
fn prefill_seconds(testbed: &Testbed, text: &str) -> anyhow::Result<BTreeMap<ClassId, f64>> {
    let path = testbed.run.folder().join("stated.toml");
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    let prediction = Prediction::of(&testbed.setup.binaries.controller, &path, PolicyName::Optimizer)?;
    Ok(prediction.prefill_seconds)
}

fn introduction(fleet: &Fleet, scale: f64, options: &Options) -> String {
    let demand: f64 = fleet.demand.iter().map(|demand| demand.rate.get()).sum();
    let scaled = if scale < 1.0 {
        format!(
            "scaled down alike to {:.0} % ({:.0} of {demand:.0} req/s), which these CPUs can hold",
            100.0 * scale,
            scale * demand
        )
    } else {
        format!("not scaled down ({demand:.0} req/s)")
    };
    let interval = match options.stream_interval {
        1 => "each token is sent by itself".to_owned(),
        tokens => format!("the first token is sent by itself, the others {tokens} an event"),
    };
    format!(
        "{} sites, {} frontends, {} engines; demand and capacity are {scaled}; {interval}",
        fleet.network.sites().count(),
        fleet.frontends.len(),
        fleet.engines.len()
    )
}

fn gauges(testbed: &Testbed) -> Gauges {
    let nodes = testbed.setup.network.engines.iter().map(|node| {
        let engines = node.engines.iter().filter_map(|placed| {
            let engine = testbed.fleet.engine(&placed.id)?;
            Some((engine.id.clone(), engine.address))
        });
        (node.netns.clone(), engines.collect())
    });
    Gauges::start(nodes.collect())
}
