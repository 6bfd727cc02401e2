//! The parts of a price, ms.
use crate::assignment::instance::Instance;
use crate::policy::Proof;
use crate::solve::evaluate::Evaluation;
use crate::solve::problem::Curve;

/// Cost of one request of a class from a frontend at a group, in its parts. Each is for this class's own work.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct PairPrices {
    pub rtt_ms: f64,
    /// Round trips x RTT.
    pub network_ms: f64,
    /// Delay at an idle replica.
    pub base_ms: f64,
    /// Extra delay that the request itself meets at the group's load.
    pub delay_at_load_ms: f64,
    /// That, and the delay which the request adds for everyone else there.
    pub marginal_delay_ms: f64,
    /// Price of the group's capacity, where it is full.
    pub capacity_price_ms: f64,
    /// All of the above over the cheapest way for this supply: 0 for a pair in use.
    pub reduced_cost_ms: f64,
}

impl PairPrices {
    /// What one more request costs here, everyone's delay included.
    pub fn total_ms(&self) -> f64 {
        self.network_ms + self.base_ms + self.marginal_delay_ms + self.capacity_price_ms
    }
}

/// Prices of a reference request at a group.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct GroupPrices {
    #[serde(skip)]
    pub load_rps: f64,
    #[serde(skip)]
    pub utilisation: f64,
    /// Extra delay that a request meets.
    pub delay_at_load_ms: f64,
    /// That, and what it adds for everyone else.
    pub marginal_delay_ms: f64,
    /// Rent of capacity: above 0 only where the group is at its limit.
    pub capacity_price_ms: f64,
    /// Sum of the last two: what one more reference request/s costs.
    pub shadow_price_ms: f64,
    /// Delay and shed price that one more replica saves over all requests, by the duals, ms x requests/s. An upper
    /// bound: each further unit of capacity saves less. `None` for a group without capacity, which has no price.
    pub replica_saves: Option<f64>,
    #[serde(skip)]
    pub is_full: bool,
}

/// Load within this of its limit, relatively, counts as full.
const FULL: f64 = 1e-7;

pub(super) fn of_groups(instance: &Instance, proof: &Proof, evaluation: &Evaluation) -> Vec<GroupPrices> {
    let problem = &instance.problem;
    let mut prices = Vec::with_capacity(problem.groups.len());
    for (at, group) in problem.groups.iter().enumerate() {
        let (load, utilisation) = (evaluation.loads[at], evaluation.utilisation[at]);
        let shadow = proof.group_price[at];
        let is_full = group.limit > 0.0 && load >= group.limit * (1.0 - FULL);
        let delay = group.curve.delay_ms(utilisation);
        let steepest = delay + utilisation * slope_below(&group.curve, utilisation);
        let capacity_price = if is_full { (shadow - steepest).max(0.0) } else { 0.0 };
        let marginal = shadow - capacity_price;
        // F = C phi(u): one more unit of C saves u phi'(u) - phi(u) of delay, and moves the limit.
        let limit_share = if group.capacity > 0.0 { group.limit / group.capacity } else { 0.0 };
        let per_unit = utilisation * (marginal - delay) + limit_share * capacity_price;
        prices.push(GroupPrices {
            load_rps: load,
            utilisation,
            delay_at_load_ms: delay,
            marginal_delay_ms: marginal,
            capacity_price_ms: capacity_price,
            shadow_price_ms: shadow,
            replica_saves: (group.limit > 0.0).then(|| (per_unit * instance.replica_rps[at]).max(0.0)),
            is_full,
        });
    }
    prices
}

pub(super) fn of_pair(
    instance: &Instance,
    proof: &Proof,
    groups: &[GroupPrices],
    supply: usize,
    arc: usize,
) -> PairPrices {
    let route = instance.routes[arc];
    let terms = instance.problem.arcs[arc];
    let group = &groups[terms.group as usize];
    let total = terms.cost + terms.gain * group.shadow_price_ms;
    PairPrices {
        rtt_ms: route.rtt_ms,
        network_ms: route.round_trips * route.rtt_ms,
        base_ms: route.base_ms,
        delay_at_load_ms: terms.gain * group.delay_at_load_ms,
        marginal_delay_ms: terms.gain * group.marginal_delay_ms,
        capacity_price_ms: terms.gain * group.capacity_price_ms,
        reduced_cost_ms: total - proof.supply_price[supply],
    }
}

/// Slope of the line that ends at or contains the utilisation.
fn slope_below(curve: &Curve, utilisation: f64) -> f64 {
    let last = curve.points.len() - 1;
    let after = curve.points.partition_point(|point| point.0 < utilisation).clamp(1, last);
    let ((u0, d0), (u1, d1)) = (curve.points[after - 1], curve.points[after]);
    (d1 - d0) / (u1 - u0)
}
