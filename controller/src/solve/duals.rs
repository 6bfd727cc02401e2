//! Prices of an optimal flow: least cost of one more unit, by Bellman-Ford towards shedding and spare load.
//!
//! On the residual graph, one more unit at a supply goes to a group on the cheapest arc or is shed; one more unit of load
//! at a group is taken there at its marginal, or pushes out a request that finds another place. These are right-hand
//! derivatives of the optimum.
use super::{curve::CostCurve, evaluate::loads, problem::Problem};

/// Prices per group and per supply, ms.
#[derive(Debug)]
pub(super) struct Prices {
    pub(super) group: Vec<f64>,
    pub(super) supply: Vec<f64>,
}

/// Prices of the optimal `rates`, where `marginal_up` is what one more unit of load costs at each group by itself
/// (infinite if it is full).
pub(super) fn prices(problem: &Problem, rates: &[f64], marginal_up: &[f64]) -> Prices {
    let mut group = marginal_up.to_vec();
    let mut supply: Vec<f64> = problem.supplies.iter().map(|supply| supply.shed_price).collect();
    // A residual path visits a node once, so that many rounds reach every path; gains may shrink round a cycle for ever,
    // by less each time.
    let rounds = problem.supplies.len() + problem.groups.len() + 1;
    for _ in 0..rounds {
        let mut changed = false;
        for (index, price) in supply.iter_mut().enumerate() {
            for position in problem.arcs_of(index) {
                let arc = problem.arcs[position];
                let offer =
                    up_cost(problem, position, rates[position]) + arc.gain * group[arc.group as usize];
                changed |= lower(price, offer);
            }
            for position in problem.arcs_of(index) {
                if rates[position] <= 0.0 {
                    continue;
                }
                let arc = problem.arcs[position];
                let offer = (*price - down_cost(problem, position, rates[position])) / arc.gain;
                changed |= lower(&mut group[arc.group as usize], offer);
            }
        }
        if !changed {
            break;
        }
    }
    Prices { group, supply }
}

/// Lowers `price` to `offer`, unless it is lower only by rounding.
fn lower(price: &mut f64, offer: f64) -> bool {
    let lower = offer < *price && (price.is_infinite() || *price - offer > 1e-12 * price.abs());
    if lower {
        *price = offer;
    }
    lower
}

/// Cost of one more request/s on an arc, without the group's load.
fn up_cost(problem: &Problem, arc: usize, rate: f64) -> f64 {
    let cost = problem.arcs[arc].cost;
    match &problem.move_penalty {
        None => cost,
        Some(penalty) if rate < penalty.previous[arc] => cost - penalty.price[arc],
        Some(penalty) => cost + penalty.price[arc],
    }
}

/// Saving by one request/s less on an arc, without the group's load.
fn down_cost(problem: &Problem, arc: usize, rate: f64) -> f64 {
    let cost = problem.arcs[arc].cost;
    match &problem.move_penalty {
        None => cost,
        Some(penalty) if rate > penalty.previous[arc] => cost + penalty.price[arc],
        Some(penalty) => cost - penalty.price[arc],
    }
}

/// Objective of the problem as solved, move penalty included, ms x requests/s.
pub(super) fn objective(problem: &Problem, curves: &[CostCurve], rates: &[f64], shed: &[f64]) -> f64 {
    let mut total = 0.0;
    for (position, (arc, rate)) in problem.arcs.iter().zip(rates).enumerate() {
        total += arc.cost * rate;
        if let Some(penalty) = &problem.move_penalty {
            total += penalty.price[position] * (rate - penalty.previous[position]).abs();
        }
    }
    total += problem.supplies.iter().zip(shed).map(|(supply, shed)| supply.shed_price * shed).sum::<f64>();
    total + curves.iter().zip(loads(problem, rates)).map(|(curve, load)| curve.cost(load)).sum::<f64>()
}

/// The Lagrangian bound that the prices give, ms x requests/s: no assignment costs less.
pub(super) fn lower_bound(problem: &Problem, curves: &[CostCurve], group: &[f64], supply: &[f64]) -> f64 {
    let mut total = 0.0;
    for (index, terms) in problem.supplies.iter().enumerate() {
        let reduced = |position: usize| {
            let arc = &problem.arcs[position];
            let target = arc.group as usize;
            if curves[target].pieces.is_empty() { f64::INFINITY } else { arc.cost + arc.gain * group[target] }
        };
        let extra =
            |position: usize| problem.move_penalty.as_ref().map_or(0.0, |penalty| penalty.price[position]);
        let price = problem.arcs_of(index).fold(terms.shed_price.min(supply[index]), |least, position| {
            least.min(reduced(position) + extra(position))
        });
        total += terms.demand * price;
        if let Some(penalty) = &problem.move_penalty {
            for position in problem.arcs_of(index).filter(|&position| penalty.previous[position] > 0.0) {
                total +=
                    penalty.previous[position] * (reduced(position) - price).min(penalty.price[position]);
            }
        }
    }
    total - curves.iter().zip(group).map(|(curve, &price)| curve.conjugate(price)).sum::<f64>()
}

/// Scales rates or shares so that each supply balances, and takes back what rounding put above a limit: it goes to the
/// supply's cheapest group with room, or is shed. `shed` counts in the same units as `rates`.
pub(super) fn repair(
    problem: &Problem,
    curves: &[CostCurve],
    mut rates: Vec<f64>,
    shed: &[f64],
) -> (Vec<f64>, Vec<f64>) {
    for (index, supply) in problem.supplies.iter().enumerate() {
        let arcs = problem.arcs_of(index);
        let sum: f64 = shed[index] + rates[arcs.clone()].iter().sum::<f64>();
        let scale = if sum > 0.0 { supply.demand / sum } else { 0.0 };
        rates[arcs].iter_mut().for_each(|rate| *rate *= scale);
    }
    let loads = loads(problem, &rates);
    for (arc, rate) in problem.arcs.iter().zip(&mut rates) {
        let (load, limit) = (loads[arc.group as usize], curves[arc.group as usize].limit());
        if load > limit {
            *rate *= limit / load;
        }
    }
    let left = problem.supplies.iter().enumerate().map(|(index, supply)| {
        let rest = supply.demand - rates[problem.arcs_of(index)].iter().sum::<f64>();
        if rest > 1e-12 * supply.demand { rest } else { 0.0 }
    });
    let left = left.collect();
    (rates, left)
}
