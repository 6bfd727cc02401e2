//! Weight path, second stage: from a problem to rates per (frontend, class, group).
//!
//! [`problem`] is the seam: what a solver takes and returns. A [`Solver`] is pure: the same problem and start give the
//! same answer, bit by bit. [`certify`] checks any answer and shares no code with the solvers.
pub mod certify;
mod curve;
mod duals;
pub mod evaluate;
#[cfg(test)]
mod fixture;
pub mod network;
pub mod problem;
#[cfg(test)]
mod properties;
pub mod reference;
pub mod robustness;

use std::time::Duration;

use problem::{Assignment, Problem, ProblemError};

/// A way to solve the assignment.
pub trait Solver: std::fmt::Debug {
    /// The name that logs, metrics and records carry.
    fn name(&self) -> &'static str;

    /// Solves `problem`, starting from `start` where the method can: one rate per arc in requests/s, such as the
    /// published weights times the new demand. Arcs whose group is gone are simply absent, and rates need not be feasible.
    ///
    /// # Errors
    /// Malformed problems and problems that exceed the method's guards; the caller keeps what it published.
    fn solve(&self, problem: &Problem, start: Option<&[f64]>) -> Result<Assignment, SolveError>;
}

/// Why a problem has no answer.
#[derive(Debug, thiserror::Error)]
pub enum SolveError {
    /// The problem breaks a rule of [`Problem`]. Its builder is at fault.
    #[error("the problem is malformed")]
    Malformed(#[from] ProblemError),
    /// A start has another length than the problem. The caller mapped arcs of another problem.
    #[error("the start has {found} rates for {expected} arcs")]
    StartLength { found: usize, expected: usize },
    /// The method did not finish in its budget of steps. Numbers that differ by more than about 1e12 can cause it; the
    /// other solver may still answer.
    #[error("no optimum after {steps} steps")]
    StepLimit { steps: usize },
    /// The reference solver needs longer than it was allowed. It is meant for small problems.
    #[error("no optimum within {limit:?}")]
    TimeLimit { limit: Duration },
    /// The linear program's library failed. Its text names the cause.
    #[error("the linear program failed")]
    LinearProgram(#[from] microlp::Error),
}
