//! Round robin: every replica that may serve gets the same number of requests, wherever it stands.
use super::{Plan, Policy, proportional};
use crate::assignment::instance::Instance;
use crate::fleet::settings::PolicyName;
use crate::solve::SolveError;

#[derive(Debug)]
pub struct RoundRobin;

impl Policy for RoundRobin {
    fn name(&self) -> PolicyName {
        PolicyName::RoundRobin
    }

    fn plan(&mut self, instance: &Instance) -> Result<Plan, SolveError> {
        let weights = proportional(instance, |arc| {
            f64::from(instance.replicas[instance.problem.arcs[arc].group as usize])
        });
        Ok(Plan::by_weights(instance, weights))
    }
}
