//! Suite `churn`: how much traffic changes its engine group from step to step, and what it costs to move less.
//!
//! At every step demand changes, and each method starts from its own last rates, scaled to the new demand. `moved_share`
//! is the traffic whose group changes over all traffic, `excess_cost` the objective over the optimum of the step.
pub mod proximal;
pub mod walk;

use anyhow::Context;
use penstock_controller::solve::{
    Solver,
    evaluate::evaluate,
    network::Network,
    problem::{Assignment, MovePenalty, Problem},
};
use walk::Factors;

use crate::{
    row::Row,
    solver::fleet::{self, Shape},
    suite::Options,
};

const SUITE: &str = "churn";
const SHAPE: Shape =
    Shape { supplies: 30, groups: 100, classes: 1, utilisation: 0.8, density: 1.0, mixed: false };

/// How a step's rates come about.
#[derive(Clone, Copy, Debug)]
enum Method {
    /// Solved from nothing.
    Off,
    /// Solved from the last rates, without a price on moves.
    Warm,
    /// A price per request moved, ms.
    Linear(f64),
    /// A price that grows with the square of the share moved, ms.
    Proximal(f64),
    /// The last weights, cut to limits.
    Keep,
}

const METHODS: [(&str, Method); 6] = [
    ("off", Method::Off),
    ("warm", Method::Warm),
    ("l1_5ms", Method::Linear(5.0)),
    ("l1_20ms", Method::Linear(20.0)),
    ("proximal", Method::Proximal(200.0)),
    ("keep", Method::Keep),
];

/// Runs the suite.
///
/// # Errors
/// A solve fails, or a trace that is there cannot be read.
pub fn run(options: &Options) -> anyhow::Result<Vec<Row>> {
    let steps = if options.quick { 8 } else { 40 };
    let mut walks: Vec<(&str, Factors, bool)> = vec![
        ("noise1", walk::noise(SHAPE.supplies, steps, 0.01), false),
        ("noise1_ties", walk::noise(SHAPE.supplies, steps, 0.01), true),
        ("walk2", walk::random_walk(SHAPE.supplies, steps, 0.02), false),
    ];
    match walk::traces() {
        Some(folder) => {
            walks.push(("servegen", walk::servegen(&folder, SHAPE.supplies, steps)?, false));
            walks.push(("azure_conv", walk::azure(&folder, SHAPE.supplies, steps)?, false));
        }
        None => eprintln!("churn: no traces in ../shared/data, so the synthetic walks stand alone"),
    }
    let mut rows = Vec::new();
    for (name, factors, tied) in &walks {
        let fleet = if *tied { ties(fleet::fleet(SHAPE, 7)) } else { fleet::fleet(SHAPE, 7) };
        let mut baseline = None;
        for (method_name, method) in METHODS {
            let found = follow(&fleet, factors, method).with_context(|| format!("{name}/{method_name}"))?;
            let base = *baseline.get_or_insert(found);
            let case = format!("{name}/{method_name}");
            let row = |metric: &str, value: f64| Row::new(SUITE, &case, metric, value, "ratio");
            rows.push(row("moved_share", found.moved_share).against("no penalty", base.moved_share));
            rows.push(row("excess_cost", found.excess_cost));
        }
    }
    Ok(rows)
}

#[derive(Clone, Copy, Debug)]
struct Found {
    moved_share: f64,
    excess_cost: f64,
}

fn follow(fleet: &Problem, factors: &Factors, method: Method) -> anyhow::Result<Found> {
    let mut sums = Found { moved_share: 0.0, excess_cost: 0.0 };
    let mut last: Option<Vec<f64>> = None;
    let mut steps = 0.0;
    for factors in factors {
        let mut problem = fleet.clone();
        for (supply, factor) in problem.supplies.iter_mut().zip(factors) {
            supply.demand *= factor;
        }
        let optimum = Network::default().solve(&problem, None)?;
        let rates = match &last {
            None => optimum.rates.clone(),
            Some(last) => {
                let start = scaled(&problem, last);
                let rates = step(&problem, &start, &optimum, method)?;
                let moved: f64 = rates.iter().zip(&start).map(|(one, other)| (one - other).abs()).sum();
                let demand: f64 = problem.supplies.iter().map(|supply| supply.demand).sum();
                sums.moved_share += 0.5 * moved / demand;
                sums.excess_cost += objective(&problem, &rates) / objective(&problem, &optimum.rates) - 1.0;
                steps += 1.0;
                rates
            }
        };
        last = Some(rates);
    }
    Ok(Found { moved_share: sums.moved_share / steps, excess_cost: sums.excess_cost / steps })
}

fn step(problem: &Problem, start: &[f64], optimum: &Assignment, method: Method) -> anyhow::Result<Vec<f64>> {
    let solve = |problem: &Problem, start| anyhow::Ok(Network::default().solve(problem, start)?.rates);
    match method {
        Method::Off => Ok(optimum.rates.clone()),
        Method::Warm => solve(problem, Some(start)),
        Method::Linear(price) => {
            let mut calm = problem.clone();
            calm.move_penalty =
                Some(MovePenalty { previous: start.to_vec(), price: vec![price; start.len()] });
            solve(&calm, None)
        }
        Method::Proximal(strength) => Ok(proximal::solve(problem, start, strength)),
        Method::Keep => Ok(within_limits(problem, start)),
    }
}

/// The last rates times the change of each supply's demand.
fn scaled(problem: &Problem, last: &[f64]) -> Vec<f64> {
    let mut rates = last.to_vec();
    for (supply, terms) in problem.supplies.iter().enumerate() {
        let own = &mut rates[problem.arcs_of(supply)];
        let sum: f64 = own.iter().sum();
        if sum > 0.0 {
            own.iter_mut().for_each(|rate| *rate *= terms.demand / sum);
        }
    }
    rates
}

fn within_limits(problem: &Problem, rates: &[f64]) -> Vec<f64> {
    let mut loads = vec![0.0; problem.groups.len()];
    for (arc, rate) in problem.arcs.iter().zip(rates) {
        loads[arc.group as usize] += arc.gain * rate;
    }
    let kept = problem.arcs.iter().zip(rates).map(|(arc, rate)| {
        let (load, limit) = (loads[arc.group as usize], problem.groups[arc.group as usize].limit);
        if load > limit { rate * limit / load } else { *rate }
    });
    kept.collect()
}

/// Delay and shed of rates, ms x requests/s.
fn objective(problem: &Problem, rates: &[f64]) -> f64 {
    let shed =
        problem.supplies.iter().enumerate().map(|(supply, terms)| {
            (terms.demand - rates[problem.arcs_of(supply)].iter().sum::<f64>()).max(0.0)
        });
    let assignment = Assignment {
        shed: shed.collect(),
        rates: rates.to_vec(),
        group_price: vec![0.0; problem.groups.len()],
        supply_price: vec![0.0; problem.supplies.len()],
    };
    evaluate(problem, &assignment).objective
}

/// Engines that tie: whole milliseconds, one curve a kind, capacities in whole replicas.
fn ties(mut fleet: Problem) -> Problem {
    let curve = fleet.groups[0].curve.clone();
    let total: f64 = fleet.groups.iter().map(|group| group.capacity).sum();
    let count = f64::from(u32::try_from(fleet.groups.len()).unwrap_or(u32::MAX));
    let replica = total / count / 3.0;
    for group in &mut fleet.groups {
        let replicas = (group.capacity / replica).round().clamp(1.0, 5.0);
        group.capacity = replicas * replica;
        group.limit = 0.95 * group.capacity;
        group.curve = curve.clone();
    }
    let grown: f64 = fleet.groups.iter().map(|group| group.capacity).sum();
    for supply in &mut fleet.supplies {
        supply.demand *= grown / total;
    }
    for arc in &mut fleet.arcs {
        arc.cost = (arc.cost / 10.0).round() * 10.0;
    }
    fleet
}
