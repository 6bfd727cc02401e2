//! One tick's problem with the names behind its positions.
use std::collections::HashMap;

use penstock_wire::{ClassId, FrontendId, GroupId, SiteId};

use super::published::Published;
use crate::capacity::availability::Availability;
use crate::capacity::work;
use crate::demand::Offered;
use crate::fleet::Fleet;
use crate::fleet::parts::{Class, EngineGroup, Frontend, Priority, Profile};
use crate::fleet::units::Milliseconds;
use crate::solve::problem::{Arc, Group, MovePenalty, Problem, Supply};

/// A work token of priority 0 that is not served costs `10^7` ms; each priority below, a tenth of the one above.
const SHED_EXPONENT: i32 = 7;
/// Weight of a prompt token in the shed price; the same for all hardware, so that classes compare.
const SHED_PREFILL_WEIGHT: f64 = 0.1;

/// A problem, and what its supplies, groups and arcs are called. Sorted by id throughout, so that the order of a fleet
/// file changes nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    pub problem: Problem,
    /// One per supply.
    pub pairs: Vec<Pair>,
    /// One per group of the problem.
    pub groups: Vec<GroupId>,
    /// Where each group stands, one per group of the problem.
    pub sites: Vec<SiteId>,
    /// Ready replicas, one per group of the problem.
    pub replicas: Vec<u32>,
    /// Capacity of one replica, reference requests/s, one per group of the problem.
    pub replica_rps: Vec<f64>,
    /// Delay of the profile's reference request at an idle replica, one per group of the problem.
    pub idle_ms: Vec<f64>,
    /// One per arc.
    pub routes: Vec<Route>,
}

/// The (frontend, class) behind a supply.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    pub frontend: FrontendId,
    pub class: ClassId,
    pub priority: Priority,
}

/// What an arc's cost consists of: `round_trips * rtt + base`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Route {
    pub rtt_ms: f64,
    pub round_trips: f64,
    pub base_ms: f64,
}

/// What a tick's problem is made from.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    pub fleet: &'a Fleet,
    pub offered: &'a Offered,
    pub availability: &'a Availability,
    /// The split in force and the price of leaving it.
    pub move_from: Option<(&'a Published, Milliseconds)>,
}

impl Instance {
    /// Every (frontend, class) pair is a supply, those without demand included: their traffic needs a way too.
    pub fn build(inputs: Inputs<'_>) -> Self {
        let Inputs { fleet, offered, availability, move_from } = inputs;
        let groups = sorted(&fleet.groups, |group| &group.id);
        let frontends = sorted(&fleet.frontends, |frontend| &frontend.id);
        let classes = sorted(&fleet.classes, |class| &class.id);
        let profiles: HashMap<&str, &Profile> =
            fleet.profiles.iter().map(|profile| (profile.id.as_str(), profile)).collect();
        let profile_of = |group: &EngineGroup| profiles[group.profile.as_str()];

        let headroom = fleet.headroom.get();
        let problem_groups = groups
            .iter()
            .map(|group| {
                let profile = profile_of(group);
                let capacity = f64::from(availability.replicas(&group.id)) * profile.capacity.get();
                Group { capacity, limit: (1.0 - headroom) * capacity, curve: work::curve(profile) }
            })
            .collect();
        let mut problem = Problem {
            supplies: Vec::new(),
            groups: problem_groups,
            arc_start: vec![0],
            arcs: Vec::new(),
            move_penalty: None,
        };
        let (mut pairs, mut routes) = (Vec::new(), Vec::new());
        for frontend in &frontends {
            for class in &classes {
                let demand = offered.rate(&frontend.id, &class.id).get();
                problem.supplies.push(Supply { demand, shed_price: shed_price_ms(class) });
                pairs.push(Pair {
                    frontend: frontend.id.clone(),
                    class: class.id.clone(),
                    priority: class.priority,
                });
                for (at, group) in groups.iter().enumerate() {
                    if !group.may_serve(class) {
                        continue;
                    }
                    let route = route(fleet, frontend, class, group, profile_of(group));
                    problem.arcs.push(Arc {
                        group: u32::try_from(at).expect("a fleet has fewer than 2^32 groups"),
                        cost: route.round_trips * route.rtt_ms + route.base_ms,
                        gain: work::gain(profile_of(group), class),
                    });
                    routes.push(route);
                }
                problem.arc_start.push(problem.arcs.len());
            }
        }
        let replicas = groups.iter().map(|group| availability.replicas(&group.id)).collect();
        let sites = groups.iter().map(|group| group.site.clone()).collect();
        let replica_rps = groups.iter().map(|group| profile_of(group).capacity.get()).collect();
        let idle_ms = groups.iter().map(|group| work::reference_idle_ms(profile_of(group))).collect();
        let groups = groups.into_iter().map(|group| group.id.clone()).collect();
        let mut instance = Self { problem, pairs, groups, sites, replicas, replica_rps, idle_ms, routes };
        if let Some((published, price)) = move_from {
            instance.problem.move_penalty = Some(instance.move_penalty(published, price));
        }
        instance
    }

    /// The group that an arc leads to.
    pub fn group_of(&self, arc: usize) -> &GroupId {
        &self.groups[self.problem.arcs[arc].group as usize]
    }

    /// Weights of the split in force, one per arc. Groups that are gone are left out.
    pub fn weights_of(&self, published: &Published) -> Vec<f64> {
        let mut weights = vec![0.0; self.problem.arcs.len()];
        for (supply, pair) in self.pairs.iter().enumerate() {
            let Some(row) = published.row(&pair.frontend, &pair.class) else { continue };
            for arc in self.problem.arcs_of(supply) {
                weights[arc] = row.get(self.group_of(arc)).copied().unwrap_or(0.0);
            }
        }
        weights
    }

    /// Rates that weights bring at this tick's demand.
    pub fn rates_at(&self, weights: &[f64]) -> Vec<f64> {
        let mut rates = weights.to_vec();
        for (supply, terms) in self.problem.supplies.iter().enumerate() {
            for arc in self.problem.arcs_of(supply) {
                rates[arc] *= terms.demand;
            }
        }
        rates
    }

    /// A pair that was never published moves for nothing.
    fn move_penalty(&self, published: &Published, price: Milliseconds) -> MovePenalty {
        let mut prices = vec![0.0; self.problem.arcs.len()];
        for (supply, pair) in self.pairs.iter().enumerate() {
            if published.row(&pair.frontend, &pair.class).is_some() {
                prices[self.problem.arcs_of(supply)].fill(price.get());
            }
        }
        MovePenalty { previous: self.rates_at(&self.weights_of(published)), price: prices }
    }
}

/// `(0.1 prompt + output) * 10^(7 - priority)` ms a request: by unit of work, so that a long prompt of a high priority
/// is never shed for a short one of a low priority.
fn shed_price_ms(class: &Class) -> f64 {
    let work = SHED_PREFILL_WEIGHT * class.mean_prompt.get() + class.mean_output.get();
    work * 10_f64.powi(SHED_EXPONENT - i32::from(class.priority.level()))
}

fn route(fleet: &Fleet, frontend: &Frontend, class: &Class, group: &EngineGroup, profile: &Profile) -> Route {
    let rtt = fleet
        .rtt(&frontend.site, &group.site)
        .expect("a checked fleet has every round trip that traffic needs");
    Route { rtt_ms: rtt.get(), round_trips: class.round_trips.get(), base_ms: work::base_ms(profile, class) }
}

fn sorted<T, K: Ord>(parts: &[T], id: impl Fn(&T) -> &K) -> Vec<&T> {
    let mut parts: Vec<&T> = parts.iter().collect();
    parts.sort_by(|a, b| id(a).cmp(id(b)));
    parts
}
