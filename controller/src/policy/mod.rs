//! Weight path, second stage: what turns one tick's instance into a split. One policy a file, behind one trait.
pub mod by_distance;
pub mod exact;
pub mod feedback;
pub mod least_loaded;
pub mod nearest;
pub mod optimizer;
pub mod round_robin;

use crate::assignment::instance::Instance;
use crate::fleet::settings::PolicyName;
use crate::solve::SolveError;
use crate::solve::certify::Certificate;
use crate::solve::problem::Assignment;

/// Decides the split of every supply. It may keep state between ticks, but reads no clock.
pub trait Policy: std::fmt::Debug + Send {
    fn name(&self) -> PolicyName;

    /// How often it must plan the same instance before its answer stays; 1 for a policy without memory.
    fn ticks_to_settle(&self) -> u32 {
        1
    }

    /// # Errors
    /// The instance has no answer; the caller keeps what it published.
    fn plan(&mut self, instance: &Instance) -> Result<Plan, SolveError>;
}

/// A split of every supply.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Per arc: fraction of the supply's served traffic, which also holds for a supply without demand. A supply's
    /// weights sum to 1, unless it has no arc with capacity.
    pub weights: Vec<f64>,
    /// Per arc: requests/s.
    pub rates: Vec<f64>,
    /// Per supply: requests/s that are not served.
    pub shed: Vec<f64>,
    /// Prices and certificate, from a policy that has them.
    pub proof: Option<Proof>,
}

/// Why a plan is the best one.
#[derive(Clone, Debug, PartialEq)]
pub struct Proof {
    /// Per group: ms for each reference request/s.
    pub group_price: Vec<f64>,
    /// Per supply: ms for each request/s.
    pub supply_price: Vec<f64>,
    pub certificate: Certificate,
}

impl Plan {
    /// A plan that serves all demand by fixed weights, wherever a supply has any.
    fn by_weights(instance: &Instance, weights: Vec<f64>) -> Self {
        let problem = &instance.problem;
        let rates = instance.rates_at(&weights);
        let mut shed = vec![0.0; problem.supplies.len()];
        for (supply, terms) in problem.supplies.iter().enumerate() {
            if weights[problem.arcs_of(supply)].iter().all(|weight| *weight == 0.0) {
                shed[supply] = terms.demand;
            }
        }
        Self { weights, rates, shed, proof: None }
    }

    /// The plan as a solver's answer, with prices of 0 where the policy has none.
    pub fn assignment(&self) -> Assignment {
        let (group_price, supply_price) = match &self.proof {
            Some(proof) => (proof.group_price.clone(), proof.supply_price.clone()),
            None => (Vec::new(), Vec::new()),
        };
        Assignment { rates: self.rates.clone(), shed: self.shed.clone(), group_price, supply_price }
    }
}

/// The policy of that name, in its first state.
pub fn named(name: PolicyName) -> Box<dyn Policy> {
    match name {
        PolicyName::Nearest => Box::new(nearest::Nearest),
        PolicyName::RoundRobin => Box::new(round_robin::RoundRobin),
        PolicyName::Feedback => Box::new(feedback::Feedback::default()),
        PolicyName::LeastLoaded => Box::new(least_loaded::LeastLoaded),
        PolicyName::Optimizer => Box::new(optimizer::Optimizer::default()),
    }
}

/// Weights in proportion to `share`, per supply; 0 for a supply whose shares are all 0.
fn proportional(instance: &Instance, share: impl Fn(usize) -> f64) -> Vec<f64> {
    let mut weights = vec![0.0; instance.problem.arcs.len()];
    for supply in 0..instance.problem.supplies.len() {
        let arcs = instance.problem.arcs_of(supply);
        let total: f64 = arcs.clone().map(&share).sum();
        if total > 0.0 {
            for arc in arcs {
                weights[arc] = share(arc) / total;
            }
        }
    }
    weights
}
