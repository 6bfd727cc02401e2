//! An independent check of an assignment: is it feasible, and how far from the optimum can it be?
//!
//! Shares no code with the solvers. Any prices give a lower bound (Lagrangian duality), so wrong prices can only make
//! the gap look larger. Costs come from the curves' own quadratics: `max over loads of (price * load - F)` has a closed
//! form on each of them, and the envelope of `F` at a load is the largest supporting line there.
use super::problem::{Assignment, Curve, Group, MovePenalty, Problem};

/// Largest relative gap of an assignment that may be published.
pub const PUBLISHABLE_GAP: f64 = 1e-6;
/// Largest violation of a constraint that counts as rounding, relative to the constraint's own size.
pub const TOLERANCE: f64 = 1e-9;

/// What the verifier found.
#[derive(Clone, Debug, PartialEq)]
pub struct Certificate {
    /// Objective of the problem as solved, move penalty included, ms x requests/s.
    pub objective: f64,
    /// No assignment of the problem as solved costs less.
    pub lower_bound: f64,
    /// `(objective - lower_bound) / |objective|`; 0 for an objective of 0.
    pub gap: f64,
    /// Objective without the move penalty over a lower bound of the problem without it, less 1: what calm costs at most.
    pub excess: f64,
    /// Every constraint that is broken by more than rounding.
    pub violations: Vec<Violation>,
}

/// A broken constraint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Violation {
    /// The answer has another shape than the problem.
    Shape,
    /// A rate, shed or price is not a number, or a rate is negative.
    Sign { position: usize },
    /// Served and shed do not add up to the demand.
    Balance { supply: usize, demand: f64, found: f64 },
    /// A group carries more than its limit.
    Capacity { group: usize, limit: f64, load: f64 },
}

impl Certificate {
    /// Whether the assignment may be published: feasible, and within [`PUBLISHABLE_GAP`] of the optimum.
    #[must_use]
    pub fn is_publishable(&self) -> bool {
        self.violations.is_empty() && self.gap <= PUBLISHABLE_GAP
    }
}

/// Checks `assignment` against `problem`. Pairs that the filters forbid have no arc, so a rate cannot name one.
#[must_use]
pub fn certify(problem: &Problem, assignment: &Assignment) -> Certificate {
    let shaped = assignment.rates.len() == problem.arcs.len()
        && assignment.shed.len() == problem.supplies.len()
        && assignment.supply_price.len() == problem.supplies.len()
        && assignment.group_price.len() == problem.groups.len();
    if !shaped {
        let (infinite, violations) = (f64::INFINITY, vec![Violation::Shape]);
        return Certificate {
            objective: infinite,
            lower_bound: -infinite,
            gap: infinite,
            excess: infinite,
            violations,
        };
    }
    let mut loads = Sums::new(problem.groups.len());
    for (arc, &rate) in problem.arcs.iter().zip(&assignment.rates) {
        loads.add(arc.group as usize, arc.gain * rate);
    }
    let loads = loads.totals();
    let violations = violations(problem, assignment, &loads);

    let mut plain = Sums::new(1);
    for (arc, &rate) in problem.arcs.iter().zip(&assignment.rates) {
        plain.add(0, arc.cost * rate);
    }
    for (supply, &shed) in problem.supplies.iter().zip(&assignment.shed) {
        plain.add(0, supply.shed_price * shed);
    }
    for (group, &load) in problem.groups.iter().zip(&loads) {
        plain.add(0, envelope_cost(group, load));
    }
    let plain = plain.totals()[0];
    let moved = problem.move_penalty.as_ref().map_or(0.0, |penalty| moved_cost(penalty, &assignment.rates));
    let objective = plain + moved;
    let lower_bound = lower_bound(problem, problem.move_penalty.as_ref(), assignment);
    let unpenalised = lower_bound_without_penalty(problem, assignment, lower_bound);
    Certificate {
        objective,
        lower_bound,
        gap: relative(objective - lower_bound, objective),
        excess: relative(plain - unpenalised, unpenalised),
        violations,
    }
}

fn relative(difference: f64, whole: f64) -> f64 {
    if difference == 0.0 { 0.0 } else { difference / whole.abs() }
}

fn violations(problem: &Problem, assignment: &Assignment, loads: &[f64]) -> Vec<Violation> {
    let mut found = Vec::new();
    let rates = assignment.rates.iter().chain(&assignment.shed);
    let bad_rate = |value: &f64| value.is_nan() || *value < 0.0;
    found.extend(
        rates
            .enumerate()
            .filter(|(_, rate)| bad_rate(rate))
            .map(|(position, _)| Violation::Sign { position }),
    );
    let prices = assignment.supply_price.iter().chain(&assignment.group_price);
    let is_nan = |price: &f64| price.is_nan();
    found.extend(
        prices.enumerate().filter(|(_, p)| is_nan(p)).map(|(position, _)| Violation::Sign { position }),
    );
    for (supply, (terms, &shed)) in problem.supplies.iter().zip(&assignment.shed).enumerate() {
        let mut sum = Sums::new(1);
        sum.add(0, shed);
        for &rate in &assignment.rates[problem.arc_start[supply]..problem.arc_start[supply + 1]] {
            sum.add(0, rate);
        }
        let (demand, total) = (terms.demand, sum.totals()[0]);
        if (total - demand).abs() > TOLERANCE * demand {
            found.push(Violation::Balance { supply, demand, found: total });
        }
    }
    for (group, (terms, &load)) in problem.groups.iter().zip(loads).enumerate() {
        if load > terms.limit * (1.0 + TOLERANCE) {
            found.push(Violation::Capacity { group, limit: terms.limit, load });
        }
    }
    found
}

fn moved_cost(penalty: &MovePenalty, rates: &[f64]) -> f64 {
    let mut sum = Sums::new(1);
    for ((&rate, &previous), &price) in rates.iter().zip(&penalty.previous).zip(&penalty.price) {
        sum.add(0, price * (rate - previous).abs());
    }
    sum.totals()[0]
}

/// The dual function at the assignment's prices. A supply's own price is lowered until no arc would be used without
/// bound; between there and its given value any choice is valid, and the given one is optimal if the prices are.
fn lower_bound(problem: &Problem, penalty: Option<&MovePenalty>, assignment: &Assignment) -> f64 {
    let mut bound = Sums::new(1);
    let price_of = |group: usize| {
        if problem.groups[group].limit > 0.0 { assignment.group_price[group] } else { f64::INFINITY }
    };
    for (index, supply) in problem.supplies.iter().enumerate() {
        let arcs = problem.arc_start[index]..problem.arc_start[index + 1];
        let dearest = arcs.clone().fold(supply.shed_price, |least, position| {
            let arc = &problem.arcs[position];
            let extra = penalty.map_or(0.0, |penalty| penalty.price[position]);
            least.min(arc.cost + extra + arc.gain * price_of(arc.group as usize))
        });
        let Some(penalty) = penalty else {
            bound.add(0, supply.demand * dearest);
            continue;
        };
        let price = dearest.min(assignment.supply_price[index]);
        bound.add(0, supply.demand * price);
        for position in arcs {
            let arc = &problem.arcs[position];
            let previous = penalty.previous[position];
            if previous > 0.0 {
                let reduced = arc.cost + arc.gain * price_of(arc.group as usize) - price;
                bound.add(0, previous * reduced.min(penalty.price[position]));
            }
        }
    }
    for (group, &price) in problem.groups.iter().zip(&assignment.group_price) {
        if group.limit > 0.0 {
            bound.add(0, -conjugate(group, price));
        }
    }
    bound.totals()[0]
}

/// A bound for the problem without its move penalty, from the same group prices.
fn lower_bound_without_penalty(problem: &Problem, assignment: &Assignment, as_solved: f64) -> f64 {
    if problem.move_penalty.is_none() { as_solved } else { lower_bound(problem, None, assignment) }
}

/// `max over 0 <= load <= limit of (price * load - load * delay(load / capacity))`, ms x reference requests/s.
fn conjugate(group: &Group, price: f64) -> f64 {
    let end = group.limit / group.capacity;
    let mut best = 0.0_f64;
    for (from, to, delay, slope) in quadratics(&group.curve, end) {
        // Value per unit of capacity at utilisation u: (price - delay + slope * from) u - slope u^2.
        let line = price - delay + slope * from;
        let value = |u: f64| (line - slope * u) * u;
        best = best.max(value(from)).max(value(to));
        if slope > 0.0 {
            best = best.max(value((line / (2.0 * slope)).clamp(from, to)));
        }
    }
    best * group.capacity
}

/// The convex envelope of the cost at `load`: its largest supporting line there, found by bisection of the price.
fn envelope_cost(group: &Group, load: f64) -> f64 {
    if group.limit <= 0.0 || load <= 0.0 {
        return 0.0;
    }
    let share = load / group.capacity;
    let end = group.limit / group.capacity;
    if is_convex(&group.curve, end) {
        let points = quadratics(&group.curve, end);
        let (from, _, delay, slope) =
            *points.iter().rev().find(|piece| piece.0 <= share).unwrap_or(&points[0]);
        return load * (delay + slope * (share - from));
    }
    // The supporting price lies where the best load passes `load`; the value is concave in the price.
    let (mut low, mut high) = (0.0, 1.0);
    let value = |price: f64| price * load - conjugate(group, price);
    while value(2.0 * high) > value(high) && high < 1e300 {
        high *= 2.0;
    }
    high *= 2.0;
    let ratio = 0.5 * (5.0_f64.sqrt() - 1.0);
    for _ in 0..200 {
        let (one, two) = (high - ratio * (high - low), low + ratio * (high - low));
        if value(one) < value(two) {
            low = one;
        } else {
            high = two;
        }
    }
    value(low).max(value(high)).max(value(0.5 * (low + high)))
}

/// `(from, to, delay at from, slope)` of the curve's lines up to `end`.
fn quadratics(curve: &Curve, end: f64) -> Vec<(f64, f64, f64, f64)> {
    let mut lines = Vec::with_capacity(curve.points.len());
    for pair in curve.points.windows(2) {
        let ((u0, d0), (u1, d1)) = (pair[0], pair[1]);
        if u0 < end {
            lines.push((u0, u1.min(end), d0, (d1 - d0) / (u1 - u0)));
        }
    }
    match lines.last_mut() {
        Some(last) if last.1 < end => last.1 = end,
        Some(_) => {}
        None => lines.push((0.0, end, 0.0, 0.0)),
    }
    lines
}

fn is_convex(curve: &Curve, end: f64) -> bool {
    let lines = quadratics(curve, end);
    lines.iter().all(|line| line.3 >= 0.0) && lines.windows(2).all(|pair| pair[0].3 <= pair[1].3)
}

/// Compensated sums (Neumaier), so that the verifier's own rounding stays below the gaps that it measures.
struct Sums {
    terms: Vec<(f64, f64)>,
}

impl Sums {
    fn new(count: usize) -> Self {
        Self { terms: vec![(0.0, 0.0); count] }
    }

    fn add(&mut self, index: usize, value: f64) {
        let (sum, lost) = &mut self.terms[index];
        let total = *sum + value;
        if total.is_finite() {
            *lost += if sum.abs() >= value.abs() { (*sum - total) + value } else { (value - total) + *sum };
        }
        *sum = total;
    }

    fn totals(&self) -> Vec<f64> {
        self.terms.iter().map(|(sum, lost)| sum + lost).collect()
    }
}
