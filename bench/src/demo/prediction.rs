//! What the assignment expects of a policy, from the controller's own solver.
use std::{collections::BTreeMap, path::Path, process::Command};

use anyhow::{Context, bail};
use penstock_controller::{
    assignment::report::{Report, WeightRow},
    fleet::{
        Fleet,
        parts::{Class, EngineGroup},
        settings::PolicyName,
    },
};
use penstock_wire::ClassId;
use serde::Serialize;

use super::queue;
use crate::{
    engine::curve::{Profile, Shape},
    testbed::{control::policy_name, fleet::followed},
};

/// One policy's expectation for the stated demand.
#[derive(Clone, Debug)]
pub(super) struct Prediction {
    pub(super) report: Report,
    pub(super) expected: Expected,
    /// Arrivals of each class, in seconds of its rate, that are as much work as is in flight under the answer if half of
    /// their output is left on average.
    pub(super) prefill_seconds: BTreeMap<ClassId, f64>,
}

/// Means over all served requests, ms; `None` where a group is offered more than it can do.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Expected {
    /// The assignment's own number: steady rates.
    pub(super) mean_e2e_ms: Option<f64>,
    /// The same with Poisson arrivals at each engine.
    pub(super) with_arrivals_ms: Option<f64>,
    /// Round trips alone.
    pub(super) network_ms: f64,
}

impl Prediction {
    /// Asks `penstock-controller solve` for the running fleet's file.
    pub(super) fn of(controller: &Path, fleet_file: &Path, policy: PolicyName) -> anyhow::Result<Self> {
        let output = Command::new(controller)
            .args(["solve", "--json", "--policy", policy_name(policy)])
            .arg(fleet_file)
            .output()
            .with_context(|| format!("cannot start {}", controller.display()))?;
        if !output.status.success() {
            bail!("penstock-controller solve: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let report: Report = serde_json::from_slice(&output.stdout).context("the solver's answer")?;
        let fleet = penstock_controller::fleet::read(fleet_file)?;
        let expected = expect(&fleet, &report)?;
        let prefill_seconds = prefill_seconds(&fleet, &report)?;
        Ok(Self { report, expected, prefill_seconds })
    }
}

fn expect(fleet: &Fleet, report: &Report) -> anyhow::Result<Expected> {
    let overloaded = report.groups.iter().any(|group| group.utilisation > 1.0);
    let (mut served, mut network, mut delay) = (0.0, 0.0, Some(0.0));
    for row in report.weights.iter().filter(|row| row.rps > 0.0) {
        let pair = Pair::of(fleet, report, row)?;
        let frontend =
            fleet.frontend(&row.frontend).context("a frontend of the answer is not in the file")?;
        let rtt = fleet.rtt(&frontend.site, &pair.group.site).map_or(0.0, |rtt| rtt.get());
        served += row.rps;
        network += row.rps * pair.class.round_trips.get() * rtt;
        delay = delay.zip(pair.with_arrivals_ms()).map(|(sum, engine)| sum + row.rps * engine);
    }
    let network_ms = network / served;
    Ok(Expected {
        mean_e2e_ms: report.mean_e2e_ms.filter(|_| !overloaded),
        with_arrivals_ms: delay.map(|delay| delay / served + network_ms),
        network_ms,
    })
}

fn prefill_seconds(fleet: &Fleet, report: &Report) -> anyhow::Result<BTreeMap<ClassId, f64>> {
    let mut sums: BTreeMap<ClassId, (f64, f64)> = BTreeMap::new();
    for row in report.weights.iter().filter(|row| row.rps > 0.0) {
        let pair = Pair::of(fleet, report, row)?;
        let (seconds, rps) = sums.entry(row.class.clone()).or_default();
        // A request found in flight has half of its work left on average. One that starts with half of its output has
        // all of its prompt to do as well.
        let half = Shape { output_tokens: pair.shape.output_tokens / 2.0, ..pair.shape };
        let fewer = 0.5 * pair.profile.work(pair.shape) / pair.profile.work(half);
        *seconds += row.rps * fewer * pair.profile.latency(pair.shape, pair.utilisation.min(1.0));
        *rps += row.rps;
    }
    Ok(sums.into_iter().map(|(class, (seconds, rps))| (class, seconds / rps)).collect())
}

/// A class at a group, with the group's engines sharing its load evenly.
struct Pair<'a> {
    class: &'a Class,
    group: &'a EngineGroup,
    profile: Profile,
    shape: Shape,
    reference: Shape,
    load: f64,
    utilisation: f64,
}

impl<'a> Pair<'a> {
    fn of(fleet: &'a Fleet, report: &Report, row: &WeightRow) -> anyhow::Result<Self> {
        let group = fleet.group(&row.group).context("a group of the answer is not in the file")?;
        let class = fleet.class(&row.class).context("a class of the answer is not in the file")?;
        let stated = fleet.profiles.iter().find(|profile| profile.id == group.profile);
        let stated = stated.context("a group's profile is not in the file")?;
        let load = report.groups.iter().find(|load| load.id == row.group);
        let load = load.context("the answer has no load for a group")?;
        Ok(Self {
            class,
            group,
            profile: followed(stated, 1.0)?,
            shape: Shape { prompt_tokens: class.mean_prompt.get(), output_tokens: class.mean_output.get() },
            reference: Shape {
                prompt_tokens: stated.reference.prompt.get(),
                output_tokens: stated.reference.output.get(),
            },
            load: load.load_rps,
            utilisation: load.utilisation,
        })
    }

    /// Mean ms at one engine with Poisson arrivals; `None` where it is offered more than it can do.
    fn with_arrivals_ms(&self) -> Option<f64> {
        let rate = self.load / f64::from(self.group.replicas);
        let mean = queue::mean_latency(&self.profile, self.reference, rate)?;
        let added = mean - self.profile.latency(self.reference, 0.0);
        Some(1_000.0 * (self.profile.latency(self.shape, 0.0) + self.profile.work(self.shape) * added))
    }
}
