//! What an assignment is worth when its inputs were wrong, or a site is gone.
use super::{
    SolveError, Solver,
    evaluate::{Evaluation, evaluate},
    problem::{Assignment, Problem},
};

/// Cost of one assignment under profiles that were too good or too bad.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileError {
    /// If every delay under load is this share lower than the profiles say.
    pub lower: Evaluation,
    /// If it is this share higher.
    pub higher: Evaluation,
    /// `higher` objective over the best objective that a solver who knew would have reached, less 1: what the error costs
    /// beyond what is unavoidable.
    pub regret: f64,
}

/// Served share of demand by priority after the loss of a site.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteLoss {
    /// Position of the site among those given.
    pub site: usize,
    /// One for each priority given, in 0..=1; 1 for a priority without demand.
    pub served: Vec<f64>,
}

/// Evaluates `assignment` with every curve off by `share` (0.2 for 20 %) either way.
///
/// # Errors
/// The problem with longer delays cannot be solved.
pub fn profile_error(
    problem: &Problem,
    assignment: &Assignment,
    share: f64,
    solver: &dyn Solver,
) -> Result<ProfileError, SolveError> {
    let lower = evaluate(&stretched(problem, 1.0 - share), assignment);
    let slower = stretched(problem, 1.0 + share);
    let higher = evaluate(&slower, assignment);
    let known = evaluate(&slower, &solver.solve(&slower, Some(&assignment.rates))?);
    let regret = if known.objective > 0.0 { higher.objective / known.objective - 1.0 } else { 0.0 };
    Ok(ProfileError { lower, higher, regret })
}

/// Solves again without each site in turn. `site` names each group's site, below `sites`; `priority` each supply's
/// priority, below `priorities`.
///
/// # Errors
/// A problem without one of the sites cannot be solved.
pub fn n_minus_one(
    problem: &Problem,
    site: &[usize],
    sites: usize,
    priority: &[usize],
    priorities: usize,
    solver: &dyn Solver,
) -> Result<Vec<SiteLoss>, SolveError> {
    let mut losses = Vec::with_capacity(sites);
    for lost in 0..sites {
        let mut left = Problem { move_penalty: None, ..problem.clone() };
        for (group, _) in left.groups.iter_mut().zip(site).filter(|(_, site)| **site == lost) {
            (group.capacity, group.limit) = (0.0, 0.0);
        }
        let assignment = solver.solve(&left, None)?;
        let mut demand = vec![0.0; priorities];
        let mut shed = vec![0.0; priorities];
        for ((terms, refused), &priority) in left.supplies.iter().zip(&assignment.shed).zip(priority) {
            demand[priority] += terms.demand;
            shed[priority] += refused;
        }
        let served = demand
            .iter()
            .zip(&shed)
            .map(|(demand, shed)| if *demand > 0.0 { 1.0 - shed / demand } else { 1.0 });
        losses.push(SiteLoss { site: lost, served: served.collect() });
    }
    Ok(losses)
}

/// The problem with every delay under load times `factor`, and without a move penalty.
fn stretched(problem: &Problem, factor: f64) -> Problem {
    let mut stretched = Problem { move_penalty: None, ..problem.clone() };
    for group in &mut stretched.groups {
        group.curve.points.iter_mut().for_each(|(_, delay)| *delay *= factor);
    }
    stretched
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solve::{fixture, network::Network};

    #[test]
    fn a_profile_error_changes_delay_under_load_alone() {
        let problem = fixture::talk();
        let solver = Network::default();
        let assignment = solver.solve(&problem, None).unwrap();
        let now = evaluate(&problem, &assignment).objective;
        let direct: f64 = problem.arcs.iter().zip(&assignment.rates).map(|(arc, rate)| arc.cost * rate).sum();

        let found = profile_error(&problem, &assignment, 0.2, &solver).unwrap();

        // Nothing is shed, so that the rest of the objective is delay under load.
        assert!((found.higher.objective - (direct + 1.2 * (now - direct))).abs() < 1e-6 * now);
        assert!((found.lower.objective - (direct + 0.8 * (now - direct))).abs() < 1e-6 * now);
        assert!((0.0..0.01).contains(&found.regret), "{}", found.regret);
    }

    #[test]
    fn loss_of_a_site_leaves_what_the_others_may_carry() {
        let problem = fixture::talk();

        let losses = n_minus_one(&problem, &[0, 1, 2], 3, &[0, 0, 0], 1, &Network::default()).unwrap();

        // 250 requests/s of demand; limits of 95, 95 and 76 requests/s.
        let expected = [171.0 / 250.0, 171.0 / 250.0, 190.0 / 250.0];
        for (loss, expected) in losses.iter().zip(expected) {
            assert!((loss.served[0] - expected).abs() < 1e-9, "{loss:?}");
        }
    }
}
