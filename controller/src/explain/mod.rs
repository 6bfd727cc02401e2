//! Why every weight is what it is: prices from the duals, checked by re-solving, and a sentence each.
//!
//! [`prices`] splits the cost of each pair and group into its parts, [`check`] re-solves with small changes, and
//! [`sentence`] says it in words.
pub mod check;
pub mod prices;
mod sentence;

use std::fmt;

use penstock_wire::{ClassId, FrontendId, GroupId};

use crate::assignment::instance::Instance;
use crate::policy::{Plan, Proof};
use crate::solve::evaluate::evaluate;
use crate::solve::{SolveError, Solver};
use check::Resolved;
use prices::{GroupPrices, PairPrices};

/// Pairs and groups that are checked by a solve each; of a large fleet, name the part that is of interest.
pub const CHECKED: usize = 200;

/// Which pairs and groups to explain; `None` stands for all.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct Filter {
    pub frontend: Option<FrontendId>,
    pub class: Option<ClassId>,
    pub group: Option<GroupId>,
}

impl Filter {
    fn takes(&self, frontend: &FrontendId, class: &ClassId, group: &GroupId) -> bool {
        self.frontend.as_ref().is_none_or(|wanted| wanted == frontend)
            && self.class.as_ref().is_none_or(|wanted| wanted == class)
            && self.group.as_ref().is_none_or(|wanted| wanted == group)
    }
}

/// An explained assignment.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Explanation {
    pub mean_e2e_ms: Option<f64>,
    /// What limits the fleet, in words.
    pub binding: Vec<String>,
    pub pairs: Vec<PairExplained>,
    /// The group of the filter, those that its frontend or class uses, or all; at most [`CHECKED`].
    pub groups: Vec<GroupExplained>,
}

/// One pair of (frontend, class) and group that the filters allow.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct PairExplained {
    pub frontend: FrontendId,
    pub class: ClassId,
    pub group: GroupId,
    pub rps: f64,
    pub weight: f64,
    #[serde(flatten)]
    pub prices: PairPrices,
    /// Cost of one more request/s on this pair and one less elsewhere, found by re-solving, ms; null without demand to
    /// move, where the group cannot take it, and beyond the [`CHECKED`] pairs of least reduced cost.
    pub resolved_ms: Option<f64>,
    pub sentence: String,
}

/// One engine group.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct GroupExplained {
    pub id: GroupId,
    pub replicas: u32,
    pub load_rps: f64,
    pub utilisation: f64,
    #[serde(flatten)]
    pub prices: GroupPrices,
    /// Delay and shed price that one more replica saves over all requests, by re-solving, ms x requests/s.
    pub replica_saves_resolved: f64,
    /// Requests/s that one more replica serves and that are shed now.
    pub replica_serves_rps: f64,
    pub sentence: String,
}

/// Why there is nothing to explain.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// Only the optimizer has prices.
    #[error("this split comes from a policy that has no prices")]
    NoPrices,
    #[error("re-solving to check the prices")]
    Solve(#[from] SolveError),
}

/// Explains a plan of the instance. `solver` re-solves to check the prices.
pub fn explain(
    instance: &Instance,
    plan: &Plan,
    filter: &Filter,
    solver: &dyn Solver,
) -> Result<Explanation, ExplainError> {
    let proof = plan.proof.as_ref().ok_or(ExplainError::NoPrices)?;
    let evaluation = evaluate(&instance.problem, &plan.assignment());
    let groups = prices::of_groups(instance, proof, &evaluation);
    let check = check::Check::new(&instance.problem, solver)?;
    let pairs = pairs(instance, plan, proof, &groups, filter, &check)?;
    let is_wanted = |id: &GroupId| match &filter.group {
        Some(wanted) => wanted == id,
        None if filter.frontend.is_none() && filter.class.is_none() => true,
        // Of a part of the fleet, the groups that it uses.
        None => pairs.iter().any(|pair| pair.group == *id && pair.rps > 0.0),
    };
    let groups_explained = explained_groups(instance, &groups, &is_wanted, &check, evaluation.served_rps)?;
    Ok(Explanation {
        mean_e2e_ms: evaluation.mean_e2e_ms,
        binding: sentence::binding(instance, plan, &groups),
        pairs,
        groups: groups_explained,
    })
}

/// A pair of the filter, before it is said in words.
struct Selected {
    supply: usize,
    /// Number of the arc among its supply's.
    at: usize,
    prices: PairPrices,
}

fn pairs(
    instance: &Instance,
    plan: &Plan,
    proof: &Proof,
    groups: &[GroupPrices],
    filter: &Filter,
    check: &check::Check<'_>,
) -> Result<Vec<PairExplained>, SolveError> {
    let prices: Vec<PairPrices> = (0..instance.pairs.len())
        .flat_map(|supply| instance.problem.arcs_of(supply).map(move |arc| (supply, arc)))
        .map(|(supply, arc)| prices::of_pair(instance, proof, groups, supply, arc))
        .collect();
    let mut selected = Vec::new();
    for (supply, pair) in instance.pairs.iter().enumerate() {
        let arcs = instance.problem.arcs_of(supply);
        let takes = |arc: &usize| filter.takes(&pair.frontend, &pair.class, instance.group_of(*arc));
        selected.extend(arcs.clone().filter(takes).map(|arc| Selected {
            supply,
            at: arc - arcs.start,
            prices: prices[arc],
        }));
    }
    let worth = worth_checking(&selected);
    let mut explained = Vec::with_capacity(selected.len());
    for (Selected { supply, at, prices: own }, worth) in selected.into_iter().zip(worth) {
        let (pair, arcs) = (&instance.pairs[supply], instance.problem.arcs_of(supply));
        let arc = arcs.start + at;
        let resolved = if worth { check.reroute(supply, arc)? } else { Resolved::NotTried };
        explained.push(PairExplained {
            frontend: pair.frontend.clone(),
            class: pair.class.clone(),
            group: instance.group_of(arc).clone(),
            rps: plan.rates[arc],
            weight: plan.weights[arc],
            prices: own,
            resolved_ms: resolved.ms(),
            sentence: sentence::pair(instance, plan, groups, supply, &prices[arcs], at, resolved),
        });
    }
    Ok(explained)
}

/// Marks the [`CHECKED`] pairs of least reduced cost: those in use, and those that nearly are.
fn worth_checking(selected: &[Selected]) -> Vec<bool> {
    let mut order: Vec<usize> = (0..selected.len()).collect();
    let reduced = |at: usize| selected[at].prices.reduced_cost_ms;
    order.sort_by(|a, b| reduced(*a).total_cmp(&reduced(*b)));
    let mut worth = vec![false; selected.len()];
    for at in order.into_iter().take(CHECKED) {
        worth[at] = true;
    }
    worth
}

fn explained_groups(
    instance: &Instance,
    prices: &[GroupPrices],
    is_wanted: &dyn Fn(&GroupId) -> bool,
    check: &check::Check<'_>,
    served: f64,
) -> Result<Vec<GroupExplained>, SolveError> {
    let mut explained = Vec::new();
    for (group, id) in instance.groups.iter().enumerate() {
        if !is_wanted(id) {
            continue;
        }
        if explained.len() == CHECKED {
            break;
        }
        let replica = check.replica_brings(group, instance.replica_rps[group])?;
        let prices = prices[group];
        explained.push(GroupExplained {
            id: id.clone(),
            replicas: instance.replicas[group],
            load_rps: prices.load_rps,
            utilisation: prices.utilisation,
            prices,
            replica_saves_resolved: replica.saves,
            replica_serves_rps: replica.serves_rps,
            sentence: sentence::group(instance, group, &prices, replica, served),
        });
    }
    Ok(explained)
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mean_e2e_ms {
            Some(mean) => writeln!(f, "mean E2E {mean:.2} ms")?,
            None => writeln!(f, "nothing is served")?,
        }
        for line in &self.binding {
            writeln!(f, "{line}")?;
        }
        writeln!(
            f,
            "\n{:<12} {:<12} {:<12} {:>8} {:>8} {:>9} {:>9} {:>10} {:>9} {:>9}",
            "frontend", "class", "group", "weight", "rtt", "base", "delay", "marginal", "capacity", "reduced"
        )?;
        for pair in &self.pairs {
            let prices = &pair.prices;
            writeln!(
                f,
                "{:<12} {:<12} {:<12} {:>7.2}% {:>8.1} {:>9.1} {:>9.1} {:>10} {:>9} {:>9}",
                pair.frontend.as_str(),
                pair.class.as_str(),
                pair.group.as_str(),
                100.0 * pair.weight,
                prices.network_ms,
                prices.base_ms,
                prices.delay_at_load_ms,
                finite(prices.marginal_delay_ms),
                finite(prices.capacity_price_ms),
                finite(prices.reduced_cost_ms),
            )?;
        }
        writeln!(f)?;
        for pair in &self.pairs {
            writeln!(f, "{}", pair.sentence)?;
        }
        writeln!(f)?;
        for group in &self.groups {
            writeln!(f, "{}", group.sentence)?;
        }
        Ok(())
    }
}

/// A price, or a dash where there is no capacity to pay for.
fn finite(price_ms: f64) -> String {
    if price_ms.is_finite() { format!("{price_ms:.1}") } else { "-".to_owned() }
}
