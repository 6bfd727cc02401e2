//! Nearest: every request goes to the closest groups with capacity, however full they are.
use super::{Plan, Policy, proportional};
use crate::assignment::instance::Instance;
use crate::fleet::settings::PolicyName;
use crate::solve::SolveError;

/// Groups at the same distance share by capacity.
#[derive(Debug)]
pub struct Nearest;

impl Policy for Nearest {
    fn name(&self) -> PolicyName {
        PolicyName::Nearest
    }

    fn plan(&mut self, instance: &Instance) -> Result<Plan, SolveError> {
        let problem = &instance.problem;
        let capacity = |arc: usize| problem.groups[problem.arcs[arc].group as usize].capacity;
        let mut closest = vec![f64::INFINITY; problem.arcs.len()];
        for supply in 0..problem.supplies.len() {
            let arcs = problem.arcs_of(supply);
            let usable = arcs.clone().filter(|arc| capacity(*arc) > 0.0);
            let least = usable.map(|arc| instance.routes[arc].rtt_ms).fold(f64::INFINITY, f64::min);
            closest[arcs].fill(least);
        }
        let weights = proportional(instance, |arc| {
            if instance.routes[arc].rtt_ms == closest[arc] { capacity(arc) } else { 0.0 }
        });
        Ok(Plan::by_weights(instance, weights))
    }
}
