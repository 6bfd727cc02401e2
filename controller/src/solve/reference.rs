//! The readable solver: a linear program in `microlp`, with segments refined round each load.
//!
//! For small problems, and as the oracle of the large solver. The cost of each group is cut into segments; at an
//! optimum of the linear program loads stand on their ends, so that each round rebuilds the segments round the loads
//! of the last one until the gap of the true (smooth) problem closes.
use std::time::{Duration, Instant};

use microlp::{ComparisonOp, OptimizationDirection, SolveOptions, SolveOutcome, Tolerances, Variable};

use super::{
    SolveError, Solver,
    curve::CostCurve,
    duals::{self, Prices},
    evaluate::loads,
    problem::{Assignment, Problem},
};

/// Relative gap at which refinement ends.
const TARGET_GAP: f64 = 1e-9;
/// Rounds after which the best answer so far is returned; each shrinks the window by `SHRINK`.
const ROUNDS: usize = 14;
const SHRINK: f64 = 5.0;
/// Segments inside the window and outside it.
const FINE: u32 = 16;
const COARSE: u32 = 8;

/// Solves the assignment as a linear program.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Time after which a solve gives up. The library looks at its clock every 1,000 iterations, so that a large problem
    /// can take several times longer.
    pub time_limit: Duration,
}

impl Default for Reference {
    fn default() -> Self {
        Self { time_limit: Duration::from_secs(10) }
    }
}

impl Solver for Reference {
    fn name(&self) -> &'static str {
        "microlp"
    }

    /// The method has no warm start: `start` is checked and left aside.
    fn solve(&self, problem: &Problem, start: Option<&[f64]>) -> Result<Assignment, SolveError> {
        problem.check()?;
        if let Some(start) = start.filter(|start| start.len() != problem.arcs.len()) {
            return Err(SolveError::StartLength { found: start.len(), expected: problem.arcs.len() });
        }
        let deadline = Instant::now() + self.time_limit;
        let curves: Vec<CostCurve> = problem.groups.iter().map(CostCurve::new).collect();
        let mut segments: Vec<Vec<Segment>> =
            curves.iter().map(|curve| cut(curve, 0.5 * curve.limit(), 0.5)).collect();
        let mut best: Option<(f64, Assignment)> = None;
        let mut window = 0.5;
        for _ in 0..ROUNDS {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(SolveError::TimeLimit { limit: self.time_limit });
            }
            let (rates, shed) = match linear_program(problem, &segments, left)? {
                Some((shares, shed)) => duals::repair(problem, &curves, shares, &shed),
                None => return Err(SolveError::TimeLimit { limit: self.time_limit }),
            };
            let loads = loads(problem, &rates);
            let up: Vec<f64> =
                segments.iter().zip(&loads).map(|(cut, &load)| next_slope(cut, load)).collect();
            let Prices { group, supply } = duals::prices(problem, &rates, &up);
            let candidate = Assignment { rates, shed, group_price: group, supply_price: supply };
            let cost = duals::objective(problem, &curves, &candidate.rates, &candidate.shed);
            let bound = duals::lower_bound(problem, &curves, &candidate.group_price, &candidate.supply_price);
            let gap = if cost > bound { (cost - bound) / cost.abs() } else { 0.0 };
            if best.as_ref().is_none_or(|(least, _)| gap < *least) {
                best = Some((gap, candidate));
            }
            if gap <= TARGET_GAP {
                break;
            }
            window /= SHRINK;
            segments = curves.iter().zip(&loads).map(|(curve, &load)| cut(curve, load, window)).collect();
        }
        let (_, assignment) = best.expect("at least one round was solved");
        Ok(assignment)
    }
}

/// A stretch of load on which the cost is taken as a line.
#[derive(Clone, Copy, Debug)]
struct Segment {
    width: f64,
    slope: f64,
}

/// Cuts a cost into lines: fine within `window` (a share of the limit) of `centre`, coarse elsewhere, and at each jump
/// of the marginal.
fn cut(curve: &CostCurve, centre: f64, window: f64) -> Vec<Segment> {
    let limit = curve.limit();
    let (low, high) = ((centre - window * limit).max(0.0), (centre + window * limit).min(limit));
    let mut points = vec![0.0, limit];
    let mut spread = |from: f64, to: f64, count: u32| {
        points.extend((0..=count).map(|step| from + (to - from) * f64::from(step) / f64::from(count)));
    };
    spread(low, high, FINE);
    spread(0.0, low, COARSE / 2);
    spread(high, limit, COARSE / 2);
    let mut segments: Vec<Segment> = Vec::new();
    for piece in &curve.pieces {
        let inside = points.iter().copied().filter(|point| piece.from < *point && *point < piece.to);
        let mut ends: Vec<f64> = if piece.low == piece.high { Vec::new() } else { inside.collect() };
        ends.extend([piece.from, piece.to]);
        ends.sort_by(f64::total_cmp);
        ends.dedup_by(|one, other| *one - *other < 1e-12 * limit);
        for pair in ends.windows(2) {
            let width = pair[1] - pair[0];
            let slope = (curve.cost(pair[1]) - curve.cost(pair[0])) / width;
            // Differences of rounded costs may fall by their rounding; the solver needs them not to.
            let slope = segments.last().map_or(slope, |last| slope.max(last.slope));
            segments.push(Segment { width, slope });
        }
    }
    segments
}

/// Slope of the segment that takes the next unit of load; infinite at the limit.
fn next_slope(segments: &[Segment], load: f64) -> f64 {
    let limit: f64 = segments.iter().map(|segment| segment.width).sum();
    let mut end = 0.0;
    for segment in segments {
        end += segment.width;
        if load < end - 1e-9 * limit {
            return segment.slope;
        }
    }
    f64::INFINITY
}

/// Rates and shed of one linear program, or `None` when the time is over.
///
/// Variables are normalised, since the library's tolerances are absolute: rates to the supply's demand, loads to the
/// group's limit (or a millionth of all demand for a group smaller than that), costs to the total demand.
#[expect(clippy::type_complexity, reason = "one caller, which takes the pair apart at once")]
fn linear_program(
    problem: &Problem,
    segments: &[Vec<Segment>],
    time_limit: Duration,
) -> Result<Option<(Vec<f64>, Vec<f64>)>, SolveError> {
    let total: f64 = problem.supplies.iter().map(|supply| supply.demand).sum();
    if total <= 0.0 {
        return Ok(Some((vec![0.0; problem.arcs.len()], vec![0.0; problem.supplies.len()])));
    }
    let mut program = microlp::Problem::new(OptimizationDirection::Minimize);
    let mut group_rows: Vec<Vec<(Variable, f64)>> = vec![Vec::new(); problem.groups.len()];
    let mut parts: Vec<(usize, Variable)> = Vec::new();
    let mut shed_variables: Vec<Option<Variable>> = Vec::new();
    for (index, supply) in problem.supplies.iter().enumerate() {
        let demand = supply.demand;
        if demand <= 0.0 {
            shed_variables.push(None);
            continue;
        }
        let unit = demand / total;
        let shed = program.add_var(supply.shed_price * unit, (0.0, f64::INFINITY));
        let mut row = vec![(shed, 1.0)];
        for position in problem.arcs_of(index) {
            let arc = &problem.arcs[position];
            let group = arc.group as usize;
            if segments[group].is_empty() {
                continue;
            }
            for (cost, most) in arc_parts(problem, position) {
                let variable = program.add_var(cost * unit, (0.0, most / demand));
                row.push((variable, 1.0));
                group_rows[group].push((variable, arc.gain * demand / load_unit(segments, group, total)));
                parts.push((position, variable));
            }
        }
        program.add_constraint(row, ComparisonOp::Eq, 1.0);
        shed_variables.push(Some(shed));
    }
    for (group, mut row) in group_rows.into_iter().enumerate().filter(|(_, row)| !row.is_empty()) {
        let scale = load_unit(segments, group, total);
        for segment in &segments[group] {
            let variable = program.add_var(segment.slope * scale / total, (0.0, segment.width / scale));
            row.push((variable, -1.0));
        }
        program.add_constraint(row, ComparisonOp::Eq, 0.0);
    }
    let mut options = SolveOptions::default();
    options.time_limit = Some(time_limit);
    options.tolerances = Tolerances::default();
    options.tolerances.feasibility = 1e-10;
    let SolveOutcome::Solution(solution) = program.solve_with(options)? else { return Ok(None) };
    let mut rates = vec![0.0; problem.arcs.len()];
    for (position, variable) in parts {
        rates[position] += solution.var_value(variable).max(0.0);
    }
    let shares: Vec<f64> = shed_variables
        .iter()
        .map(|shed| shed.map_or(0.0, |shed| solution.var_value(shed).max(0.0)))
        .collect();
    Ok(Some((rates, shares)))
}

fn load_unit(segments: &[Vec<Segment>], group: usize, total: f64) -> f64 {
    let limit: f64 = segments[group].iter().map(|segment| segment.width).sum();
    limit.max(1e-6 * total)
}

/// Cost and upper bound of the variables that make up an arc: one, or two on either side of the published rate.
fn arc_parts(problem: &Problem, position: usize) -> Vec<(f64, f64)> {
    let cost = problem.arcs[position].cost;
    match &problem.move_penalty {
        None => vec![(cost, f64::INFINITY)],
        Some(penalty) => {
            let (previous, price) = (penalty.previous[position], penalty.price[position]);
            let mut parts = vec![(cost + price, f64::INFINITY)];
            if previous > 0.0 && price > 0.0 {
                parts.push((cost - price, previous));
            }
            parts
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solve::{certify::certify, evaluate::evaluate, fixture};

    #[test]
    fn three_regions_hold_every_group_just_below_the_knee() {
        let problem = fixture::talk();

        let assignment = Reference::default().solve(&problem, None).unwrap();

        let found = evaluate(&problem, &assignment);
        assert!((found.mean_e2e_ms.unwrap() - 3278.41).abs() < 0.01, "{found:?}");
        assert!(found.utilisation.iter().all(|share| (0.889..=0.9).contains(share)), "{found:?}");
        let certificate = certify(&problem, &assignment);
        assert!(certificate.violations.is_empty(), "{certificate:?}");
        assert!(certificate.gap < 1e-8, "{certificate:?}");
    }

    #[test]
    fn mixed_hardware_is_solved_with_gains() {
        let problem = fixture::mixed();

        let assignment = Reference::default().solve(&problem, None).unwrap();

        let found = evaluate(&problem, &assignment);
        assert!((found.mean_e2e_ms.unwrap() - 3768.3).abs() < 0.3, "{found:?}");
        let certificate = certify(&problem, &assignment);
        assert!(certificate.is_publishable() && certificate.gap < 1e-8, "{certificate:?}");
    }
}
