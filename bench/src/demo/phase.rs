//! One policy: a control plane of its own, the load, and what was seen of it.
use std::{
    fs, thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use nix::sys::signal::Signal;
use penstock_controller::{admin, fleet::settings::PolicyName};

use super::{
    gauge::Gauges,
    prediction::Prediction,
    result::{InForce, PhaseResult},
    screen::{Screen, View},
    stop::Stop,
    tail::{Seen, Tail},
};
use crate::testbed::{
    control::{Control, policy_name},
    fleet::{Clients, Load, Testbed},
};

const LOOK_PERIOD: Duration = Duration::from_millis(100);
/// Statuses are asked for this often.
const STATUS_PERIOD: f64 = 1.0;
/// The live table shows what ended within so many seconds.
const RECENT: f64 = 5.0;
/// The controller comes back this long after the start of the load.
const RESUME_AT: f64 = 1.5;
/// How long a load generator may take to create its file, or to end.
const LOAD_LIMIT: Duration = Duration::from_secs(10);

/// What to run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) policy: PolicyName,
    /// Seconds of load before it is measured.
    pub(super) warm_up: f64,
    /// Seconds of measured load.
    pub(super) measured: f64,
    pub(super) clients: Clients,
    pub(super) scale: f64,
}

/// Runs one phase from an empty control plane to its end.
pub(super) fn run(
    testbed: &mut Testbed,
    plan: &Plan,
    gauges: &Gauges,
    stop: &Stop,
    screen: &mut Screen,
) -> anyhow::Result<PhaseResult> {
    let name = policy_name(plan.policy);
    stop.check()?;
    let mut control = testbed
        .start_control(name, plan.policy, None)
        .with_context(|| format!("the control plane of policy {name} did not come up"))?;
    let prediction = Prediction::of(&testbed.setup.binaries.controller, control.fleet_file(), plan.policy)?;
    // The load begins without a controller: the agents route all the same, and the controller that comes back measures
    // this demand alone, without the seconds before it.
    control.pause_controller(&mut testbed.run)?;
    let seconds = plan.warm_up + plan.measured + STATUS_PERIOD;
    let loads = testbed.start_clients(name, &Clients { seconds, ..plan.clients.clone() })?;
    let mut watch = Watch::start(testbed, control, &loads, plan)?;
    let result = watch.run(testbed, gauges, stop, screen).map(|cpu_busy| {
        let window = plan.warm_up..plan.warm_up + plan.measured;
        let seen: Vec<&Seen> = watch.seen.iter().filter(|seen| window.contains(&seen.ended_at())).collect();
        PhaseResult::of(
            &testbed.fleet,
            plan.policy,
            &prediction,
            &seen,
            &watch.in_force,
            plan.measured,
            cpu_busy,
        )
    })?;
    for load in &loads {
        testbed.run.process(load.process).signal(Signal::SIGTERM)?;
        testbed.run.process(load.process).wait_end(LOAD_LIMIT)?;
    }
    testbed.stop_control(watch.control)?;
    Ok(result)
}

/// A phase in progress.
struct Watch<'l> {
    plan: &'l Plan,
    control: Control,
    loads: &'l [Load],
    tails: Vec<Tail>,
    seen: Vec<Seen>,
    in_force: InForce,
    start: Instant,
}

impl<'l> Watch<'l> {
    fn start(
        testbed: &mut Testbed,
        control: Control,
        loads: &'l [Load],
        plan: &'l Plan,
    ) -> anyhow::Result<Self> {
        let start = Instant::now();
        let needs: Vec<_> = loads.iter().map(|load| load.process).collect();
        testbed.run.eventually("record file of every load", LOAD_LIMIT, &needs, || {
            loads.iter().all(|load| load.records.is_file()).then_some(())
        })?;
        let open = |load: &Load| Tail::open(&load.records, load.frontend.clone(), load.class.clone());
        let tails = loads.iter().map(open).collect::<Result<Vec<_>, _>>().context("reading records")?;
        Ok(Self { plan, control, loads, tails, seen: Vec::new(), in_force: InForce::default(), start })
    }

    /// Watches until the measured time is over. Gives the part of the CPU time that was in use.
    fn run(
        &mut self,
        testbed: &mut Testbed,
        gauges: &Gauges,
        stop: &Stop,
        screen: &mut Screen,
    ) -> anyhow::Result<f64> {
        let end = self.plan.warm_up + self.plan.measured;
        let mut is_paused = true;
        let mut next_status = 0.0;
        let mut cpu = None;
        loop {
            stop.check()?;
            let elapsed = self.start.elapsed().as_secs_f64();
            for tail in &mut self.tails {
                tail.read(&mut self.seen).context("reading records")?;
            }
            if elapsed >= self.plan.warm_up && cpu.is_none() {
                cpu = Some(CpuTime::now()?);
            }
            if elapsed >= end {
                let since = cpu.unwrap_or_default();
                return Ok(CpuTime::now()?.busy_since(since));
            }
            if is_paused && elapsed >= RESUME_AT {
                testbed.resume_controller(&mut self.control)?;
                is_paused = false;
            }
            if elapsed >= next_status {
                next_status = elapsed + STATUS_PERIOD;
                self.show(testbed, gauges, screen, elapsed)?;
            }
            thread::park_timeout(LOOK_PERIOD);
        }
    }

    fn show(
        &mut self,
        testbed: &mut Testbed,
        gauges: &Gauges,
        screen: &mut Screen,
        elapsed: f64,
    ) -> anyhow::Result<()> {
        for load in self.loads {
            testbed.run.process(load.process).expect_running()?;
        }
        for agent in &self.control.agents {
            testbed.run.process(agent.process).expect_running()?;
        }
        let weights = self.control.weights();
        let is_warm = elapsed >= self.plan.warm_up;
        if is_warm {
            self.in_force.add(&testbed.fleet, &weights);
        }
        // A controller that is paused does not answer; the table then shows no measured demand.
        let controller = admin::client::status(self.control.controller_socket()).ok();
        let agents: Vec<_> = self.control.agents.iter().filter_map(|agent| agent.status()).collect();
        let recent: Vec<&Seen> =
            self.seen.iter().filter(|seen| seen.ended_at() >= elapsed - RECENT).collect();
        screen.show(&View {
            fleet: &testbed.fleet,
            scale: self.plan.scale,
            policy: policy_name(self.plan.policy),
            elapsed,
            total: self.plan.warm_up + self.plan.measured,
            is_warm,
            controller: controller.as_ref(),
            agents: &agents,
            weights: &weights,
            engines: &gauges.latest(),
            recent: &recent,
            recent_seconds: RECENT.min(elapsed.max(1.0)),
        })?;
        Ok(())
    }
}

/// CPU time of the whole machine since its start, in ticks.
#[derive(Clone, Copy, Debug, Default)]
struct CpuTime {
    busy: u64,
    idle: u64,
}

impl CpuTime {
    fn now() -> anyhow::Result<Self> {
        let text = fs::read_to_string("/proc/stat").context("reading /proc/stat")?;
        let line = text.lines().next().unwrap_or_default();
        let ticks: Vec<u64> =
            line.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
        // Idle and waiting for disks; guest time is counted in user time already.
        let idle = ticks.iter().skip(3).take(2).sum();
        let total: u64 = ticks.iter().take(8).sum();
        Ok(Self { busy: total - idle, idle })
    }

    fn busy_since(self, earlier: Self) -> f64 {
        let busy = (self.busy - earlier.busy) as f64;
        let idle = (self.idle - earlier.idle) as f64;
        if busy + idle > 0.0 { busy / (busy + idle) } else { 0.0 }
    }
}
