//! Feedback: weights follow performance scores, as in routers without a model of the fleet. Kept so that a fleet can
//! move from such a loop to the optimizer and compare.
//!
//! Each tick, a group's score is the fleet's mean delay over the group's own smoothed delay, and every weight moves in
//! proportion to its score, within clamps. The delay of a group is what its profile says at the load that the weights
//! in force bring. The loop knows neither distance nor capacity: it hunts where profiles are steep.
use std::collections::BTreeMap;

use penstock_wire::GroupId;

use super::{Plan, Policy, proportional};
use crate::assignment::instance::Instance;
use crate::assignment::published::Published;
use crate::fleet::settings::PolicyName;
use crate::solve::SolveError;

/// Weight of the newest sample in a group's smoothed delay.
const SMOOTHING: f64 = 0.3;
/// Relative change of a weight for each unit that its score is off 1.
const PROPORTION: f64 = 0.5;
/// Largest relative change of a weight in one tick, either way.
const STEP: f64 = 0.2;
/// No weight falls below this share of an even split, so that every group keeps being measured.
const FLOOR: f64 = 0.02;
const TICKS_TO_SETTLE: u32 = 300;

#[derive(Debug, Default)]
pub struct Feedback {
    smoothed_ms: BTreeMap<GroupId, f64>,
    in_force: Published,
}

impl Policy for Feedback {
    fn name(&self) -> PolicyName {
        PolicyName::Feedback
    }

    fn ticks_to_settle(&self) -> u32 {
        TICKS_TO_SETTLE
    }

    fn plan(&mut self, instance: &Instance) -> Result<Plan, SolveError> {
        let before = self.weights_in_force(instance);
        let scores = self.scores(instance, &before);
        let problem = &instance.problem;
        let weights = proportional(instance, |arc| {
            let group = problem.arcs[arc].group as usize;
            if problem.groups[group].capacity == 0.0 {
                return 0.0;
            }
            let change = (PROPORTION * (scores[group] - 1.0)).clamp(-STEP, STEP);
            (before[arc] * (1.0 + change)).max(floor(instance, arc))
        });
        self.in_force = Published::of(instance, &weights);
        Ok(Plan::by_weights(instance, weights))
    }
}

impl Feedback {
    /// The last tick's weights; an even split over replicas for a pair that had none.
    fn weights_in_force(&self, instance: &Instance) -> Vec<f64> {
        let mut weights = proportional(instance, |arc| {
            f64::from(instance.replicas[instance.problem.arcs[arc].group as usize])
        });
        for (supply, pair) in instance.pairs.iter().enumerate() {
            let Some(row) = self.in_force.row(&pair.frontend, &pair.class) else { continue };
            if row.is_empty() {
                continue;
            }
            for arc in instance.problem.arcs_of(supply) {
                weights[arc] = row.get(instance.group_of(arc)).copied().unwrap_or(0.0);
            }
        }
        weights
    }

    /// Fleet's mean delay over each group's own, both smoothed; 1 is average, above is faster.
    fn scores(&mut self, instance: &Instance, weights: &[f64]) -> Vec<f64> {
        let problem = &instance.problem;
        let mut loads = vec![0.0; problem.groups.len()];
        for (supply, terms) in problem.supplies.iter().enumerate() {
            for arc in problem.arcs_of(supply) {
                loads[problem.arcs[arc].group as usize] +=
                    problem.arcs[arc].gain * weights[arc] * terms.demand;
            }
        }
        let mut smoothed = Vec::with_capacity(loads.len());
        for (at, group) in problem.groups.iter().enumerate() {
            let utilisation = if group.capacity > 0.0 { loads[at] / group.capacity } else { 0.0 };
            let sample = instance.idle_ms[at] + group.curve.delay_ms(utilisation);
            let entry = self.smoothed_ms.entry(instance.groups[at].clone()).or_insert(sample);
            *entry += SMOOTHING * (sample - *entry);
            smoothed.push(*entry);
        }
        let total: f64 = loads.iter().sum();
        if total == 0.0 {
            return vec![1.0; loads.len()];
        }
        let mean = loads.iter().zip(&smoothed).map(|(load, delay)| load * delay).sum::<f64>() / total;
        smoothed.iter().map(|delay| mean / delay).collect()
    }
}

fn floor(instance: &Instance, arc: usize) -> f64 {
    let supply = instance.problem.arc_start.partition_point(|start| *start <= arc) - 1;
    #[expect(clippy::cast_precision_loss, reason = "a supply has far fewer than 2^52 arcs")]
    let even = 1.0 / instance.problem.arcs_of(supply).len() as f64;
    FLOOR * even
}
