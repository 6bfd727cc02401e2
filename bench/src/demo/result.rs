//! What a policy's phase measured, and the comparison of all.
use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use penstock_controller::fleet::{Fleet, settings::PolicyName};
use penstock_wire::{ClassId, FrontendId, GroupId};
use serde::Serialize;

use super::{
    prediction::{Expected, Prediction},
    screen::Weights,
    tail::Seen,
};
use crate::{
    load::{
        record::Outcome,
        summary::{Report, Summary},
    },
    testbed::control::policy_name,
};

/// Everything that the demo found, as `--json` writes it.
#[derive(Debug, Serialize)]
pub(super) struct DemoResult {
    /// Factor on the file's demand and capacity.
    pub(super) scale: f64,
    /// Tokens of one event of a stream.
    pub(super) stream_interval: u32,
    /// Round trips that each request takes: a new TCP connection, then the request.
    pub(super) round_trips: f64,
    pub(super) policies: Vec<PhaseResult>,
}

#[derive(Debug, Serialize)]
pub(super) struct PhaseResult {
    pub(super) policy: &'static str,
    pub(super) measured_seconds: f64,
    pub(super) measured: Report,
    pub(super) expected: Expected,
    pub(super) split: Vec<SplitRow>,
    /// Part of the machine's CPU time that was in use while it was measured.
    pub(super) cpu_busy: f64,
}

/// One frontend's traffic of a class to a group: the assignment's weight for the stated demand, the mean weight that
/// was in force for the measured demand, and the part of the requests that went there.
#[derive(Debug, Serialize)]
pub(super) struct SplitRow {
    pub(super) frontend: FrontendId,
    pub(super) class: ClassId,
    pub(super) group: GroupId,
    pub(super) assigned: f64,
    pub(super) in_force: f64,
    pub(super) measured: f64,
    pub(super) requests: u64,
}

/// Weights in force, added up over looks at the controller.
#[derive(Clone, Debug, Default)]
pub(super) struct InForce {
    sums: BTreeMap<(FrontendId, ClassId, GroupId), f64>,
    looks: u32,
}

impl InForce {
    pub(super) fn add(&mut self, fleet: &Fleet, weights: &Weights) {
        self.looks += 1;
        for ((frontend, class), engines) in weights {
            for (engine, weight) in engines {
                let Some(engine) = fleet.engine(engine) else { continue };
                let key = (frontend.clone(), class.clone(), engine.group.clone());
                *self.sums.entry(key).or_default() += weight;
            }
        }
    }

    fn mean(&self, frontend: &FrontendId, class: &ClassId, group: &GroupId) -> f64 {
        let key = (frontend.clone(), class.clone(), group.clone());
        self.sums.get(&key).copied().unwrap_or(0.0) / f64::from(self.looks.max(1))
    }
}

impl PhaseResult {
    pub(super) fn of(
        fleet: &Fleet,
        policy: PolicyName,
        prediction: &Prediction,
        seen: &[&Seen],
        in_force: &InForce,
        measured_seconds: f64,
        cpu_busy: f64,
    ) -> Self {
        let mut counts: BTreeMap<(&FrontendId, &ClassId), BTreeMap<&GroupId, u64>> = BTreeMap::new();
        for seen in seen {
            let Outcome::Answered(answered) = &seen.record.outcome else { continue };
            if let Some(engine) = fleet.engine(&answered.engine.as_str().into()) {
                let of_pair = counts.entry((&seen.frontend, &seen.class)).or_default();
                *of_pair.entry(&engine.group).or_default() += 1;
            }
        }
        let rows = prediction.report.weights.iter().filter_map(|row| {
            let of_pair = counts.get(&(&row.frontend, &row.class))?;
            let requests = of_pair.get(&row.group).copied().unwrap_or(0);
            let total: u64 = of_pair.values().sum();
            Some(SplitRow {
                frontend: row.frontend.clone(),
                class: row.class.clone(),
                group: row.group.clone(),
                assigned: row.weight,
                in_force: in_force.mean(&row.frontend, &row.class, &row.group),
                measured: requests as f64 / total as f64,
                requests,
            })
        });
        Self {
            policy: policy_name(policy),
            measured_seconds,
            measured: Summary::of(seen.iter().map(|seen| &seen.record)).report(),
            expected: prediction.expected,
            split: rows.collect(),
            cpu_busy,
        }
    }
}

impl PhaseResult {
    fn print_split(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "\nSplit under {}: weights for the stated demand, weights in force on average, measured",
            self.policy
        )?;
        writeln!(
            out,
            "  {:<10} {:<10} {:<12} {:>9} {:>9} {:>9} {:>9}",
            "frontend", "class", "group", "assigned", "in force", "measured", "requests"
        )?;
        for row in self.split.iter().filter(|row| row.assigned + row.in_force + row.measured > 0.0) {
            writeln!(
                out,
                "  {:<10} {:<10} {:<12} {:>8.1}% {:>8.1}% {:>8.1}% {:>9}",
                row.frontend.as_str(),
                row.class.as_str(),
                row.group.as_str(),
                100.0 * row.assigned,
                100.0 * row.in_force,
                100.0 * row.measured,
                row.requests
            )?;
        }
        Ok(())
    }
}

/// One line of the comparison: what it is, and its text for a policy.
type Line = (&'static str, fn(&PhaseResult) -> String);

const COMPARISON: [Line; 10] = [
    ("mean E2E, measured", |phase| ms(phase.measured.e2e.mean_ms)),
    ("mean E2E, predicted by the LP", |phase| ms_or_overload(phase.expected.mean_e2e_ms)),
    ("  with Poisson arrivals at each engine", |phase| ms_or_overload(phase.expected.with_arrivals_ms)),
    ("p99 E2E", |phase| ms(phase.measured.e2e.p99_ms)),
    ("p50 TTFT", |phase| ms(phase.measured.ttft.p50_ms)),
    ("p99 TTFT", |phase| ms(phase.measured.ttft.p99_ms)),
    ("mean network overhead, measured", |phase| format!("{:.1} ms", phase.measured.overhead.mean_ms)),
    ("mean network overhead, predicted", |phase| format!("{:.1} ms", phase.expected.network_ms)),
    ("requests answered", |phase| phase.measured.answered.to_string()),
    ("requests failed", |phase| phase.measured.failed.to_string()),
];

fn ms(value: f64) -> String {
    format!("{value:.0} ms")
}

fn ms_or_overload(value: Option<f64>) -> String {
    value.map_or_else(|| "overload".to_owned(), ms)
}

impl DemoResult {
    /// The comparison, for people.
    pub(super) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        if let Some(first) = self.policies.first() {
            first.print_split(out)?;
        }
        writeln!(out, "\nThe same load under each policy")?;
        write!(out, "  {:<44}", "")?;
        for phase in &self.policies {
            write!(out, "{:>14}", phase.policy)?;
        }
        writeln!(out)?;
        for (name, cell) in &COMPARISON {
            write!(out, "  {name:<44}")?;
            for phase in &self.policies {
                write!(out, "{:>14}", cell(phase))?;
            }
            writeln!(out)?;
        }
        self.print_notes(out)
    }

    fn print_notes(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "\n  Each request takes {} round trips, a new TCP connection and the request; the LP counts the same.",
            self.round_trips
        )?;
        writeln!(out, "  Network overhead is the client's time less the engine's own.")?;
        let overloaded = self.policies.iter().any(|phase| phase.expected.mean_e2e_ms.is_none());
        if overloaded {
            writeln!(
                out,
                "  Overload: a group is offered more than it can do. Its queue, and with it the latency, grows as long \
                 as the load lasts."
            )?;
        }
        let busiest = self.policies.iter().map(|phase| phase.cpu_busy).fold(0.0, f64::max);
        if busiest > 0.95 {
            writeln!(
                out,
                "  The machine's CPUs were {:.0} % busy: measured times include waiting for them. Try --scale {:.1}.",
                100.0 * busiest,
                self.scale / 2.0
            )?;
        }
        Ok(())
    }
}
