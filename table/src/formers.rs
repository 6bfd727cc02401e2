//! Who served a slot before.
use alloc::vec::Vec;

use crate::candidates::same_length;
use crate::{Move, SizeMismatch, SlotTable};

/// The engine that served each slot before its last move: it may still hold the caches of the slot's conversations.
///
/// Handed to [`crate::advance_preferring`], it makes slots that must move go back there rather than to a third engine.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Formers {
    engines: Vec<u16>,
}

impl Formers {
    /// Before any move: each slot's own engine.
    #[must_use]
    pub fn new(table: &SlotTable) -> Self {
        Self { engines: table.slots().to_vec() }
    }

    /// Notes moves that are about to be made in `table`.
    pub fn note(&mut self, table: &SlotTable, moves: &[Move]) -> Result<(), SizeMismatch> {
        same_length(table, &self.engines)?;
        for change in moves {
            if let Some(&engine) = table.slots().get(change.slot as usize) {
                self.engines[change.slot as usize] = engine;
            }
        }
        Ok(())
    }

    /// Engine indexes by slot.
    #[must_use]
    pub fn as_slice(&self) -> &[u16] {
        &self.engines
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn a_slot_remembers_the_engine_before_its_last_move() {
        let mut table = SlotTable::new(vec![1, 1, 2, 2]).unwrap();
        let mut formers = Formers::new(&table);

        for engine in [5, 6] {
            let moves = [Move { slot: 2, engine }];
            formers.note(&table, &moves).unwrap();
            table.apply(&moves).unwrap();
        }

        assert_eq!(formers.as_slice(), [1, 1, 5, 2]);
    }
}
