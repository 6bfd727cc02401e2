//! From a problem to rows, kinks and sinks in units in which as many gains as possible are 1.
//!
//! Flow of a supply is counted in `supply_unit` work a request, load of a group in `group_unit`. Where gains are products
//! of a factor of the supply and one of the group, as with one profile, all become 1 and cycles need no care.
use super::{
    Basis,
    forest::Forest,
    kink::{Kink, Kinks},
    rows::Rows,
    sink::{Sinks, index},
};
use crate::solve::{
    curve::{CostCurve, Piece},
    problem::Problem,
};

/// Gains this close to 1 are 1 but for the rounding of the units.
const UNIT_GAIN: f64 = 1e-12;

/// Scales between the problem's units and the basis'.
#[derive(Debug)]
pub(super) struct Units {
    pub(super) supply: Vec<f64>,
    pub(super) group: Vec<f64>,
    /// Whether all gains are 1 in these units.
    is_uniform: bool,
}

impl Units {
    /// Spreads units over the arcs from the first supply of each connected part.
    fn new(problem: &Problem) -> Self {
        let mut supply = vec![0.0; problem.supplies.len()];
        let mut group = vec![0.0; problem.groups.len()];
        let mut is_uniform = true;
        let mut left: Vec<usize> = (0..supply.len()).filter(|&at| !problem.arcs_of(at).is_empty()).collect();
        while !left.is_empty() {
            let before = left.len();
            left.retain(|&at| {
                let arcs = &problem.arcs[problem.arcs_of(at)];
                let Some(known) = arcs.iter().find(|arc| group[arc.group as usize] > 0.0) else {
                    return true;
                };
                let unit = known.gain * group[known.group as usize];
                supply[at] = unit;
                for arc in arcs {
                    let own = &mut group[arc.group as usize];
                    if *own == 0.0 {
                        *own = unit / arc.gain;
                    } else {
                        is_uniform &= (arc.gain * *own - unit).abs() <= UNIT_GAIN * unit;
                    }
                }
                false
            });
            if left.len() == before {
                let first = problem.arcs[problem.arcs_of(left[0])][0];
                group[first.group as usize] = 1.0;
            }
        }
        let fill =
            |units: &mut Vec<f64>| units.iter_mut().filter(|unit| **unit == 0.0).for_each(|unit| *unit = 1.0);
        fill(&mut supply);
        fill(&mut group);
        Self { supply, group, is_uniform }
    }
}

/// Lays out `problem` with every node alone and nothing served.
pub(super) fn lay_out(problem: &Problem, curves: &[CostCurve]) -> (Basis, Units) {
    let units = Units::new(problem);
    let sinks = sinks(problem, curves, &units);
    let (rows, kinks) = rows(problem, &units);
    let groups = problem.groups.len();
    let nodes = groups + problem.supplies.len();
    let mut inject = vec![0.0; groups];
    inject.extend(problem.supplies.iter().zip(&units.supply).map(|(supply, unit)| supply.demand * unit));
    let potentials = (0..nodes).map(|node| {
        let first = sinks.first_price(node);
        if first.is_finite() { first } else { 0.0 }
    });
    let forest = Forest::new(groups, potentials.collect());
    let shed =
        problem.supplies.iter().zip(&units.supply).map(|(supply, unit)| supply.shed_price / unit).collect();
    (Basis::new(rows, kinks, sinks, forest, inject, shed), units)
}

fn sinks(problem: &Problem, curves: &[CostCurve], units: &Units) -> Sinks {
    let nodes = problem.groups.len() + problem.supplies.len();
    let pieces = curves.iter().map(|curve| curve.pieces.len()).sum::<usize>() + problem.supplies.len();
    let mut sinks = Sinks::with_capacity(nodes, pieces);
    let count = problem.arcs.len().max(1);
    #[expect(clippy::cast_precision_loss, reason = "a mean needs no exact count")]
    let scale = problem.arcs.iter().map(|arc| arc.cost).sum::<f64>() / count as f64;
    for (curve, unit) in curves.iter().zip(&units.group) {
        sinks.push(
            scale / unit,
            curve.pieces.iter().map(|piece| Piece {
                from: piece.from * unit,
                to: piece.to * unit,
                low: piece.low / unit,
                high: piece.high / unit,
            }),
        );
    }
    for (supply, unit) in problem.supplies.iter().zip(&units.supply) {
        let price = supply.shed_price / unit;
        let whole = Piece { from: 0.0, to: supply.demand * unit, low: price, high: price };
        sinks.push(scale / unit, std::iter::once(whole));
    }
    sinks
}

fn rows(problem: &Problem, units: &Units) -> (Rows, Kinks) {
    let dense = problem.arcs.len() == problem.groups.len() * problem.supplies.len();
    // Added to the cost, it keeps arcs to groups without capacity out of every comparison.
    let closed: Vec<f64> =
        problem.groups.iter().map(|group| if group.limit > 0.0 { 0.0 } else { f64::INFINITY }).collect();
    let start = problem.arc_start.iter().map(|&at| index(at)).collect();
    let mut prices = Vec::with_capacity(problem.arcs.len());
    let mut gains = Vec::with_capacity(if units.is_uniform { 0 } else { problem.arcs.len() });
    for (supply, &unit) in units.supply.iter().enumerate() {
        let arcs = &problem.arcs[problem.arcs_of(supply)];
        let per_unit = 1.0 / unit;
        prices.extend(arcs.iter().map(|arc| arc.cost * per_unit + closed[arc.group as usize]));
        if !units.is_uniform {
            gains.extend(arcs.iter().map(|arc| {
                let gain = arc.gain * units.group[arc.group as usize] * per_unit;
                if (gain - 1.0).abs() <= UNIT_GAIN { 1.0 } else { gain }
            }));
        }
    }
    let kinks = bend(problem, units, &mut prices);
    let group = if dense { Vec::new() } else { problem.arcs.iter().map(|arc| arc.group).collect() };
    (Rows::new(start, group, prices, gains, dense), kinks)
}

/// Prices for the side of the published rate on which every arc starts, at no flow.
fn bend(problem: &Problem, units: &Units, prices: &mut [f64]) -> Kinks {
    let mut kinks = Kinks::default();
    let Some(penalty) = &problem.move_penalty else { return kinks };
    for (supply, &unit) in units.supply.iter().enumerate() {
        let mut bent = Vec::new();
        for position in problem.arcs_of(supply) {
            let moved = penalty.price[position] / unit;
            let cost = prices[position];
            prices[position] = cost + moved;
            let previous = penalty.previous[position] * unit;
            if previous > 0.0 && moved > 0.0 && cost.is_finite() {
                prices[position] = cost - moved;
                bent.push(Kink { position: index(position), cost, previous, price: moved, held: false });
            }
        }
        kinks.push_supply(bent.into_iter());
    }
    kinks
}
