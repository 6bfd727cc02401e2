//! Prices in words.
use super::check::{Replica, Resolved};
use super::prices::{GroupPrices, PairPrices};
use crate::assignment::instance::Instance;
use crate::policy::Plan;

/// Re-solving and duals may differ by this much before it is worth saying, ms, or by [`DISAGREES_SHARE`] if more.
const DISAGREES_MS: f64 = 1.0;
const DISAGREES_SHARE: f64 = 0.01;
/// Prices from here on are those of refused requests: no delay within a profile comes near.
const REFUSAL_MS: f64 = 1e6;
/// Utilisation within this of a profile's point stands on it.
const AT_KNEE: f64 = 1e-6;

/// Why a supply sends to the group of its arc number `at` what it does.
pub(super) fn pair(
    instance: &Instance,
    plan: &Plan,
    groups: &[GroupPrices],
    supply: usize,
    prices: &[PairPrices],
    at: usize,
    resolved: Resolved,
) -> String {
    let arcs = instance.problem.arcs_of(supply);
    let arc = arcs.start + at;
    let who = subject(instance, supply);
    let here = instance.group_of(arc);
    if instance.problem.groups[instance.problem.arcs[arc].group as usize].limit == 0.0 {
        return format!("{who} sends nothing to {here}: it has no ready replica.");
    }
    if instance.problem.supplies[supply].demand == 0.0 {
        return format!(
            "{who} has no demand; its next request would cost {:.1} ms at {here}.",
            prices[at].total_ms()
        );
    }
    if plan.rates[arc] > 0.0 {
        return used(instance, plan, groups, supply, prices, at, &who);
    }
    let cost = resolved.ms().unwrap_or(prices[at].reduced_cost_ms);
    let dearest = arcs
        .clone()
        .filter(|other| plan.rates[*other] > 0.0)
        .max_by(|a, b| direct(&prices[a - arcs.start]).total_cmp(&direct(&prices[b - arcs.start])));
    let note = disagreement(prices[at].reduced_cost_ms, resolved);
    match dearest {
        Some(dearest) => {
            let dearest = instance.group_of(dearest);
            format!(
                "{who} sends nothing to {here}: each request would cost {cost:.1} ms more than at {dearest}, \
                 the dearest it uses{note}."
            )
        }
        None => format!("{who} sends nothing to {here}: all of its demand is shed{note}."),
    }
}

fn used(
    instance: &Instance,
    plan: &Plan,
    groups: &[GroupPrices],
    supply: usize,
    prices: &[PairPrices],
    at: usize,
    who: &str,
) -> String {
    let arcs = instance.problem.arcs_of(supply);
    let arc = arcs.start + at;
    let percent = 100.0 * plan.weights[arc];
    let here = instance.group_of(arc);
    let usable = |other: &usize| {
        instance.problem.groups[instance.problem.arcs[arcs.start + other].group as usize].limit > 0.0
    };
    let nearest = (0..prices.len())
        .filter(usable)
        .min_by(|a, b| direct(&prices[*a]).total_cmp(&direct(&prices[*b])))
        .unwrap_or(at);
    if nearest == at {
        let group = &groups[instance.problem.arcs[arc].group as usize];
        let others = prices[at].marginal_delay_ms - prices[at].delay_at_load_ms;
        let rest = if group.is_full { full(prices[at].capacity_price_ms) } else { String::new() };
        return format!(
            "{who} sends {percent:.1} % to {here}, the cheapest when idle: one more request there waits \
             {:.0} ms and delays everyone else by {others:.0} ms in all{rest}.",
            prices[at].delay_at_load_ms
        );
    }
    let (near, far) = (&prices[nearest], &prices[at]);
    let near_id = instance.group_of(arcs.start + nearest);
    let near_price = near.marginal_delay_ms + near.capacity_price_ms;
    let far_price = far.marginal_delay_ms + far.capacity_price_ms;
    let network = far.network_ms - near.network_ms;
    let base = far.base_ms - near.base_ms;
    let idle =
        if base.abs() < 0.05 { String::new() } else { format!(", {}", more_or_less(base, "when idle")) };
    let near_group = &groups[instance.problem.arcs[arcs.start + nearest].group as usize];
    let binding = if near_group.is_full { full(near.capacity_price_ms) } else { String::new() };
    format!(
        "{who} sends {percent:.1} % to {here}: one more request at {near_id} delays everyone there, itself \
         included, by {:.0} ms in all{binding}; {here} costs {}{idle} and {}.",
        near.marginal_delay_ms,
        more_or_less(network, "network"),
        more_or_less(far_price - near_price, "queueing"),
    )
}

/// How one group stands, and what one more replica would bring.
pub(super) fn group(
    instance: &Instance,
    at: usize,
    prices: &GroupPrices,
    replica: Replica,
    served: f64,
) -> String {
    let id = &instance.groups[at];
    let state = if instance.problem.groups[at].limit == 0.0 {
        "has no ready replica".to_owned()
    } else {
        format!(
            "stands at {:.1} % of its capacity{}; one more reference request/s costs {}",
            100.0 * prices.utilisation,
            standing(instance, at, prices),
            worth(prices.shadow_price_ms),
        )
    };
    if replica.serves_rps > 0.0 {
        return format!(
            "{id} {state}. One more replica would serve {:.2} requests/s that are shed now.",
            replica.serves_rps
        );
    }
    if served <= 0.0 {
        return format!("{id} {state}.");
    }
    let estimate = match prices.replica_saves {
        Some(bound) => format!(" (at most {:.2} ms by the duals)", bound / served),
        None => String::new(),
    };
    format!(
        "{id} {state}. One more replica would save {:.2} ms of the mean over all requests{estimate}.",
        replica.saves / served
    )
}

fn standing(instance: &Instance, at: usize, prices: &GroupPrices) -> &'static str {
    let points = &instance.problem.groups[at].curve.points;
    let at_point = |point: &(f64, f64)| (point.0 - prices.utilisation).abs() < AT_KNEE;
    let inner = points.get(1..points.len() - 1).unwrap_or_default();
    if prices.is_full {
        ", its limit"
    } else if inner.iter().any(at_point) {
        ", a knee of its profile"
    } else {
        ""
    }
}

/// What limits the fleet.
pub(super) fn binding(instance: &Instance, plan: &Plan, groups: &[GroupPrices]) -> Vec<String> {
    let mut lines: Vec<String> = groups
        .iter()
        .enumerate()
        .filter(|(_, prices)| prices.is_full)
        .map(|(at, prices)| {
            let worth = worth(prices.capacity_price_ms);
            format!("{} is full: one more request/s of capacity is worth {worth}.", instance.groups[at])
        })
        .collect();
    for (supply, shed) in plan.shed.iter().enumerate() {
        if *shed > 0.0 {
            let pair = &instance.pairs[supply];
            let priority = pair.priority.level();
            lines.push(format!(
                "{} sheds {shed:.2} of {:.2} requests/s: no capacity is left for priority {priority}.",
                subject(instance, supply),
                instance.problem.supplies[supply].demand
            ));
        }
    }
    if lines.is_empty() {
        lines.push("No limit binds: weights balance network distance against delay at load.".to_owned());
    }
    lines
}

/// The frontend, and the class where the frontend has several.
fn subject(instance: &Instance, supply: usize) -> String {
    let pair = &instance.pairs[supply];
    let several = instance.pairs.iter().filter(|other| other.frontend == pair.frontend).count() > 1;
    if several { format!("{} ({})", pair.frontend, pair.class) } else { pair.frontend.to_string() }
}

fn direct(prices: &PairPrices) -> f64 {
    prices.network_ms + prices.base_ms
}

fn full(capacity_price: f64) -> String {
    format!(", and it is full: its capacity is worth {}", worth(capacity_price))
}

/// A price that only refusing requests explains is not a delay.
fn worth(price_ms: f64) -> String {
    if price_ms < REFUSAL_MS { format!("{price_ms:.0} ms") } else { "a refused request".to_owned() }
}

fn more_or_less(ms: f64, what: &str) -> String {
    let word = if ms < 0.0 { "less" } else { "more" };
    format!("{:.1} ms {word} {what}", ms.abs())
}

fn disagreement(dual: f64, resolved: Resolved) -> String {
    let resolved = match resolved {
        Resolved::Costs(resolved) => resolved,
        Resolved::Impossible => return String::from(" (by the duals; the group has no room to try it)"),
        Resolved::NotTried => return String::new(),
    };
    if (dual - resolved).abs() <= DISAGREES_MS.max(DISAGREES_SHARE * resolved.abs()) {
        return String::new();
    }
    format!(" (the duals alone say {dual:.1} ms: they are not unique here)")
}
