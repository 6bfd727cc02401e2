//! How much a plan can bear: wrong profiles, the loss of a site, and a second opinion on the solver.
//!
//! Takes many solves, so the running controller asks for it now and then, beside its loop.
use penstock_wire::SiteId;
use serde::{Deserialize, Serialize};

use crate::assignment::instance::Instance;
use crate::policy::Plan;
use crate::policy::exact::{BEARABLE, Exact, SMALL};
use crate::solve::certify::certify;
use crate::solve::evaluate::evaluate;
use crate::solve::problem::{Assignment, Problem};
use crate::solve::reference::Reference;
use crate::solve::{SolveError, Solver};

/// How far profiles may be off, either way.
const PROFILE_ERROR: f64 = 0.2;
const PRIORITIES: usize = 4;

/// What a plan can bear.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Reserve {
    pub if_slower: Wrong,
    pub if_faster: Wrong,
    /// One entry a site that has capacity, sorted by site.
    pub n_minus_one: Vec<SiteLoss>,
    /// Relative difference between the solver's objective and that of the readable solver on the same problem; `None`
    /// where the readable one solved it in the first place, or would take too long.
    pub second_opinion: Option<f64>,
}

/// The plan as it stands, where every replica's capacity is `capacity_factor` of what its profile says.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Wrong {
    pub capacity_factor: f64,
    pub mean_e2e_ms: Option<f64>,
    pub highest_utilisation: f64,
}

/// Without one site's engines, after a new solve.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct SiteLoss {
    pub site: SiteId,
    /// Served share of the demand of each priority, 0 to 3; `None` without demand.
    pub served_share: [Option<f64>; PRIORITIES],
}

impl Reserve {
    /// The worst site loss for a priority: its served share. `None` without demand or sites.
    pub fn worst_share(&self, priority: usize) -> Option<f64> {
        let shares = self.n_minus_one.iter().filter_map(|loss| *loss.served_share.get(priority)?);
        shares.min_by(f64::total_cmp)
    }
}

/// Finds out what the plan can bear.
pub fn reserve(instance: &Instance, plan: &Plan) -> Result<Reserve, SolveError> {
    let problem = Problem { move_penalty: None, ..instance.problem.clone() };
    let assignment = plan.assignment();
    let solver = Exact::default();
    let mut sites: Vec<&SiteId> = instance.sites.iter().collect();
    sites.sort();
    sites.dedup();
    let has_capacity = |site: &&SiteId| {
        (0..instance.sites.len())
            .any(|group| instance.sites[group] == **site && problem.groups[group].limit > 0.0)
    };
    let mut n_minus_one = Vec::new();
    for site in sites.into_iter().filter(has_capacity) {
        n_minus_one.push(without(instance, &problem, site, &solver)?);
    }
    Ok(Reserve {
        if_slower: wrong_by(&problem, &assignment, 1.0 - PROFILE_ERROR),
        if_faster: wrong_by(&problem, &assignment, 1.0 + PROFILE_ERROR),
        n_minus_one,
        second_opinion: second_opinion(&problem, &solver)?,
    })
}

fn wrong_by(problem: &Problem, assignment: &Assignment, capacity_factor: f64) -> Wrong {
    let mut wrong = problem.clone();
    for group in &mut wrong.groups {
        group.capacity *= capacity_factor;
        group.limit *= capacity_factor;
    }
    let evaluation = evaluate(&wrong, assignment);
    Wrong {
        capacity_factor,
        mean_e2e_ms: evaluation.mean_e2e_ms,
        highest_utilisation: evaluation.utilisation.into_iter().fold(0.0, f64::max),
    }
}

fn without(
    instance: &Instance,
    problem: &Problem,
    site: &SiteId,
    solver: &dyn Solver,
) -> Result<SiteLoss, SolveError> {
    let mut smaller = problem.clone();
    for (group, terms) in smaller.groups.iter_mut().enumerate() {
        if instance.sites[group] == *site {
            (terms.capacity, terms.limit) = (0.0, 0.0);
        }
    }
    let answer = solver.solve(&smaller, None)?;
    let (mut demand, mut shed) = ([0.0; PRIORITIES], [0.0; PRIORITIES]);
    for (supply, pair) in instance.pairs.iter().enumerate() {
        let priority = usize::from(pair.priority.level());
        demand[priority] += problem.supplies[supply].demand;
        shed[priority] += answer.shed[supply];
    }
    let share = |priority: usize| (demand[priority] > 0.0).then(|| 1.0 - shed[priority] / demand[priority]);
    Ok(SiteLoss { site: site.clone(), served_share: [share(0), share(1), share(2), share(3)] })
}

fn second_opinion(problem: &Problem, solver: &dyn Solver) -> Result<Option<f64>, SolveError> {
    if !(SMALL + 1..=BEARABLE).contains(&problem.arcs.len()) {
        return Ok(None);
    }
    let objective = |solver: &dyn Solver| -> Result<f64, SolveError> {
        Ok(certify(problem, &solver.solve(problem, None)?).objective)
    };
    let (first, second) = (objective(solver)?, objective(&Reference::default())?);
    Ok(Some(if second == 0.0 { first } else { (first - second) / second }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assignment::instance::Inputs;
    use crate::capacity::availability::Availability;
    use crate::demand::Offered;
    use crate::fleet::{self, settings::PolicyName};
    use crate::policy;

    fn talk(rate_of_b: f64) -> (Instance, Plan) {
        let fleet = fleet::parse(include_str!("../../../examples/talk.toml")).unwrap();
        let (mut offered, availability) = (Offered::stated(&fleet), Availability::stated(&fleet));
        offered.set("B".into(), "chat".into(), rate_of_b.try_into().unwrap());
        let inputs =
            Inputs { fleet: &fleet, offered: &offered, availability: &availability, move_from: None };
        let instance = Instance::build(inputs);
        let plan = policy::named(PolicyName::Optimizer).plan(&instance).unwrap();
        (instance, plan)
    }

    #[test]
    fn a_lost_site_leaves_the_share_that_the_others_have_room_for() {
        let (instance, plan) = talk(120.0);

        let reserve = reserve(&instance, &plan).unwrap();

        // 250 requests/s against limits of 0.95 x (100 + 80), twice, and 0.95 x 200. All are of priority 1.
        let shares: Vec<f64> = reserve.n_minus_one.iter().map(|loss| loss.served_share[1].unwrap()).collect();
        for (share, room) in shares.iter().zip([171.0, 171.0, 190.0]) {
            assert!((share - room / 250.0).abs() < 1e-6, "{reserve:?}");
        }
        assert_eq!(reserve.worst_share(0), None);
        assert!((reserve.worst_share(1).unwrap() - 171.0 / 250.0).abs() < 1e-6);
        assert_eq!(reserve.second_opinion, None);
    }

    #[test]
    fn slower_replicas_than_the_profile_says_stand_at_a_higher_utilisation() {
        let (instance, plan) = talk(60.0);

        let reserve = reserve(&instance, &plan).unwrap();

        // Every gain is 1, so loads are sums of rates; capacities are 100, 100 and 80.
        let mut loads = [0.0; 3];
        for (arc, rate) in instance.problem.arcs.iter().zip(&plan.rates) {
            loads[arc.group as usize] += rate;
        }
        let highest = f64::max(f64::max(loads[0] / 100.0, loads[1] / 100.0), loads[2] / 80.0);
        assert!((reserve.if_slower.highest_utilisation - highest / 0.8).abs() < 1e-9, "{reserve:?}");
        assert!((reserve.if_faster.highest_utilisation - highest / 1.2).abs() < 1e-9, "{reserve:?}");
        assert!(reserve.if_slower.mean_e2e_ms > reserve.if_faster.mean_e2e_ms);
    }
}
