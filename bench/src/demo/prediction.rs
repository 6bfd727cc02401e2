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

#[cfg(test)]
mod tests {
    use penstock_controller::assignment::report::GroupRow;

    use super::*;
    use crate::testbed::fixture;

    /// A sends 10 req/s to its own site; B sends 5 over 30 ms and 5 to its own.
    fn report(near_utilisation: f64) -> Report {
        let row = |frontend: &str, group: &str, rps, weight| WeightRow {
            frontend: frontend.into(),
            class: "chat".into(),
            group: group.into(),
            rps,
            weight,
        };
        let group = |id: &str, load_rps, utilisation| GroupRow {
            id: id.into(),
            load_rps,
            utilisation,
            shadow_price_ms: None,
        };
        Report {
            mean_e2e_ms: Some(2_500.0),
            objective: 0.0,
            lower_bound: None,
            gap: None,
            weights: vec![row("A", "near", 10.0, 1.0), row("B", "near", 5.0, 0.5), row("B", "far", 5.0, 0.5)],
            shed: Vec::new(),
            groups: vec![group("near", 40.0 * near_utilisation, near_utilisation), group("far", 5.0, 0.25)],
        }
    }

    #[test]
    fn the_network_is_the_mean_of_round_trips_over_requests() {
        let expected = expect(&fixture::fleet(), &report(0.375)).unwrap();

        // (10 * 0.5 + 5 * 30 + 5 * 0.5) / 20: a site to itself is 0.5 ms away.
        assert!((expected.network_ms - 7.875).abs() < 1e-9, "{}", expected.network_ms);
        assert_eq!(expected.mean_e2e_ms, Some(2_500.0));
        assert!(expected.with_arrivals_ms.is_some());
    }

    #[test]
    fn a_group_beyond_its_capacity_has_no_expected_mean() {
        let expected = expect(&fixture::fleet(), &report(1.2)).unwrap();

        assert_eq!((expected.mean_e2e_ms, expected.with_arrivals_ms), (None, None));
    }

    #[test]
    fn prefill_is_half_of_the_work_in_flight() {
        let prefill = prefill_seconds(&fixture::fleet(), &report(1.0)).unwrap();

        // Near at utilisation 1: 900 + 100 * 40 ms, far at 0.25: 315 + 100 * 23.5 ms, weighted 15 to 5. Half of it,
        // over (60 + 50) / (60 + 100), what a request with half of its output is of a whole one.
        let mean = (15.0 * 4.9 + 5.0 * 2.665) / 20.0;
        let wanted = mean * 0.5 * 160.0 / 110.0;
        let found = prefill[&ClassId::from("chat")];
        assert!((found - wanted).abs() < 1e-9, "{found} is not {wanted}");
    }
}
