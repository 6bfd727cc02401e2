//! The quadratic variant: `sum strength / 2 (x - previous)^2 / demand` instead of a price per request moved.
//!
//! Solved supply by supply to its own optimum until nothing moves (block coordinate descent), which is slow and enough
//! for a comparison at 30 x 100.
use penstock_controller::solve::problem::{Group, Problem};

const PASSES: usize = 400;
const SETTLED: f64 = 1e-7;

/// Rates per arc; nothing is shed, so that demand must fit.
#[must_use]
pub fn solve(problem: &Problem, previous: &[f64], strength: f64) -> Vec<f64> {
    let mut rates = previous.to_vec();
    let mut loads = vec![0.0; problem.groups.len()];
    for (arc, rate) in problem.arcs.iter().zip(&rates) {
        loads[arc.group as usize] += arc.gain * rate;
    }
    for _ in 0..PASSES {
        let mut moved = 0.0_f64;
        for supply in 0..problem.supplies.len() {
            let arcs = problem.arcs_of(supply);
            let demand = problem.supplies[supply].demand;
            for position in arcs.clone() {
                loads[problem.arcs[position].group as usize] -= problem.arcs[position].gain * rates[position];
            }
            let (mut low, mut high) = (0.0, problem.supplies[supply].shed_price);
            let rate_at = |position: usize, price: f64| {
                let arc = &problem.arcs[position];
                let group = arc.group as usize;
                let terms = Terms {
                    stiffness: strength / demand,
                    previous: previous[position],
                    cost: arc.cost,
                    gain: arc.gain,
                };
                terms.rate(&problem.groups[group], loads[group], price).min(demand)
            };
            for _ in 0..80 {
                let price = 0.5 * (low + high);
                let sum: f64 = arcs.clone().map(|position| rate_at(position, price)).sum();
                if sum < demand { low = price } else { high = price }
            }
            let new: Vec<f64> = arcs.clone().map(|position| rate_at(position, high)).collect();
            let scale = demand / new.iter().sum::<f64>();
            for (position, rate) in arcs.zip(new) {
                moved = moved.max((rate * scale - rates[position]).abs() / demand);
                rates[position] = rate * scale;
                loads[problem.arcs[position].group as usize] += problem.arcs[position].gain * rates[position];
            }
        }
        if moved < SETTLED {
            break;
        }
    }
    rates
}

/// One arc beside the load of the others.
struct Terms {
    stiffness: f64,
    previous: f64,
    cost: f64,
    gain: f64,
}

impl Terms {
    /// The rate at which one more request costs `price`.
    fn rate(&self, group: &Group, others: f64, price: f64) -> f64 {
        let (mut low, mut high) = (0.0, (group.limit - others).max(0.0) / self.gain);
        let marginal = |rate: f64| {
            self.cost
                + self.gain * marginal_ms(group, others + self.gain * rate)
                + self.stiffness * (rate - self.previous)
        };
        if marginal(low) >= price {
            return 0.0;
        }
        for _ in 0..40 {
            let rate = 0.5 * (low + high);
            if marginal(rate) < price { low = rate } else { high = rate }
        }
        low
    }
}

/// `d/d load of load * delay(load / capacity)`.
fn marginal_ms(group: &Group, load: f64) -> f64 {
    let at = load / group.capacity;
    let points = &group.curve.points;
    let after = points.partition_point(|point| point.0 <= at).clamp(1, points.len() - 1);
    let ((u0, d0), (u1, d1)) = (points[after - 1], points[after]);
    let slope = (d1 - d0) / (u1 - u0);
    d0 + slope * (at - u0) + at * slope
}
