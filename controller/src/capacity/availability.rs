//! Which engines take new work.
use std::collections::{BTreeMap, BTreeSet};

use penstock_wire::{EngineId, GroupId};

use crate::fleet::Fleet;

/// Ready replicas of each group, and the engines that are out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Availability {
    replicas: BTreeMap<GroupId, u32>,
    out: BTreeSet<EngineId>,
}

impl Availability {
    /// Everything that the fleet file lists is ready.
    pub fn stated(fleet: &Fleet) -> Self {
        let replicas = fleet.groups.iter().map(|group| (group.id.clone(), group.replicas)).collect();
        Self { replicas, out: BTreeSet::new() }
    }

    pub fn replicas(&self, group: &GroupId) -> u32 {
        self.replicas.get(group).copied().unwrap_or(0)
    }

    pub fn is_out(&self, engine: &EngineId) -> bool {
        self.out.contains(engine)
    }

    pub fn set_replicas(&mut self, group: &GroupId, replicas: u32) {
        self.replicas.insert(group.clone(), replicas);
    }

    /// Whether any group has fewer replicas than in `other`, or an engine is out that was not.
    pub fn is_less_than(&self, other: &Self) -> bool {
        let fewer = other.replicas.iter().any(|(group, before)| self.replicas(group) < *before);
        fewer || !self.out.is_subset(&other.out)
    }

    /// Takes one engine out; a second time changes nothing.
    pub fn take_out(&mut self, engine: &EngineId, group: &GroupId) {
        if self.out.insert(engine.clone())
            && let Some(replicas) = self.replicas.get_mut(group)
        {
            *replicas = replicas.saturating_sub(1);
        }
    }

    /// Takes a whole group out.
    pub fn take_out_group(&mut self, group: &GroupId, fleet: &Fleet) {
        self.out.extend(fleet.engines_of(group).map(|engine| engine.id.clone()));
        self.replicas.insert(group.clone(), 0);
    }
}
