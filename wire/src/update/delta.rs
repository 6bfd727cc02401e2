//! Changes against a held state.
use std::collections::BTreeMap;

use penstock_table::WEIGHT_ONE;

use super::{ApplyError, Touched, TouchedTable, candidate_at, slot_at};
use crate::{Candidate, EngineEntry, Epoch, ServiceEntry, Snapshot, TableEntry, codec::Moves};

/// Changes against the state of `base`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Delta {
    pub base: Epoch,
    pub engines: Vec<EngineEntry>,
    pub removed_engines: Vec<u16>,
    /// All of them, if any changed.
    pub services: Option<Vec<ServiceEntry>>,
    pub tables: Vec<TableDelta>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TableDelta {
    /// Position of the table in the snapshot.
    pub table: u16,
    /// All candidates' engine indexes, if they changed.
    pub candidates: Option<Vec<u16>>,
    /// Engines are positions among the new candidates.
    pub moves: Moves,
}

impl Delta {
    /// `None` if only a keyframe leads to `snapshot`.
    pub(super) fn of(base: Epoch, snapshot: &Snapshot, touched: &Touched) -> Option<Self> {
        if touched.needs_keyframe {
            return None;
        }
        let entry = |index: &u16| snapshot.engine(*index);
        let tables = (0_u16..).zip(&snapshot.tables).zip(&touched.tables);
        let changed = tables.filter(|(_, touched)| touched.candidates || !touched.slots.is_empty());
        Some(Self {
            base,
            engines: touched.engines.iter().filter_map(entry).cloned().collect(),
            removed_engines: touched.engines.iter().filter(|e| entry(e).is_none()).copied().collect(),
            services: touched.services.then(|| snapshot.services.clone()),
            tables: changed
                .map(|((position, table), touched)| TableDelta::of(position, table, touched))
                .collect(),
        })
    }

    pub(super) fn onto(self, mut snapshot: Snapshot) -> Result<Snapshot, ApplyError> {
        snapshot.engines.retain(|engine| {
            self.removed_engines.binary_search(&engine.index).is_err()
                && self.engines.binary_search_by_key(&engine.index, |e| e.index).is_err()
        });
        snapshot.engines.extend(self.engines);
        snapshot.engines.sort_by_key(|engine| engine.index);
        if let Some(services) = self.services {
            snapshot.services = services;
        }
        let count = snapshot.tables.len();
        for delta in self.tables {
            let table = snapshot
                .tables
                .get_mut(usize::from(delta.table))
                .ok_or(ApplyError::UnknownTable { table: delta.table, count })?;
            delta.onto(table)?;
        }
        Ok(snapshot)
    }
}

impl TableDelta {
    fn of(position: u16, table: &TableEntry, touched: &TouchedTable) -> Self {
        let moved = touched.slots.iter().map(|slot| (*slot, table.position(table.slots[*slot as usize])));
        Self {
            table: position,
            candidates: touched.candidates.then(|| table.candidates.iter().map(|c| c.engine).collect()),
            moves: moved.collect(),
        }
    }

    fn onto(self, table: &mut TableEntry) -> Result<(), ApplyError> {
        let class = table.class.clone();
        let engines = self
            .candidates
            .unwrap_or_else(|| table.candidates.iter().map(|candidate| candidate.engine).collect());
        let mut weights: BTreeMap<u16, u64> = table.candidates.iter().map(|c| (c.engine, c.weight)).collect();
        let unit = WEIGHT_ONE / (table.slots.len() as u64).max(1);
        for (slot, position) in self.moves {
            let engine = candidate_at(&engines, &class, position)?;
            let before = std::mem::replace(slot_at(&mut table.slots, &class, slot)?, engine);
            // The weight of a published table is its slot count; a held one that is damaged ends at another hash.
            weights.entry(before).and_modify(|weight| *weight = weight.wrapping_sub(unit));
            weights.entry(engine).and_modify(|weight| *weight = weight.wrapping_add(unit)).or_insert(unit);
        }
        let weight = |engine: &u16| weights.get(engine).copied().unwrap_or(0);
        table.candidates =
            engines.iter().map(|engine| Candidate { engine: *engine, weight: weight(engine) }).collect();
        Ok(())
    }
}
