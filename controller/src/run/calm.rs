//! Small changes that are not worth moving a conversation for.
use crate::assignment::instance::Instance;

/// Largest change of a weight that counts as noise.
pub(super) const DEAD_BAND: f64 = 1e-3;

/// Puts back the weights in force of every supply whose weights all changed by no more than [`DEAD_BAND`], and of
/// supplies without demand, as long as their groups have capacity.
pub(super) fn hold_small_changes(instance: &Instance, before: &[f64], weights: &mut [f64]) {
    let problem = &instance.problem;
    for (supply, terms) in problem.supplies.iter().enumerate() {
        let arcs = problem.arcs_of(supply);
        let usable = |arc: usize| problem.groups[problem.arcs[arc].group as usize].limit > 0.0;
        let total: f64 = before[arcs.clone()].iter().sum();
        let holds =
            arcs.clone().all(|arc| before[arc] == 0.0 || usable(arc)) && (total - 1.0).abs() < DEAD_BAND;
        let is_small = arcs.clone().all(|arc| (weights[arc] - before[arc]).abs() <= DEAD_BAND);
        if holds && (is_small || terms.demand == 0.0) {
            weights[arcs.clone()].copy_from_slice(&before[arcs]);
        }
    }
}

/// Fraction of the delay under the weights `before` that the weights `after` save, both serving all demand.
pub(super) fn saving(instance: &Instance, before: &[f64], after: &[f64]) -> f64 {
    let (before, after) = (delay(instance, before), delay(instance, after));
    if before > 0.0 { (before - after) / before } else { 0.0 }
}

/// Delay of all traffic, ms x requests/s. Beyond a group's limit its curve goes on along its last line.
fn delay(instance: &Instance, weights: &[f64]) -> f64 {
    let problem = &instance.problem;
    let mut loads = vec![0.0; problem.groups.len()];
    let mut total = 0.0;
    for (arc, rate) in problem.arcs.iter().zip(instance.rates_at(weights)) {
        total += arc.cost * rate;
        loads[arc.group as usize] += arc.gain * rate;
    }
    for (group, load) in problem.groups.iter().zip(loads) {
        if group.capacity > 0.0 {
            total += load * group.curve.delay_ms(load / group.capacity);
        }
    }
    total
}
