//! What an assignment costs: delay, objective and load, straight from the problem's definition.
use super::{
    curve::CostCurve,
    problem::{Assignment, Problem},
};

/// Cost of an assignment, whoever made it.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// Requests/s that get an engine.
    pub served_rps: f64,
    /// Requests/s refused.
    pub shed_rps: f64,
    /// Mean delay of served requests, ms: network, base and load, from the curves as given. `None` if none is served.
    pub mean_e2e_ms: Option<f64>,
    /// Delay of served requests (convex envelope) plus the price of shed ones, ms x requests/s. Without the move penalty.
    pub objective: f64,
    /// `sum price |rate - previous|`, ms x requests/s; 0 without a penalty.
    pub move_penalty: f64,
    /// Load of each group, reference requests/s.
    pub loads: Vec<f64>,
    /// Load over capacity of each group; 0 where there is no capacity.
    pub utilisation: Vec<f64>,
}

/// Evaluates `assignment`, which must belong to `problem`.
#[must_use]
pub fn evaluate(problem: &Problem, assignment: &Assignment) -> Evaluation {
    let loads = loads(problem, &assignment.rates);
    let mut direct = 0.0;
    let mut served_rps = 0.0;
    for (arc, rate) in problem.arcs.iter().zip(&assignment.rates) {
        direct += arc.cost * rate;
        served_rps += rate;
    }
    let mut waiting = 0.0;
    let mut envelope = 0.0;
    let mut utilisation = Vec::with_capacity(loads.len());
    for (group, &load) in problem.groups.iter().zip(&loads) {
        let share = if group.capacity > 0.0 { load / group.capacity } else { 0.0 };
        waiting += load * group.curve.delay_ms(share);
        envelope += CostCurve::new(group).cost(load);
        utilisation.push(share);
    }
    let shed_rps = assignment.shed.iter().sum();
    let refused: f64 =
        problem.supplies.iter().zip(&assignment.shed).map(|(supply, shed)| supply.shed_price * shed).sum();
    let move_penalty = problem.move_penalty.as_ref().map_or(0.0, |penalty| {
        let moved = assignment.rates.iter().zip(&penalty.previous);
        moved.zip(&penalty.price).map(|((rate, previous), price)| price * (rate - previous).abs()).sum()
    });
    Evaluation {
        served_rps,
        shed_rps,
        mean_e2e_ms: (served_rps > 0.0).then(|| (direct + waiting) / served_rps),
        objective: direct + envelope + refused,
        move_penalty,
        loads,
        utilisation,
    }
}

/// Load of each group under `rates`, reference requests/s.
pub(super) fn loads(problem: &Problem, rates: &[f64]) -> Vec<f64> {
    let mut loads = vec![0.0; problem.groups.len()];
    for (arc, rate) in problem.arcs.iter().zip(rates) {
        loads[arc.group as usize] += arc.gain * rate;
    }
    loads
}
