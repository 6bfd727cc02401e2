//! Suite `solver`: the assignment's solver on synthetic fleets, beside HiGHS in the same run.
//!
//! Times are CPU seconds of one thread, since other work may share the machine: the best of a few runs. HiGHS solves the
//! fleet as a linear program with 12 segments a group; Penstock's solver solves the curves themselves, so that its time
//! includes what HiGHS' answer leaves on the table (`lp_excess`).
pub mod fleet;
pub mod highs;

use std::path::PathBuf;

use anyhow::Context;
use fleet::Shape;
use nix::time::{ClockId, clock_gettime};
use penstock_controller::solve::{
    certify::{Certificate, certify},
    network::{Effort, Network},
    problem::{Assignment, MovePenalty, Problem},
};

use crate::{row::Row, suite::Options};

const SUITE: &str = "solver";
/// Spread of the change of demand before a warm solve.
const NOISE: f64 = 0.01;
/// Price of a moved request, ms.
const MOVE_PRICE: f64 = 5.0;
/// CPU seconds after which HiGHS is stopped.
const HIGHS_LIMIT_S: f64 = 300.0;

/// Runs the suite.
///
/// # Errors
/// A solve fails, or HiGHS is there and does not answer.
pub fn run(options: &Options) -> anyhow::Result<Vec<Row>> {
    let python = highs::python();
    if python.is_none() {
        eprintln!(
            "solver: no Python with highspy, so HiGHS is left out. Once: python3 -m venv target/highs && \
             target/highs/bin/pip install highspy"
        );
    }
    let mut rows = Vec::new();
    for shape in shapes(options.quick) {
        measure(shape, python.as_ref(), &mut rows)?;
    }
    Ok(rows)
}

/// The sizes at 80 % with one class, then one dimension at a time at 200 x 1,000 (100 x 300 in the quick form).
fn shapes(quick: bool) -> Vec<Shape> {
    let base = |supplies, groups| Shape {
        supplies,
        groups,
        classes: 1,
        utilisation: 0.8,
        density: 1.0,
        mixed: false,
    };
    let mut sizes = vec![base(3, 3), base(10, 20), base(30, 100), base(100, 300), base(200, 1_000)];
    if !quick {
        sizes.extend([base(500, 2_000), base(1_000, 10_000)]);
    }
    let pivot = if quick { base(100, 300) } else { base(200, 1_000) };
    let others = [0.5, 0.95, 1.1].map(|utilisation| Shape { utilisation, ..pivot });
    sizes.extend(others);
    sizes.push(Shape { density: 0.3, ..pivot });
    sizes.push(Shape { classes: 8, ..pivot });
    sizes.push(Shape { classes: 8, mixed: true, ..pivot });
    sizes
}

fn name(shape: Shape) -> String {
    let Shape { supplies, groups, classes, utilisation, density, mixed } = shape;
    let work = if mixed { "/mixed" } else { "" };
    format!("{supplies}x{groups}/u{:.0}/d{:.0}/k{classes}{work}", 100.0 * utilisation, 100.0 * density)
}

/// A solve's CPU seconds, answer and effort.
struct Timed {
    seconds: f64,
    assignment: Assignment,
    effort: Effort,
}

fn measure(shape: Shape, python: Option<&PathBuf>, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let case = name(shape);
    let row = |metric: &str, value: f64, unit: &'static str| Row::new(SUITE, &case, metric, value, unit);
    let mut problem = fleet::fleet(shape, 7);
    let runs = if problem.arcs.len() > 1_000_000 { 1 } else { 5 };
    let cold = best_of(runs, &problem, None).with_context(|| format!("{case} cold"))?;
    let certificate = certify(&problem, &cold.assignment);
    // HiGHS gets hours for the largest sizes elsewhere; here it is asked where it ends within minutes.
    let peer = match python {
        Some(python) if problem.arcs.len() <= 200_000 => highs::solve(python, &problem, HIGHS_LIMIT_S)?,
        _ => None,
    };
    let against = |row: Row, value: Option<f64>| match value {
        Some(value) => row.against("HiGHS", value),
        None => row,
    };
    rows.push(against(row("cold_s", cold.seconds, "s"), peer.map(|peer| peer.seconds)));
    rows.push(row("gap", certificate.gap.abs(), "ratio"));
    rows.push(row("smooth_gap", certificate.gap.abs(), "ratio"));
    let mib = |bytes: usize| f64::from(u32::try_from(bytes / 1024).unwrap_or(u32::MAX)) / 1024.0;
    rows.push(against(row("memory_mib", mib(cold.effort.bytes), "MiB"), peer.map(|peer| peer.memory_mib)));
    if let Some(peer) = peer {
        rows.push(row("lp_excess", peer.objective / certificate.objective - 1.0, "ratio"));
        rows.push(row("highs_over_cold", peer.seconds / cold.seconds, "ratio"));
    }
    let start = after_noise(&mut problem, &cold.assignment);
    let warm = best_of(runs, &problem, Some(&start)).with_context(|| format!("{case} warm"))?;
    push_warm(rows, &row, "warm", &warm, &certify(&problem, &warm.assignment));
    problem.move_penalty = Some(MovePenalty { price: vec![MOVE_PRICE; start.len()], previous: start });
    let calm = best_of(runs, &problem, None).with_context(|| format!("{case} with a move penalty"))?;
    push_warm(rows, &row, "calm", &calm, &certify(&problem, &calm.assignment));
    Ok(())
}

fn push_warm(
    rows: &mut Vec<Row>,
    row: &impl Fn(&str, f64, &'static str) -> Row,
    kind: &str,
    timed: &Timed,
    certificate: &Certificate,
) {
    rows.push(row(&format!("{kind}_s"), timed.seconds, "s"));
    rows.push(row(&format!("{kind}_gap"), certificate.gap.abs(), "ratio"));
}

/// Changes demand by noise and returns the old rates times the change.
fn after_noise(problem: &mut Problem, assignment: &Assignment) -> Vec<f64> {
    let before: Vec<f64> = problem.supplies.iter().map(|supply| supply.demand).collect();
    fleet::perturb(problem, NOISE, 9);
    let mut start = assignment.rates.clone();
    for (supply, before) in before.iter().enumerate() {
        let change = problem.supplies[supply].demand / before;
        start[problem.arcs_of(supply)].iter_mut().for_each(|rate| *rate *= change);
    }
    start
}

fn best_of(runs: u32, problem: &Problem, start: Option<&[f64]>) -> anyhow::Result<Timed> {
    let mut best: Option<Timed> = None;
    for _ in 0..runs {
        let began = cpu_seconds()?;
        let (assignment, effort) = Network::default().solve_measured(problem, start)?;
        let seconds = cpu_seconds()? - began;
        if best.as_ref().is_none_or(|best| seconds < best.seconds) {
            best = Some(Timed { seconds, assignment, effort });
        }
    }
    best.context("no runs")
}

/// CPU time of this thread.
fn cpu_seconds() -> anyhow::Result<f64> {
    let now = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).context("reading the thread's CPU clock")?;
    Ok(std::time::Duration::from(now).as_secs_f64())
}
