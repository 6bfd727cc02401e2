//! Prices checked by re-solving: what the optimum really costs after a small change.
use crate::solve::problem::{Arc, Problem, Supply};
use crate::solve::{SolveError, Solver};
use crate::solve::{certify::certify, problem::Assignment};

/// Share of a supply's demand that is sent another way to see what it costs.
const REROUTED: f64 = 1e-3;

/// A problem and the cost of its optimum.
#[derive(Debug)]
pub struct Check<'a> {
    problem: Problem,
    solver: &'a dyn Solver,
    optimum: f64,
    /// Rates of the optimum: where every further solve starts.
    rates: Vec<f64>,
    /// Requests/s that the optimum sheds.
    shed: f64,
}

/// What re-solving says about a pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Resolved {
    /// Extra cost of a request/s that must go this way, ms.
    Costs(f64),
    /// No demand, or no room for it.
    Impossible,
    /// Beyond the number of pairs that are worth a solve each.
    NotTried,
}

impl Resolved {
    pub fn ms(self) -> Option<f64> {
        match self {
            Self::Costs(ms) => Some(ms),
            Self::Impossible | Self::NotTried => None,
        }
    }
}

/// What one more replica brings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replica {
    /// Delay and shed price saved over all requests, ms x requests/s.
    pub saves: f64,
    /// Requests/s served that are shed now.
    pub serves_rps: f64,
}

impl<'a> Check<'a> {
    pub fn new(problem: &Problem, solver: &'a dyn Solver) -> Result<Self, SolveError> {
        // The question is what the traffic costs, not what moving it would.
        let problem = Problem { move_penalty: None, ..problem.clone() };
        let answer = solver.solve(&problem, None)?;
        let (optimum, shed) = (cost(&problem, &answer), answer.shed.iter().sum());
        Ok(Self { problem, solver, optimum, rates: answer.rates, shed })
    }

    /// Extra cost of a request/s of the supply that must take this arc.
    pub fn reroute(&self, supply: usize, arc: usize) -> Result<Resolved, SolveError> {
        let Arc { group, cost: _, gain } = self.problem.arcs[arc];
        let limit = self.problem.groups[group as usize].limit;
        let demand = self.problem.supplies[supply].demand;
        let rerouted = (REROUTED * demand).min(REROUTED * limit / gain);
        if rerouted == 0.0 {
            return Ok(Resolved::Impossible);
        }
        let mut forced = self.problem.clone();
        forced.supplies[supply].demand -= rerouted;
        // A supply of its own, with this arc alone, must use it: no price makes it worth shedding.
        let steepest = self.problem.supplies.iter().map(|supply| supply.shed_price).fold(0.0, f64::max);
        forced.supplies.push(Supply { demand: rerouted, shed_price: 1e3 * steepest.max(1.0) });
        forced.arcs.push(self.problem.arcs[arc]);
        forced.arc_start.push(forced.arcs.len());
        let mut start = self.rates.clone();
        start.push(rerouted);
        let answer = self.solver.solve(&forced, Some(&start))?;
        if answer.shed.last().is_some_and(|shed| *shed > 0.0) {
            return Ok(Resolved::Impossible);
        }
        Ok(Resolved::Costs((cost(&forced, &answer) - self.optimum) / rerouted))
    }

    /// What one more replica of this capacity at the group brings.
    pub fn replica_brings(&self, group: usize, replica_rps: f64) -> Result<Replica, SolveError> {
        let mut larger = self.problem.clone();
        let terms = &mut larger.groups[group];
        let limit_share = self.limit_share(group);
        terms.capacity += replica_rps;
        terms.limit = limit_share * terms.capacity;
        let answer = self.solver.solve(&larger, Some(&self.rates))?;
        Ok(Replica {
            saves: (self.optimum - cost(&larger, &answer)).max(0.0),
            serves_rps: (self.shed - answer.shed.iter().sum::<f64>()).max(0.0),
        })
    }

    /// 1 - headroom, which is the same for all groups.
    fn limit_share(&self, group: usize) -> f64 {
        let share = |at: usize| {
            let terms = &self.problem.groups[at];
            (terms.capacity > 0.0).then(|| terms.limit / terms.capacity)
        };
        share(group).or_else(|| (0..self.problem.groups.len()).find_map(share)).unwrap_or(1.0)
    }
}

/// Cost by the verifier, which shares no code with the solvers.
fn cost(problem: &Problem, assignment: &Assignment) -> f64 {
    certify(problem, assignment).objective
}
