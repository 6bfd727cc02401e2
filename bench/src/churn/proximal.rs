//! The quadratic variant: `sum strength / 2 (x - previous)^2 / demand` instead of a price per request moved.
//!
//! Solved supply by supply to its own optimum until nothing moves (block coordinate descent), which is slow and enough
//! for a comparison at 30 x 100.
use penstock_controller::solve::problem::{Group, Problem};

const PASSES: usize = 100;
const SETTLED: f64 = 1e-6;

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
            for _ in 0..60 {
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
    /// The rate at which one more request costs `price`: on each line of the curve the marginal is linear in it.
    fn rate(&self, group: &Group, others: f64, price: f64) -> f64 {
        let most = (group.limit - others).max(0.0) / self.gain;
        for pair in group.curve.points.windows(2) {
            let ((u0, d0), (u1, d1)) = (pair[0], pair[1]);
            let rate_at = |utilisation: f64| (utilisation * group.capacity - others) / self.gain;
            let (from, to) = (rate_at(u0).max(0.0), rate_at(u1).min(most));
            if to <= from {
                continue;
            }
            let slope = (d1 - d0) / (u1 - u0);
            let level = self.cost + self.gain * (d0 - slope * u0 + 2.0 * slope * others / group.capacity)
                - self.stiffness * self.previous;
            let rise = 2.0 * slope * self.gain * self.gain / group.capacity + self.stiffness;
            let rate = (price - level) / rise;
            if rate < to {
                return rate.max(from);
            }
        }
        most
    }
}
