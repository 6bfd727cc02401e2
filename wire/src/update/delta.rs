//! Changes against a held state.
use super::{ApplyError, Touched, TouchedTable, candidate_at, slot_at};
use crate::{EngineEntry, Epoch, ServiceEntry, Snapshot, TableEntry, codec::Moves};

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
        let mut slots = std::mem::take(&mut table.slots);
        for (slot, position) in self.moves {
            *slot_at(&mut slots, &class, slot)? = candidate_at(&engines, &class, position)?;
        }
        *table = TableEntry::from_slots(class, &engines, slots);
        Ok(())
    }
}
