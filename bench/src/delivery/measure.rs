//! `penstock-bench delivery`: what delivery costs with many agents on one controller.
//!
//! The controller runs in this process, the agents in a second one: real QUIC sessions over loopback, with keep-alives
//! and a demand report a second each. Times run from the publication of an epoch to the controller's receipt of each
//! agent's word that it is in force, so they include the way back. What comes before, planning the epoch and keeping it
//! on disk, stands in a row of its own.
use std::{
    env, fs,
    io::Read as _,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use hdrhistogram::Histogram;
use penstock_controller::{
    publish::{AgentStatus, Publisher},
    weights::{Cause, Weights},
};
use penstock_wire::Epoch;
use tokio::time::{sleep_until, timeout};

use super::{
    fleet::{self, host_name},
    lab::{Lab, publish},
};
use crate::{row::Row, suite::Options};

const ENGINES: usize = 200;
const SLOTS: usize = 1 << 16;
/// Slots that each engine gains or gives in an update: above the dead band of 2 % of 327 slots.
const STEP: usize = 10;
/// Engines that gain, and as many that give: 300 slots an update.
const MOVERS: usize = 30;
const BETWEEN_UPDATES: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(300);
/// Set for the process of the agents: where the controller listens, and the lab's folder.
const AGENTS_OF: &str = "PENSTOCK_BENCH_AGENTS_OF";

pub fn run(options: &Options) -> anyhow::Result<Vec<Row>> {
    let count = options.agents.unwrap_or(if options.quick { 200 } else { 1000 });
    let updates = if options.quick { 10 } else { 40 };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    match env::var(AGENTS_OF) {
        Ok(place) => runtime.block_on(agents(&place, count)).map(|()| vec![]),
        Err(_absent) => runtime.block_on(controller(count, updates)),
    }
}

/// The process of the agents: ends when its input does.
async fn agents(place: &str, count: usize) -> anyhow::Result<()> {
    let (address, folder) = place.split_once(' ').context("the place of the controller")?;
    let input_ends = tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0]));
    // How the input ends does not matter.
    fleet::run(folder.as_ref(), address, count, async { drop(input_ends.await) }).await
}

async fn controller(count: usize, updates: usize) -> anyhow::Result<Vec<Row>> {
    let lab = Lab::new(count, ENGINES, SLOTS)?;
    for number in 0..count {
        lab.issue_agent("ca", &host_name(number), "A", Duration::from_secs(24 * 3600))?;
    }
    let mut publisher = lab.controller(None, Duration::ZERO).await?;
    // The control loop reads the reports; here somebody else must.
    let mut reports = publisher.take_reports().context("reports")?;
    let reader = tokio::spawn(async move { while reports.recv().await.is_some() {} });
    let first = publish(&mut publisher, &lab, &weights(&lab, 0))?.context("a first epoch")?;
    let memory_before = resident_kib()?;
    let mut process = start_agents(&lab, &publisher, count)?;
    let result = measure(&mut publisher, &lab, count, updates, first.epoch, memory_before).await;
    drop(process.stdin.take());
    process.wait()?;
    publisher.shutdown().await;
    reader.await?;
    result
}

async fn measure(
    publisher: &mut Publisher,
    lab: &Lab,
    count: usize,
    updates: usize,
    first: Epoch,
    memory_before: f64,
) -> anyhow::Result<Vec<Row>> {
    all_at(publisher, count, first).await.context("agents did not connect")?;
    let mut latency = Histogram::<u64>::new_with_bounds(1, 600_000_000, 3)?;
    let mut kept = latency.clone();
    let mut moved = 0;
    // The first update finds connections warm, as all later ones do.
    settle().await;
    let (sent_before, cpu_before, started) = (sent(&publisher.agents()), cpu_seconds()?, Instant::now());
    for update in 1..=updates {
        let begun = Instant::now();
        let publication = publish(publisher, lab, &weights(lab, update))?.context("an epoch each update")?;
        kept.record(u64::try_from(begun.elapsed().as_micros())?)?;
        moved += publication.moved_slots;
        for agent in all_at(publisher, count, publication.epoch).await? {
            let after = agent.installed_after.context("a time for each agent")?;
            latency.record(u64::try_from(after.as_micros())?)?;
        }
        settle().await;
    }
    let statuses = publisher.agents();
    let bytes = (sent(&statuses) - sent_before) as f64 / (count * updates) as f64;
    let cores = (cpu_seconds()? - cpu_before) / started.elapsed().as_secs_f64();
    let memory = (resident_kib()? - memory_before) / count as f64;
    anyhow::ensure!(moved == updates * MOVERS * STEP, "{moved} slots moved");
    anyhow::ensure!(statuses.iter().all(|agent| agent.mismatches == 0), "an agent found other hashes");
    let case = format!("agents{count}");
    let row = |metric: &str, value: f64, unit: &'static str| {
        Row::new("delivery", case.clone(), metric, value, unit)
    };
    let at = |times: &Histogram<u64>, quantile: f64| times.value_at_quantile(quantile) as f64 / 1000.0;
    Ok(vec![
        row("plan_and_keep_p50_ms", at(&kept, 0.5), "ms"),
        row("installed_p50_ms", at(&latency, 0.5), "ms"),
        row("installed_p99_ms", at(&latency, 0.99), "ms"),
        row("installed_max_ms", latency.max() as f64 / 1000.0, "ms"),
        row("bytes_per_agent_update", bytes, "bytes"),
        row("controller_kib_per_agent", memory, "KiB"),
        row("controller_cores", cores, "cores"),
    ])
}

fn start_agents(lab: &Lab, publisher: &Publisher, count: usize) -> anyhow::Result<Child> {
    let place = format!("{} {}", publisher.address(), lab.path("").display());
    Command::new(env::current_exe()?)
        .args(["delivery", "--agents", &count.to_string()])
        .env(AGENTS_OF, place)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .context("starting the process of the agents")
}

/// All agents, once they have `epoch`.
async fn all_at(publisher: &Publisher, count: usize, epoch: Epoch) -> anyhow::Result<Vec<AgentStatus>> {
    let reached = async {
        loop {
            let agents = publisher.agents();
            if agents.len() == count && agents.iter().all(|agent| agent.installed == Some(epoch)) {
                return agents;
            }
            sleep_until(tokio::time::Instant::now() + Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, reached).await.with_context(|| format!("epoch {epoch} is not everywhere"))
}

async fn settle() {
    sleep_until(tokio::time::Instant::now() + BETWEEN_UPDATES).await;
}

/// Update after update, [`MOVERS`] engines gain [`STEP`] slots and as many others give them.
fn weights(lab: &Lab, update: usize) -> Weights {
    let mut slots = vec![SLOTS / ENGINES; ENGINES];
    // 65,536 slots over 200 engines leave 136 over.
    slots.iter_mut().take(SLOTS % ENGINES).for_each(|slots| *slots += 1);
    // Pairs of one that gains and one that gives wander over the engines; every second update takes it back.
    if update % 2 == 1 {
        let first = update / 2 * 7;
        for pair in 0..MOVERS {
            let (gains, gives) = ((first + 2 * pair) % ENGINES, (first + 2 * pair + 1) % ENGINES);
            slots[gains] += STEP;
            slots[gives] -= STEP;
        }
    }
    let parts: Vec<f64> = slots.iter().map(|slots| *slots as f64).collect();
    lab.weights(&parts, Cause::Failure)
}

fn sent(agents: &[AgentStatus]) -> u64 {
    agents.iter().map(|agent| agent.sent_bytes).sum()
}

/// Resident memory of this process.
fn resident_kib() -> anyhow::Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// CPU time of this process.
fn cpu_seconds() -> anyhow::Result<f64> {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF)?;
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}
