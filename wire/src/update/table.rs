//! Tables as they are published: weights are slot counts.
use crate::{Candidate, ClassId, EngineEntry, EngineId, Snapshot, TableEntry};

/// Every `u16` may be an engine's index.
const ENGINE_INDEXES: usize = 1 << u16::BITS;

impl TableEntry {
    /// A table as it is published: each candidate's weight is its share of the slots, exactly.
    /// `engines` are the candidates' indexes, ascending; the number of slots is a power of two up to 2^32.
    pub fn from_slots(class: ClassId, engines: &[u16], slots: Vec<u16>) -> Self {
        let counts = Self::slots_by_engine(&slots);
        let unit = (1_u64 << 32) / (slots.len() as u64).max(1);
        let candidate = |engine: &u16| {
            let count = u64::from(counts[usize::from(*engine)]);
            Candidate { engine: *engine, weight: count * unit }
        };
        let candidates = engines.iter().map(candidate).collect();
        Self { class, candidates, slots }
    }

    /// Engine index and number of slots of each candidate.
    pub fn counts(&self) -> Vec<(u16, u32)> {
        let counts = Self::slots_by_engine(&self.slots);
        self.candidates.iter().map(|c| (c.engine, counts[usize::from(c.engine)])).collect()
    }

    /// Position of an engine among the candidates; beyond the last for an engine that is none, which no receiver
    /// takes.
    pub(super) fn position(&self, engine: u16) -> u16 {
        let found = self.candidates.binary_search_by_key(&engine, |candidate| candidate.engine);
        u16::try_from(found.unwrap_or(self.candidates.len())).unwrap_or(u16::MAX)
    }

    /// [`TableEntry::position`] of every slot.
    pub(crate) fn positions(&self) -> Vec<u16> {
        let mut lookup = vec![u16::MAX; ENGINE_INDEXES];
        for (candidate, position) in self.candidates.iter().zip(0_u16..) {
            lookup[usize::from(candidate.engine)] = position;
        }
        self.slots.iter().map(|engine| lookup[usize::from(*engine)]).collect()
    }

    /// Slots of each engine index.
    fn slots_by_engine(slots: &[u16]) -> Vec<u32> {
        let mut counts = vec![0; ENGINE_INDEXES];
        for engine in slots {
            counts[usize::from(*engine)] += 1;
        }
        counts
    }
}

impl Snapshot {
    pub fn engine(&self, index: u16) -> Option<&EngineEntry> {
        let found = self.engines.binary_search_by_key(&index, |engine| engine.index);
        found.ok().map(|position| &self.engines[position])
    }

    pub fn engine_id(&self, index: u16) -> Option<&EngineId> {
        self.engine(index).map(|engine| &engine.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_slot_counts_and_sum_to_one() {
        let table = TableEntry::from_slots(ClassId::from("chat"), &[3, 5, 9], vec![3, 3, 9, 3]);

        let weights: Vec<_> = table.candidates.iter().map(|c| (c.engine, c.weight)).collect();

        assert_eq!(weights, [(3, 3 << 30), (5, 0), (9, 1 << 30)]);
        assert_eq!(table.counts(), [(3, 3), (5, 0), (9, 1)]);
        assert_eq!(table.positions(), [0, 0, 2, 0]);
    }
}
