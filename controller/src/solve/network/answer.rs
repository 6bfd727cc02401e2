//! From flows to rates that balance to the last digit.
use crate::solve::{curve::CostCurve, problem::Problem};

/// Rest of a demand below which it is rounding.
const ROUNDING: f64 = 1e-12;

/// Rates of all arcs and shed of all supplies from the flows in use, `(supply, position, requests/s)` by position. What
/// rounding put above a limit or a demand is taken back.
pub(super) fn rates(
    problem: &Problem,
    curves: &[CostCurve],
    flows: &[(usize, usize, f64)],
) -> (Vec<f64>, Vec<f64>) {
    let mut served = vec![0.0; problem.supplies.len()];
    for &(supply, _, flow) in flows {
        served[supply] += flow;
    }
    // A supply that is served but for rounding is served in full.
    let scale = |supply: usize| {
        let demand = problem.supplies[supply].demand;
        let whole = (demand - served[supply]).abs() <= 1e-9 * demand || served[supply] > demand;
        if whole && served[supply] > 0.0 { demand / served[supply] } else { 1.0 }
    };
    let mut loads = vec![0.0; problem.groups.len()];
    let mut rates = vec![0.0; problem.arcs.len()];
    for &(supply, position, flow) in flows {
        let arc = &problem.arcs[position];
        // Degenerate arcs carry rounding, which would look like traffic to whoever reads prices off the rates.
        let kept = if flow > ROUNDING * problem.supplies[supply].demand { flow } else { 0.0 };
        rates[position] = kept * scale(supply);
        loads[arc.group as usize] += rates[position] * arc.gain;
    }
    let mut served = vec![0.0; problem.supplies.len()];
    for &(supply, position, _) in flows {
        let group = problem.arcs[position].group as usize;
        let limit = curves[group].limit();
        if loads[group] > limit {
            rates[position] *= limit / loads[group];
        }
        served[supply] += rates[position];
    }
    let rest = problem.supplies.iter().zip(served).map(|(supply, served)| {
        let rest = supply.demand - served;
        if rest > ROUNDING * supply.demand { rest } else { 0.0 }
    });
    (rates, rest.collect())
}
