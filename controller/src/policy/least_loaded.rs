//! Least loaded: the next request goes to the group of lowest utilisation, however far away it is.
//!
//! Where many requests are in flight that ends with equal utilisation over the groups that a class may use, so each
//! supply in turn is poured onto the others' loads like water, until no supply changes.
use std::ops::Range;

use super::{Plan, Policy};
use crate::assignment::instance::Instance;
use crate::fleet::settings::PolicyName;
use crate::solve::SolveError;
use crate::solve::problem::Problem;

/// Rounds over all supplies; a few suffice unless classes overlap in long chains.
const ROUNDS: usize = 200;
/// Change of a round, over the demand, at which pouring ends.
const SETTLED: f64 = 1e-9;

#[derive(Debug)]
pub struct LeastLoaded;

impl Policy for LeastLoaded {
    fn name(&self) -> PolicyName {
        PolicyName::LeastLoaded
    }

    fn plan(&mut self, instance: &Instance) -> Result<Plan, SolveError> {
        let problem = &instance.problem;
        let mut rates = vec![0.0; problem.arcs.len()];
        let mut loads = vec![0.0; problem.groups.len()];
        let demand: f64 = problem.supplies.iter().map(|supply| supply.demand).sum();
        for _ in 0..ROUNDS {
            let mut moved = 0.0;
            for (supply, terms) in problem.supplies.iter().enumerate() {
                let arcs = problem.arcs_of(supply);
                for arc in arcs.clone() {
                    loads[group_of(problem, arc)] -= problem.arcs[arc].gain * rates[arc];
                }
                let poured = pour(problem, arcs.clone(), &loads, terms.demand);
                for (arc, rate) in arcs.zip(poured) {
                    moved += (rate - rates[arc]).abs();
                    rates[arc] = rate;
                    loads[group_of(problem, arc)] += problem.arcs[arc].gain * rate;
                }
            }
            if moved <= SETTLED * demand {
                break;
            }
        }
        let weights = weights(problem, &rates, &loads);
        Ok(Plan::by_weights(instance, weights))
    }
}

/// Rates of one supply that raise its groups of lowest utilisation to one level.
fn pour(problem: &Problem, arcs: Range<usize>, others: &[f64], demand: f64) -> Vec<f64> {
    let room = |arc: usize, level: f64| {
        let group = group_of(problem, arc);
        (level * problem.groups[group].capacity - others[group]).max(0.0) / problem.arcs[arc].gain
    };
    let total = |level: f64| arcs.clone().map(|arc| room(arc, level)).sum::<f64>();
    let has_capacity = arcs.clone().any(|arc| problem.groups[group_of(problem, arc)].capacity > 0.0);
    if demand == 0.0 || !has_capacity {
        return vec![0.0; arcs.len()];
    }
    let (mut low, mut high) = (0.0, 1.0);
    while total(high) < demand {
        high *= 2.0;
    }
    loop {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if total(middle) < demand { low = middle } else { high = middle }
    }
    // The level is exact to its last bit; scaling takes the rest of the rounding.
    let scale = demand / total(high);
    arcs.map(|arc| scale * room(arc, high)).collect()
}

/// Rates as fractions. A supply without demand would send its next request to the group of lowest utilisation.
fn weights(problem: &Problem, rates: &[f64], loads: &[f64]) -> Vec<f64> {
    let mut weights = vec![0.0; rates.len()];
    for supply in 0..problem.supplies.len() {
        let arcs = problem.arcs_of(supply);
        let served: f64 = rates[arcs.clone()].iter().sum();
        if served > 0.0 {
            arcs.for_each(|arc| weights[arc] = rates[arc] / served);
            continue;
        }
        let utilisation =
            |arc: usize| loads[group_of(problem, arc)] / problem.groups[group_of(problem, arc)].capacity;
        let usable = arcs.filter(|arc| problem.groups[group_of(problem, *arc)].capacity > 0.0);
        if let Some(least) = usable.min_by(|a, b| utilisation(*a).total_cmp(&utilisation(*b))) {
            weights[least] = 1.0;
        }
    }
    weights
}

fn group_of(problem: &Problem, arc: usize) -> usize {
    problem.arcs[arc].group as usize
}
