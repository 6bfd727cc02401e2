//! The table itself: which engine serves each slot.
use alloc::vec::Vec;
use core::fmt;

use crate::key::mix;

/// Number of slots of a table: a power of two.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TableSize {
    bits: u32,
}

impl TableSize {
    pub const MAX_BITS: u32 = 18;
    /// 2^16 slots: enough for 600 engines of a class.
    pub const DEFAULT: Self = Self { bits: 16 };

    /// A size of `2^bits` slots, or `None` unless `bits` is between 1 and [`Self::MAX_BITS`].
    #[must_use]
    pub const fn new(bits: u32) -> Option<Self> {
        if bits >= 1 && bits <= Self::MAX_BITS { Some(Self { bits }) } else { None }
    }

    #[must_use]
    pub const fn bits(self) -> u32 {
        self.bits
    }

    #[must_use]
    pub const fn slots(self) -> usize {
        1 << self.bits
    }

    pub(crate) const fn mask(self) -> u32 {
        (1 << self.bits) - 1
    }
}

/// The engine index of each slot.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SlotTable {
    size: TableSize,
    slots: Vec<u16>,
}

/// One slot's change of engine.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Move {
    pub slot: u32,
    /// Index of the engine that serves the slot from now on.
    pub engine: u16,
}

/// The number of slots is not a power of two between 2 and 2^18.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SlotTableError {
    pub slots: usize,
}

/// A table, its quotas or its fallbacks have another number of slots than the rest of the arguments.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SizeMismatch {
    pub expected: usize,
    pub found: usize,
}

impl SlotTable {
    pub fn new(slots: Vec<u16>) -> Result<Self, SlotTableError> {
        let size = if slots.len().is_power_of_two() { TableSize::new(slots.len().ilog2()) } else { None };
        match size {
            Some(size) => Ok(Self { size, slots }),
            None => Err(SlotTableError { slots: slots.len() }),
        }
    }

    /// A table whose length is known to fit.
    pub(crate) fn of_size(size: TableSize, slots: Vec<u16>) -> Self {
        debug_assert_eq!(size.slots(), slots.len());
        Self { size, slots }
    }

    #[must_use]
    pub fn size(&self) -> TableSize {
        self.size
    }

    /// Engine indexes by slot.
    #[must_use]
    pub fn slots(&self) -> &[u16] {
        &self.slots
    }

    #[must_use]
    pub fn into_slots(self) -> Vec<u16> {
        self.slots
    }

    /// Makes the moves effective. Moves of slots beyond the table's end are refused, and then none is made.
    pub fn apply(&mut self, moves: &[Move]) -> Result<(), SizeMismatch> {
        let slots = self.slots.len();
        if let Some(beyond) = moves.iter().map(|change| change.slot as usize).find(|&slot| slot >= slots) {
            return Err(SizeMismatch { expected: slots, found: beyond + 1 });
        }
        for change in moves {
            self.slots[change.slot as usize] = change.engine;
        }
        Ok(())
    }

    /// The moves that lead from this table to `next`, by slot.
    pub fn difference(&self, next: &Self) -> Result<Vec<Move>, SizeMismatch> {
        self.size.check(next.slots.len())?;
        let pairs = (0..).zip(self.slots.iter().zip(&next.slots));
        Ok(pairs
            .filter(|(_, (old, new))| old != new)
            .map(|(slot, (_, &engine))| Move { slot, engine })
            .collect())
    }

    #[must_use]
    pub fn hash(&self) -> TableHash {
        TableHash::of(&self.slots)
    }
}

impl TableSize {
    pub(crate) fn check(self, found: usize) -> Result<(), SizeMismatch> {
        if found == self.slots() { Ok(()) } else { Err(SizeMismatch { expected: self.slots(), found }) }
    }
}

/// Integrity of the contents of a table, or of its fallbacks: guards against lost and flipped bits, not against
/// forgery.
///
/// A sum over the slots, so that a change of some slots costs time in proportion to them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TableHash(pub u64);

impl TableHash {
    #[must_use]
    pub fn of(slots: &[u16]) -> Self {
        let empty = Self(mix(slots.len() as u64));
        (0..)
            .zip(slots)
            .fold(empty, |hash, (slot, &engine)| Self(hash.0.wrapping_add(Self::term(slot, engine))))
    }

    /// The hash after `slot` changed from the engine `from` to `to`.
    #[must_use]
    pub fn after(self, slot: u32, from: u16, to: u16) -> Self {
        Self(self.0.wrapping_sub(Self::term(slot, from)).wrapping_add(Self::term(slot, to)))
    }

    fn term(slot: u32, engine: u16) -> u64 {
        mix(u64::from(slot) << 16 | u64::from(engine))
    }
}

impl fmt::Display for SlotTableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} slots are not a power of two between 2 and 2^{}", self.slots, TableSize::MAX_BITS)
    }
}

impl fmt::Display for SizeMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} slots where {} are expected", self.found, self.expected)
    }
}

impl core::error::Error for SlotTableError {}
impl core::error::Error for SizeMismatch {}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn only_powers_of_two_are_tables() {
        for slots in [0, 1, 3, 65_535, 1 << 19] {
            assert_eq!(SlotTable::new(vec![0; slots]), Err(SlotTableError { slots }));
        }
        assert_eq!(SlotTable::new(vec![0; 1 << 18]).unwrap().size().bits(), 18);
    }

    #[test]
    fn the_difference_of_two_tables_leads_from_one_to_the_other() {
        let mut old = SlotTable::new(vec![1, 2, 3, 4]).unwrap();
        let new = SlotTable::new(vec![1, 9, 3, 8]).unwrap();

        let moves = old.difference(&new).unwrap();
        old.apply(&moves).unwrap();

        assert_eq!(moves, [Move { slot: 1, engine: 9 }, Move { slot: 3, engine: 8 }]);
        assert_eq!(old, new);
    }

    #[test]
    fn a_move_beyond_the_end_leaves_the_table_alone() {
        let mut table = SlotTable::new(vec![1, 2]).unwrap();

        let refused = table.apply(&[Move { slot: 0, engine: 7 }, Move { slot: 2, engine: 7 }]);

        assert_eq!(refused, Err(SizeMismatch { expected: 2, found: 3 }));
        assert_eq!(table.slots(), [1, 2]);
    }

    #[test]
    fn the_hash_follows_changes_and_notices_swaps_and_length() {
        let hash = TableHash::of(&[5, 6, 7, 8]);

        assert_eq!(hash.after(2, 7, 9), TableHash::of(&[5, 6, 9, 8]));
        assert_ne!(hash, TableHash::of(&[6, 5, 7, 8]));
        assert_ne!(TableHash::of(&[0, 0]), TableHash::of(&[0, 0, 0, 0]));
    }
}
