//! What changed between two snapshots, and which input changed it.
//!
//! [`load`] reads snapshot files, this file compares two states of a frontend, and [`cause`] asks the record of solves
//! which inputs differ and solves again with one of them at a time.
pub mod cause;
pub mod load;

use std::collections::BTreeMap;
use std::fmt;

use penstock_wire::{
    ClassId, EngineEntry, EngineId, EngineState, Epoch, FrontendId, GroupId, ServiceEntry, ServiceId,
    Snapshot, TableEntry,
};

use crate::assignment::published::Published;

/// Weights that differ by less are the same.
const LEAST_CHANGE: f64 = 1e-6;

/// Differences between two states of one frontend.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Changes {
    pub frontend: FrontendId,
    pub from: Epoch,
    pub to: Epoch,
    /// Another secret remaps every key.
    pub secret_changed: bool,
    pub engines: Vec<EngineChange>,
    pub services: Vec<ServiceChange>,
    pub tables: Vec<TableChange>,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EngineChange {
    Added(EngineId),
    Removed(EngineId),
    State { engine: EngineId, from: EngineState, to: EngineState },
    Moved { engine: EngineId, from: String, to: String },
    Rtt { engine: EngineId, from_us: u32, to_us: u32 },
}

#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceChange {
    Added(ServiceId),
    Removed(ServiceId),
    Changed(ServiceId),
}

/// A class's table in both states.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct TableChange {
    pub class: ClassId,
    /// Share of the traffic whose group changes: half the sum of all weight changes.
    pub moved_share: f64,
    /// Slots that changed engine, and slots of the table.
    pub moved_slots: usize,
    pub slots: usize,
    /// Weights by group that changed: before and after.
    pub weights: Vec<(GroupId, f64, f64)>,
}

impl Changes {
    /// Compares two states of the same frontend.
    pub fn between(old: &Snapshot, new: &Snapshot) -> Self {
        Self {
            frontend: new.frontend.clone(),
            from: old.epoch,
            to: new.epoch,
            secret_changed: old.secret != new.secret,
            engines: engines(old, new),
            services: services(old, new),
            tables: tables(old, new),
        }
    }

    pub fn is_empty(&self) -> bool {
        !self.secret_changed && self.engines.is_empty() && self.services.is_empty() && self.tables.is_empty()
    }
}

fn engines(old: &Snapshot, new: &Snapshot) -> Vec<EngineChange> {
    let by_id = |snapshot: &Snapshot| -> BTreeMap<EngineId, EngineEntry> {
        snapshot.engines.iter().map(|engine| (engine.id.clone(), engine.clone())).collect()
    };
    let (before, after) = (by_id(old), by_id(new));
    let mut changes = Vec::new();
    for (id, was) in &before {
        let Some(is) = after.get(id) else {
            changes.push(EngineChange::Removed(id.clone()));
            continue;
        };
        if was.state != is.state {
            changes.push(EngineChange::State { engine: id.clone(), from: was.state, to: is.state });
        }
        if was.address != is.address {
            let (from, to) = (was.address.to_string(), is.address.to_string());
            changes.push(EngineChange::Moved { engine: id.clone(), from, to });
        }
        if was.rtt_us != is.rtt_us {
            changes.push(EngineChange::Rtt { engine: id.clone(), from_us: was.rtt_us, to_us: is.rtt_us });
        }
    }
    changes.extend(after.keys().filter(|id| !before.contains_key(*id)).cloned().map(EngineChange::Added));
    changes
}

fn services(old: &Snapshot, new: &Snapshot) -> Vec<ServiceChange> {
    let find = |snapshot: &Snapshot, id: &ServiceId| -> Option<ServiceEntry> {
        snapshot.services.iter().find(|service| service.id == *id).cloned()
    };
    let mut changes = Vec::new();
    for was in &old.services {
        match find(new, &was.id) {
            None => changes.push(ServiceChange::Removed(was.id.clone())),
            Some(is) if is != *was => changes.push(ServiceChange::Changed(was.id.clone())),
            Some(_) => {}
        }
    }
    let added = new.services.iter().filter(|service| find(old, &service.id).is_none());
    changes.extend(added.map(|service| ServiceChange::Added(service.id.clone())));
    changes
}

fn tables(old: &Snapshot, new: &Snapshot) -> Vec<TableChange> {
    let (before, after) = (Published::of_snapshots([old]), Published::of_snapshots([new]));
    let mut changes = Vec::new();
    for table in &new.tables {
        let row =
            |split: &Published, frontend| split.row(frontend, &table.class).cloned().unwrap_or_default();
        let (was, is) = (row(&before, &old.frontend), row(&after, &new.frontend));
        let mut groups: Vec<&GroupId> = was.keys().chain(is.keys()).collect();
        groups.sort();
        groups.dedup();
        let weight = |row: &BTreeMap<GroupId, f64>, group| row.get(group).copied().unwrap_or(0.0);
        let weights: Vec<(GroupId, f64, f64)> = groups
            .into_iter()
            .map(|group| (group.clone(), weight(&was, group), weight(&is, group)))
            .filter(|(_, was, is)| (is - was).abs() > LEAST_CHANGE)
            .collect();
        let moved_share = weights.iter().map(|(_, was, is)| (is - was).abs()).sum::<f64>() / 2.0;
        let moved_slots = old
            .tables
            .iter()
            .find(|old| old.class == table.class)
            .map_or(table.slots.len(), |was| moved_slots((old, was), (new, table)));
        if moved_slots > 0 || !weights.is_empty() {
            let (class, slots) = (table.class.clone(), table.slots.len());
            changes.push(TableChange { class, moved_share, moved_slots, slots, weights });
        }
    }
    changes
}

/// Slots whose engine has another id. Tables of different lengths share no slot.
fn moved_slots((old, was): (&Snapshot, &TableEntry), (new, is): (&Snapshot, &TableEntry)) -> usize {
    if was.slots.len() != is.slots.len() {
        return is.slots.len();
    }
    let ids = |snapshot: &'_ Snapshot| -> BTreeMap<u16, EngineId> {
        snapshot.engines.iter().map(|engine| (engine.index, engine.id.clone())).collect()
    };
    let (before, after) = (ids(old), ids(new));
    let pairs = was.slots.iter().zip(&is.slots);
    pairs.filter(|(was, is)| before.get(was) != after.get(is)).count()
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: epoch {} to {}", self.frontend, self.from, self.to)?;
        if self.is_empty() {
            return writeln!(f, "  the same state");
        }
        if self.secret_changed {
            writeln!(f, "  another secret: every key is mapped anew")?;
        }
        for change in &self.engines {
            match change {
                EngineChange::Added(id) => writeln!(f, "  engine {id} is new")?,
                EngineChange::Removed(id) => writeln!(f, "  engine {id} is gone")?,
                EngineChange::State { engine, from, to } => {
                    writeln!(f, "  engine {engine} was {from:?}, is {to:?}")?;
                }
                EngineChange::Moved { engine, from, to } => {
                    writeln!(f, "  engine {engine} was at {from}, is at {to}")?
                }
                EngineChange::Rtt { engine, from_us, to_us } => {
                    let (from, to) = (f64::from(*from_us) / 1e3, f64::from(*to_us) / 1e3);
                    writeln!(f, "  engine {engine} was {from} ms away, is {to} ms")?;
                }
            }
        }
        for change in &self.services {
            match change {
                ServiceChange::Added(id) => writeln!(f, "  service {id} is new")?,
                ServiceChange::Removed(id) => writeln!(f, "  service {id} is gone")?,
                ServiceChange::Changed(id) => writeln!(f, "  service {id} changed")?,
            }
        }
        for table in &self.tables {
            writeln!(
                f,
                "  {}: {:.2} % of traffic changes group, {} of {} slots change engine",
                table.class,
                100.0 * table.moved_share,
                table.moved_slots,
                table.slots
            )?;
            for (group, was, is) in &table.weights {
                writeln!(f, "    {group}: {:.2} % to {:.2} %", 100.0 * was, 100.0 * is)?;
            }
        }
        Ok(())
    }
}
