//! The exact solvers behind one: by size, and each checked by the certificate.
use crate::solve::certify::certify;
use crate::solve::network::Network;
use crate::solve::problem::{Assignment, Problem};
use crate::solve::reference::Reference;
use crate::solve::{SolveError, Solver};

/// Problems of so many arcs go to the readable solver first; it takes a few milliseconds for them.
pub const SMALL: usize = 256;
/// Largest problem that the readable solver is asked for when the other has no proven answer: about a second.
pub const BEARABLE: usize = 3_000;

/// Small problems by linear programs, the others by network simplex; the other one where an answer is not proven.
#[derive(Clone, Debug, Default)]
pub struct Exact {
    reference: Reference,
    network: Network,
}

impl Solver for Exact {
    fn name(&self) -> &'static str {
        "exact"
    }

    fn solve(&self, problem: &Problem, start: Option<&[f64]>) -> Result<Assignment, SolveError> {
        let arcs = problem.arcs.len();
        let (first, second): (&dyn Solver, &dyn Solver) =
            if arcs <= SMALL { (&self.reference, &self.network) } else { (&self.network, &self.reference) };
        let answer = first.solve(problem, start);
        let is_proven = answer.as_ref().is_ok_and(|answer| certify(problem, answer).is_publishable());
        if is_proven || arcs > BEARABLE {
            return answer;
        }
        // The caller checks what is left: an answer without proof is better than none.
        second.solve(problem, start).or(answer)
    }
}
