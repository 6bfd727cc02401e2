//! Properties of the solvers on random fleets, against methods that share nothing with them.
use microlp::{ComparisonOp, OptimizationDirection, SolveOutcome, Variable};

use super::{
    Solver,
    certify::certify,
    evaluate::evaluate,
    fixture::{self, Random, Shape},
    network::Network,
    problem::{Arc, Assignment, Curve, Group, Problem, Supply},
    reference::Reference,
};

const SHAPE: Shape = Shape { supplies: 6, groups: 6, mixed: true, tied: false, penalty: false };

fn solve(problem: &Problem) -> (Assignment, f64) {
    let assignment = Network::default().solve(problem, None).unwrap();
    let objective = evaluate(problem, &assignment).objective;
    (assignment, objective)
}

/// Bounds of the optimum by two linear programs of the test's own: the cost cut into chords lies above the curve, cut
/// into tangents below it. Costs are scaled by `1 / unit`.
fn bounds(problem: &Problem, unit: f64) -> (f64, f64) {
    let chords =
        program(problem, unit, |group, from, to| (cost(group, to) - cost(group, from)) / (to - from), 0.0);
    // The left marginal of each piece never exceeds the curve's: a lower sum.
    let below = program(problem, unit, |group, from, _| marginal(group, from), 0.0);
    (below, chords)
}

fn cost(group: &Group, load: f64) -> f64 {
    load * group.curve.delay_ms(load / group.capacity)
}

fn marginal(group: &Group, load: f64) -> f64 {
    let step = 1e-7 * group.capacity;
    (cost(group, load + step) - cost(group, load)) / step
}

fn program(problem: &Problem, unit: f64, slope: impl Fn(&Group, f64, f64) -> f64, start: f64) -> f64 {
    const PIECES: u32 = 400;
    let mut program = microlp::Problem::new(OptimizationDirection::Minimize);
    let mut loads: Vec<Vec<(Variable, f64)>> = vec![Vec::new(); problem.groups.len()];
    for (supply, terms) in problem.supplies.iter().enumerate().filter(|(_, terms)| terms.demand > 0.0) {
        let mut row = vec![(program.add_var(terms.shed_price / unit, (0.0, f64::INFINITY)), 1.0)];
        for arc in &problem.arcs[problem.arcs_of(supply)] {
            let rate = program.add_var(arc.cost / unit, (0.0, f64::INFINITY));
            row.push((rate, 1.0));
            loads[arc.group as usize].push((rate, arc.gain));
        }
        program.add_constraint(row, ComparisonOp::Eq, terms.demand);
    }
    for (group, mut row) in problem.groups.iter().zip(loads).filter(|(_, row)| !row.is_empty()) {
        for piece in 0..PIECES {
            let (from, to) = (f64::from(piece), f64::from(piece + 1));
            let width = group.limit / f64::from(PIECES);
            if width > 0.0 {
                let price = slope(group, from * width, to * width);
                row.push((program.add_var(price / unit, (0.0, width)), -1.0));
            }
        }
        program.add_constraint(row, ComparisonOp::Eq, 0.0);
    }
    let SolveOutcome::Solution(solution) = program.solve().unwrap() else { panic!("no time limit was set") };
    start + solution.objective() * unit
}

/// A fleet with convex curves and moderate shed prices, which the linear programs of the tests can take.
fn gentle(seed: u64) -> Problem {
    let random = &mut Random::new(seed ^ 0x5eed);
    let mut problem = fixture::random(seed, SHAPE);
    for group in &mut problem.groups {
        let (knee, rise) = (random.within(0.3, 0.9), random.within(50.0, 500.0));
        group.curve =
            Curve { points: vec![(0.0, 0.0), (knee, rise), (1.0, rise + random.within(2.0, 6.0) * rise)] };
    }
    for supply in &mut problem.supplies {
        supply.shed_price = random.within(2e4, 9e4);
    }
    problem
}

#[test]
fn the_optimum_lies_between_two_linear_programs() {
    for seed in 0..150 {
        let problem = gentle(seed);

        let (_, objective) = solve(&problem);

        let (below, above) = bounds(&problem, 1e3);
        let slack = 1e-7 * above.abs();
        assert!(
            below - slack <= objective && objective <= above + slack,
            "seed {seed}: {below} {objective} {above}"
        );
        assert!(
            above - below <= 0.02 * above.abs().max(1.0),
            "seed {seed}: the bounds are loose: {below} {above}"
        );
    }
}

#[test]
fn both_solvers_agree_on_small_fleets() {
    for seed in 0..400 {
        let problem = gentle(seed);
        let reference = Reference::default().solve(&problem, None).unwrap();

        let (_, objective) = solve(&problem);

        let expected = evaluate(&problem, &reference).objective;
        assert!((objective - expected).abs() <= 1e-7 * expected.abs(), "seed {seed}: {objective} {expected}");
    }
}

#[test]
fn more_capacity_never_costs() {
    for seed in 0..400 {
        let mut problem = gentle(seed);
        let (_, before) = solve(&problem);
        let grown = usize::try_from(seed).unwrap() % problem.groups.len();
        problem.groups[grown].capacity *= 1.5;
        problem.groups[grown].limit *= 1.5;

        let (_, after) = solve(&problem);

        assert!(after <= before + 1e-9 * before.abs(), "seed {seed}: {before} {after}");
    }
}

#[test]
fn the_price_of_a_supply_is_what_one_more_request_costs() {
    let mut checked = 0;
    for seed in 0..300 {
        let problem = gentle(seed);
        let (assignment, before) = solve(&problem);
        for supply in 0..problem.supplies.len() {
            let demand = problem.supplies[supply].demand;
            if demand <= 0.0 {
                continue;
            }
            let difference = |step: f64| {
                let mut changed = problem.clone();
                changed.supplies[supply].demand += step;
                (solve(&changed).1 - before) / step
            };
            let step = 1e-4 * demand;
            let (left, right) = (difference(-step), difference(step));
            let price = assignment.supply_price[supply];

            // Right-hand: what one request more costs, up to the curvature over the step.
            let slack = 1e-3 * price.abs();
            assert!((price - right).abs() <= slack, "seed {seed}: {left} {price} {right}");
            checked += 1;
        }
    }
    assert!(checked > 500);
}

#[test]
fn order_of_supplies_and_groups_changes_nothing() {
    for seed in 0..300 {
        let problem = gentle(seed);
        let (assignment, objective) = solve(&problem);
        let reversed = reversed(&problem);

        let (other, same) = solve(&reversed);

        assert!((objective - same).abs() <= 1e-10 * objective.abs(), "seed {seed}");
        let (one, two) = (evaluate(&problem, &assignment), evaluate(&reversed, &other));
        for (load, again) in one.loads.iter().zip(two.loads.iter().rev()) {
            assert!((load - again).abs() <= 1e-6 * load.max(1e-3), "seed {seed}: {load} {again}");
        }
    }
}

fn reversed(problem: &Problem) -> Problem {
    let last = u32::try_from(problem.groups.len()).unwrap() - 1;
    let mut reversed = Problem {
        supplies: problem.supplies.iter().rev().copied().collect(),
        groups: problem.groups.iter().rev().cloned().collect(),
        arc_start: vec![0],
        arcs: Vec::new(),
        move_penalty: None,
    };
    for supply in (0..problem.supplies.len()).rev() {
        let own = problem.arcs[problem.arcs_of(supply)].iter().rev();
        reversed.arcs.extend(own.map(|arc| Arc { group: last - arc.group, ..*arc }));
        reversed.arc_start.push(reversed.arcs.len());
    }
    reversed
}

fn one_group(capacity: f64, demands: &[f64], delay: Vec<(f64, f64)>) -> Problem {
    Problem {
        supplies: demands.iter().map(|&demand| Supply { demand, shed_price: 1e7 }).collect(),
        groups: vec![Group { capacity, limit: 0.95 * capacity, curve: Curve { points: delay } }],
        arc_start: (0..=demands.len()).collect(),
        arcs: demands.iter().map(|_| Arc { group: 0, cost: 100.0, gain: 1.0 }).collect(),
        move_penalty: None,
    }
}

#[test]
fn without_capacity_everything_is_shed() {
    let problem = one_group(0.0, &[5.0, 7.0], vec![(0.0, 0.0), (1.0, 10.0)]);

    let (assignment, objective) = solve(&problem);

    assert_eq!(assignment.shed, vec![5.0, 7.0]);
    assert!((objective - 12.0 * 1e7).abs() < 1.0);
}

#[test]
fn without_demand_nothing_is_served() {
    let problem = one_group(10.0, &[0.0], vec![(0.0, 0.0), (1.0, 10.0)]);

    let (assignment, objective) = solve(&problem);

    assert_eq!((assignment.rates, assignment.shed, objective), (vec![0.0], vec![0.0], 0.0));
}

#[test]
fn a_class_that_no_group_may_serve_is_shed_alone() {
    let mut problem = one_group(10.0, &[5.0], vec![(0.0, 0.0), (1.0, 10.0)]);
    problem.supplies.push(Supply { demand: 3.0, shed_price: 1e7 });
    problem.arc_start.push(1);

    let (assignment, _) = solve(&problem);

    assert_eq!(assignment.shed, vec![0.0, 3.0]);
}

#[test]
fn above_capacity_the_cheapest_work_is_shed_and_a_long_prompt_never_before_a_short_one() {
    // Prices by work: 5 and 1 reference requests at priority 0, 1 at priority 1.
    let mut problem = one_group(100.0, &[10.0, 50.0, 50.0], vec![(0.0, 0.0), (1.0, 10.0)]);
    for (supply, price) in [(0, 5e9), (1, 1e9), (2, 1e8)] {
        problem.supplies[supply].shed_price = price;
    }
    problem.arcs[0].gain = 5.0;

    let (assignment, _) = solve(&problem);

    // 50 + 50 + 50 of work for 95: all of the low priority and 5 more are refused, of either at priority 0, which tie.
    assert!((assignment.shed[2] - 50.0).abs() < 1e-9, "{assignment:?}");
    assert!((5.0 * assignment.shed[0] + assignment.shed[1] - 5.0).abs() < 1e-6, "{assignment:?}");
}

#[test]
fn capacities_of_a_billionth_and_a_billion_stand_beside_each_other() {
    let mut problem = one_group(1e9, &[1e8], vec![(0.0, 0.0), (1.0, 100.0)]);
    problem.groups.push(Group { capacity: 1e-9, limit: 0.95e-9, curve: problem.groups[0].curve.clone() });
    problem.arcs.push(Arc { group: 1, cost: 1.0, gain: 1.0 });
    problem.arc_start = vec![0, 2];

    let (assignment, _) = solve(&problem);

    let certificate = certify(&problem, &assignment);
    assert!(certificate.is_publishable(), "{certificate:?}");
}

#[test]
fn curves_that_are_flat_concave_or_jump_are_solved_on_their_envelope() {
    let curves = [
        vec![(0.0, 0.0), (1.0, 0.0)],
        vec![(0.0, 0.0), (0.1, 300.0), (1.0, 400.0)],
        vec![(0.0, 0.0), (0.5, 10.0), (0.500_001, 5_000.0), (1.0, 5_001.0)],
    ];
    for points in curves {
        let mut problem = one_group(10.0, &[8.0], points.clone());
        problem.groups.push(problem.groups[0].clone());
        problem.arcs =
            vec![Arc { group: 0, cost: 100.0, gain: 1.0 }, Arc { group: 1, cost: 130.0, gain: 1.0 }];
        problem.arc_start = vec![0, 2];

        let (assignment, _) = solve(&problem);

        let certificate = certify(&problem, &assignment);
        assert!(certificate.is_publishable() && certificate.gap.abs() < 1e-9, "{points:?}: {certificate:?}");
    }
}

#[test]
fn numbers_that_are_not_finite_are_refused() {
    let mut problem = one_group(10.0, &[5.0], vec![(0.0, 0.0), (1.0, 10.0)]);
    problem.supplies[0].demand = f64::NAN;

    let refused = Network::default().solve(&problem, None);

    assert!(refused.is_err());
}

#[test]
fn rates_of_a_fleet_with_one_group_more_are_a_good_start() {
    for seed in 0..200 {
        let problem = gentle(seed);
        let (assignment, _) = solve(&problem);
        let mut smaller = problem.clone();
        let gone = smaller.groups.len() - 1;
        (smaller.groups[gone].capacity, smaller.groups[gone].limit) = (0.0, 0.0);
        let (_, expected) = solve(&smaller);

        let repaired = Network::default().solve(&smaller, Some(&assignment.rates)).unwrap();

        let found = evaluate(&smaller, &repaired).objective;
        assert!((found - expected).abs() <= 1e-9 * expected.abs(), "seed {seed}: {found} {expected}");
    }
}
