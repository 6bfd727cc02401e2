//! The optimizer: the assignment of least total delay, certified.
use super::exact::Exact;
use super::{Plan, Policy, Proof};
use crate::assignment::instance::Instance;
use crate::fleet::settings::PolicyName;
use crate::solve::certify::certify;
use crate::solve::problem::{Assignment, Problem};
use crate::solve::{SolveError, Solver as _};

#[derive(Debug, Default)]
pub struct Optimizer {
    solver: Exact,
}

impl Policy for Optimizer {
    fn name(&self) -> PolicyName {
        PolicyName::Optimizer
    }

    fn plan(&mut self, instance: &Instance) -> Result<Plan, SolveError> {
        let start = instance.problem.move_penalty.as_ref().map(|penalty| penalty.previous.as_slice());
        let assignment = self.solver.solve(&instance.problem, start)?;
        let certificate = certify(&instance.problem, &assignment);
        let weights = weights(&instance.problem, &assignment);
        let Assignment { rates, shed, group_price, supply_price } = assignment;
        Ok(Plan { weights, rates, shed, proof: Some(Proof { group_price, supply_price, certificate }) })
    }
}

/// Served rates as fractions. A supply that serves nothing would send its next request the cheapest way.
fn weights(problem: &Problem, assignment: &Assignment) -> Vec<f64> {
    let mut weights = vec![0.0; problem.arcs.len()];
    for supply in 0..problem.supplies.len() {
        let arcs = problem.arcs_of(supply);
        let served: f64 = assignment.rates[arcs.clone()].iter().sum();
        if served > 0.0 {
            for arc in arcs {
                weights[arc] = assignment.rates[arc] / served;
            }
            continue;
        }
        let price = |arc: usize| {
            let arc = &problem.arcs[arc];
            arc.cost + arc.gain * assignment.group_price[arc.group as usize]
        };
        let usable = arcs.filter(|arc| problem.groups[problem.arcs[*arc].group as usize].limit > 0.0);
        if let Some(cheapest) = usable.min_by(|a, b| price(*a).total_cmp(&price(*b))) {
            weights[cheapest] = 1.0;
        }
    }
    weights
}
