//! The HTTP door beside HAProxy and nginx: CPU, latency and memory for the same work, in the same run.
//!
//! Engine and client run in this process on the first CPU, each proxy in a process of its own on the second. CPU is
//! what the scheduler charged to the proxy's threads: wall time says nothing on a busy machine.
mod case;
mod client;
mod engine;
mod peer;

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use anyhow::{Context, Result};
use penstock_wire::{EngineEntry, EngineState, Epoch, Snapshot, TableEntry};

use crate::{row::Row, suite::Options};
use case::{CASES, Case, Kind};
use peer::{Peer, Proxy};

/// Files and sockets besides the streams: connections of the warm-up linger while the streams open.
const OTHER_DESCRIPTORS: usize = 3_000;
const BASELINE: Peer = Peer::HaProxy;

/// One proxy's figures of one round.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    cpu_per_10k: f64,
    added_p50_us: f64,
    added_p99_us: f64,
    kib_per_stream: f64,
}

/// Runs the suite.
///
/// # Errors
/// A proxy is not installed or does not start, or an answer is wrong.
pub fn run(options: &Options) -> Result<Vec<Row>> {
    // This process holds both ends of each stream, the proxy too; some descriptors serve other ends.
    let most_streams = peer::raise_descriptors()?.saturating_sub(OTHER_DESCRIPTORS) / 2;
    let rounds = if options.quick { 3 } else { 5 };
    let engine = engine::Engine::start()?;
    let mut rows = Vec::new();
    for case in CASES {
        let case = if options.quick { case.quick() } else { *case }.with_at_most(most_streams);
        let mut figures: BTreeMap<&'static str, Vec<Figures>> = BTreeMap::new();
        for round in 0..rounds {
            // Each round starts with another proxy, so that none always follows the same one.
            for turn in 0..Peer::ALL.len() {
                let peer = Peer::ALL[(turn + round) % Peer::ALL.len()];
                let proxy = Proxy::start(peer, engine.address)?;
                let measured = measure(&case, &proxy, engine.address);
                let measured = measured.with_context(|| format!("{} behind {}", case.name, peer.name()))?;
                figures.entry(peer.name()).or_default().push(measured);
            }
        }
        rows.extend(rows_of(&case, &figures));
    }
    Ok(rows)
}

fn measure(case: &Case, proxy: &Proxy, engine: SocketAddr) -> Result<Figures> {
    if case.kind == Kind::Idle {
        let before = proxy.resident_kib()?;
        let streams = client::open_streams(proxy.address, case.requests)?;
        let kib = proxy.resident_kib()?.saturating_sub(before);
        #[expect(clippy::cast_precision_loss, reason = "KiB of a process")]
        let kib_per_stream = kib as f64 / case.requests as f64;
        drop(streams);
        return Ok(Figures { kib_per_stream, ..Figures::default() });
    }
    client::open_loop(proxy.address, &case.warm_up())?;
    let before = proxy.cpu()?;
    let served = client::open_loop(proxy.address, case)?;
    let used = proxy.cpu()?.saturating_sub(before);
    #[expect(clippy::cast_precision_loss, reason = "a number of requests")]
    let cpu_per_10k = used.as_secs_f64() * 10_000.0 / served as f64;
    let mut figures = Figures { cpu_per_10k, ..Figures::default() };
    if case.kind == Kind::Whole {
        let bare = client::one_at_a_time(engine, case)?;
        let through = client::one_at_a_time(proxy.address, case)?;
        figures.added_p50_us = added(&bare, &through, 0.5);
        figures.added_p99_us = added(&bare, &through, 0.99);
    }
    Ok(figures)
}

/// Difference of a quantile of sorted latencies, in microseconds.
fn added(bare: &[Duration], through: &[Duration], quantile: f64) -> f64 {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index"
    )]
    let at =
        |sorted: &[Duration]| sorted[((sorted.len() - 1) as f64 * quantile) as usize].as_secs_f64() * 1e6;
    at(through) - at(bare)
}

fn rows_of(case: &Case, figures: &BTreeMap<&'static str, Vec<Figures>>) -> Vec<Row> {
    type Pick = fn(&Figures) -> f64;
    let metrics: &[(&str, &str, Pick)] = match case.kind {
        Kind::Idle => &[("kib_per_stream", "KiB", |figures| figures.kib_per_stream)],
        Kind::Stream => &[("cpu_s_per_10k", "s", |figures| figures.cpu_per_10k)],
        Kind::Whole => &[
            ("cpu_s_per_10k", "s", |figures| figures.cpu_per_10k),
            ("added_p50_us", "us", |figures| figures.added_p50_us),
            ("added_p99_us", "us", |figures| figures.added_p99_us),
        ],
    };
    let mut rows = Vec::new();
    for &(metric, unit, pick) in metrics {
        let medians: BTreeMap<_, _> =
            figures.iter().map(|(peer, all)| (*peer, median(all.iter().map(pick).collect()))).collect();
        let base = medians[BASELINE.name()];
        rows.push(
            Row::new("proxy", case.name, metric, medians[Peer::Penstock.name()], unit)
                .against(BASELINE.name(), base),
        );
        let nginx = Peer::Nginx.name();
        let name = format!("{metric}_{nginx}");
        rows.push(Row::new("proxy", case.name, name, medians[nginx], unit).against(BASELINE.name(), base));
    }
    rows
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A table of class `chat` over `engines`, slots dealt in turn.
pub fn snapshot(engines: &[SocketAddr]) -> Snapshot {
    let indexes: Vec<u16> = (0..).take(engines.len()).collect();
    let entry = |(&index, &address): (&u16, &SocketAddr)| EngineEntry {
        index,
        id: format!("engine-{index}").as_str().into(),
        group: "engines".into(),
        site: "here".into(),
        address,
        address6: None,
        forwarding: None,
        rtt_us: 100,
        state: EngineState::Serving,
    };
    let slots = (0..1 << 16).map(|slot| indexes[slot % indexes.len()]).collect();
    Snapshot {
        epoch: Epoch(1),
        frontend: "bench".into(),
        secret: *b"a bench's secret",
        nat_prefix: None,
        failure_handling: false,
        engines: indexes.iter().zip(engines).map(entry).collect(),
        services: vec![],
        tables: vec![TableEntry::from_slots("chat".into(), &indexes, slots)],
    }
}
