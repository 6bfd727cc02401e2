//! Which engines take new work.
use std::collections::{BTreeMap, BTreeSet};

use penstock_wire::{EngineId, EngineState, GroupId};

use crate::fleet::Fleet;

/// Ready replicas of each group, and the engines that drain.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Availability {
    replicas: BTreeMap<GroupId, u32>,
    draining: BTreeSet<EngineId>,
}

impl Availability {
    /// Everything that the fleet file lists is ready.
    pub fn stated(fleet: &Fleet) -> Self {
        let replicas = fleet.groups.iter().map(|group| (group.id.clone(), group.replicas)).collect();
        Self { replicas, draining: BTreeSet::new() }
    }

    pub fn replicas(&self, group: &GroupId) -> u32 {
        self.replicas.get(group).copied().unwrap_or(0)
    }

    /// Ready replicas by group.
    pub fn iter(&self) -> impl Iterator<Item = (&GroupId, u32)> {
        self.replicas.iter().map(|(group, replicas)| (group, *replicas))
    }

    pub fn drains(&self, engine: &EngineId) -> bool {
        self.draining.contains(engine)
    }

    /// Engines that do not simply serve, for snapshots.
    pub fn states(&self) -> BTreeMap<EngineId, EngineState> {
        self.draining.iter().map(|engine| (engine.clone(), EngineState::Draining)).collect()
    }

    /// Whether any group has fewer replicas than in `other`, or an engine drains that did not.
    pub fn is_less_than(&self, other: &Self) -> bool {
        let fewer = other.replicas.iter().any(|(group, before)| self.replicas(group) < *before);
        fewer || !self.draining.is_subset(&other.draining)
    }

    pub fn set_replicas(&mut self, group: &GroupId, replicas: u32) {
        self.replicas.insert(group.clone(), replicas);
    }

    /// Drains one engine; a second time changes nothing.
    pub fn drain(&mut self, engine: &EngineId, group: &GroupId) {
        if self.draining.insert(engine.clone())
            && let Some(replicas) = self.replicas.get_mut(group)
        {
            *replicas = replicas.saturating_sub(1);
        }
    }

    /// Drains a whole group.
    pub fn drain_group(&mut self, group: &GroupId, fleet: &Fleet) {
        self.draining.extend(fleet.engines_of(group).map(|engine| engine.id.clone()));
        self.replicas.insert(group.clone(), 0);
    }
}
