//! HiGHS as the peer: the same fleet as a linear program with 12 segments a group, in a Python process of its own.
use std::{io::Write, path::PathBuf, process::Command};

use anyhow::{Context, bail};
use penstock_controller::solve::problem::Problem;

const SCRIPT: &str = include_str!("highs.py");
/// Segments that a group's cost is cut into.
const SEGMENTS: u32 = 12;
/// A Python with `highspy`, if it is not `python3`.
const PYTHON: &str = "PENSTOCK_HIGHS_PYTHON";

/// What HiGHS answered.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// CPU seconds of the solve, without building the program.
    pub seconds: f64,
    /// Objective of the linear program, which lies above the curves' own.
    pub objective: f64,
    pub memory_mib: f64,
}

/// A Python that can import `highspy`, if there is one: the variable's, `target/highs` of the workspace, or `python3`.
#[must_use]
pub fn python() -> Option<PathBuf> {
    let own = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../target/highs/bin/python"));
    let named = std::env::var_os(PYTHON).map(PathBuf::from);
    let imports = |python: &PathBuf| {
        Command::new(python)
            .args(["-c", "import highspy"])
            .output()
            .is_ok_and(|output| output.status.success())
    };
    named.into_iter().chain([own, PathBuf::from("python3")]).find(imports)
}

/// Solves `problem` with HiGHS; `None` if it takes longer than `limit_s`.
///
/// # Errors
/// The process does not start, or does not answer in its format.
pub fn solve(python: &PathBuf, problem: &Problem, limit_s: f64) -> anyhow::Result<Option<Answer>> {
    let mut file = tempfile::NamedTempFile::new().context("creating the problem's file")?;
    let mut bytes = Vec::new();
    for value in values(problem) {
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    file.write_all(&bytes).context("writing the problem's file")?;
    file.flush().context("writing the problem's file")?;
    let output = Command::new(python)
        .args(["-c", SCRIPT])
        .arg(file.path())
        .arg(limit_s.to_string())
        .output()
        .context("starting HiGHS")?;
    if !output.status.success() {
        bail!("HiGHS failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8(output.stdout).context("reading HiGHS' answer")?;
    // The library greets on standard output before it can be told not to.
    let words: Vec<&str> = text.lines().last().unwrap_or_default().split_whitespace().collect();
    let &[status, seconds, objective, memory] = words.as_slice() else {
        bail!("HiGHS answered {text:?}");
    };
    if status != "Optimal" {
        return Ok(None);
    }
    let number = |word: &str| word.parse::<f64>().with_context(|| format!("HiGHS answered {text:?}"));
    Ok(Some(Answer { seconds: number(seconds)?, objective: number(objective)?, memory_mib: number(memory)? }))
}

/// The problem in the script's order.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn values(problem: &Problem) -> Vec<f64> {
    let (supplies, groups, arcs) = (problem.supplies.len(), problem.groups.len(), problem.arcs.len());
    let mut values = vec![supplies as f64, groups as f64, f64::from(SEGMENTS), arcs as f64];
    values.extend(problem.supplies.iter().map(|supply| supply.demand));
    values.extend(problem.supplies.iter().map(|supply| supply.shed_price));
    let mut slopes = Vec::new();
    for group in &problem.groups {
        let cost = |load: f64| load * group.curve.delay_ms(load / group.capacity);
        let end = |step: u32| group.limit * (1.0 - (1.0 - f64::from(step) / f64::from(SEGMENTS)).powf(1.6));
        for step in 0..SEGMENTS {
            let (from, to) = (end(step), end(step + 1));
            values.push(to - from);
            slopes.push((cost(to) - cost(from)) / (to - from));
        }
    }
    values.extend(slopes);
    for supply in 0..supplies {
        values.extend(problem.arcs_of(supply).map(|_| supply as f64));
    }
    values.extend(problem.arcs.iter().map(|arc| f64::from(arc.group)));
    values.extend(problem.arcs.iter().map(|arc| arc.cost));
    values.extend(problem.arcs.iter().map(|arc| arc.gain));
    values
}
