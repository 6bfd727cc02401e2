//! What differs between two states of a frontend.
use std::collections::{BTreeMap, BTreeSet};

use super::Head;
use crate::{EngineEntry, Snapshot, TableEntry};

/// What changed between two states of one frontend, without the values.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Touched {
    /// Head or the set of tables changed: only a keyframe leads there.
    pub needs_keyframe: bool,
    /// Indexes of engines that changed, came or went.
    pub engines: BTreeSet<u16>,
    pub services: bool,
    pub tables: Vec<TouchedTable>,
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TouchedTable {
    pub candidates: bool,
    /// Ascending.
    pub slots: Vec<u32>,
}

impl Touched {
    pub fn between(old: &Snapshot, new: &Snapshot) -> Self {
        let same_tables = old.tables.len() == new.tables.len()
            && old
                .tables
                .iter()
                .zip(&new.tables)
                .all(|(a, b)| a.class == b.class && a.slots.len() == b.slots.len());
        if !same_tables || Head::of(old) != Head::of(new) {
            return Self { needs_keyframe: true, ..Self::default() };
        }
        Self {
            needs_keyframe: false,
            engines: changed_engines(&old.engines, &new.engines),
            services: old.services != new.services,
            tables: old.tables.iter().zip(&new.tables).map(|(a, b)| TouchedTable::between(a, b)).collect(),
        }
    }

    /// Adds what a later step touched.
    pub fn merge(&mut self, later: &Self) {
        if self.needs_keyframe || later.needs_keyframe {
            *self = Self { needs_keyframe: true, ..Self::default() };
            return;
        }
        self.engines.extend(&later.engines);
        self.services |= later.services;
        self.tables.resize_with(self.tables.len().max(later.tables.len()), TouchedTable::default);
        for (mine, theirs) in self.tables.iter_mut().zip(&later.tables) {
            mine.candidates |= theirs.candidates;
            let mut slots = std::mem::take(&mut mine.slots);
            slots.extend(&theirs.slots);
            slots.sort_unstable();
            slots.dedup();
            mine.slots = slots;
        }
    }

    /// Slots touched in all tables.
    pub fn slots(&self) -> usize {
        self.tables.iter().map(|table| table.slots.len()).sum()
    }
}

impl TouchedTable {
    fn between(old: &TableEntry, new: &TableEntry) -> Self {
        let indexes = |table: &TableEntry| table.candidates.iter().map(|c| c.engine).collect::<Vec<_>>();
        let moved = old.slots.iter().zip(&new.slots).zip(0_u32..).filter(|((a, b), _)| a != b);
        Self { candidates: indexes(old) != indexes(new), slots: moved.map(|(_, slot)| slot).collect() }
    }
}

/// Indexes whose entry is not the same in both.
fn changed_engines(old: &[EngineEntry], new: &[EngineEntry]) -> BTreeSet<u16> {
    let old: BTreeMap<u16, &EngineEntry> = old.iter().map(|engine| (engine.index, engine)).collect();
    let new: BTreeMap<u16, &EngineEntry> = new.iter().map(|engine| (engine.index, engine)).collect();
    old.keys().chain(new.keys()).copied().filter(|index| old.get(index) != new.get(index)).collect()
}
