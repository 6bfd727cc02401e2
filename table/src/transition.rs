//! How many slots may be in transition at once.
use alloc::vec::Vec;

use crate::{Move, SlotTable};

/// Moves that may be made now, and those that wait.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[must_use]
pub struct Admitted {
    pub now: Vec<Move>,
    /// In their old order. Plan anew from the table in force instead of keeping them: weights go on changing.
    pub later: Vec<Move>,
}

/// Splits moves so that at most `limit` slots are in transition.
///
/// Moves away from engines that are `out` go in any case, and count. Slots that are in transition already may move
/// again, as they add nothing. The others go in their order while the limit allows it. Any part of the moves of
/// [`crate::advance`] leads to a valid table between the two.
pub fn admit(
    table: &SlotTable,
    moves: &[Move],
    limit: usize,
    in_transition: impl Fn(u32) -> bool,
    out: impl Fn(u16) -> bool,
) -> Admitted {
    let urgent = |change: &Move| table.slots().get(change.slot as usize).is_some_and(|&engine| out(engine));
    let in_force = (0..).take(table.slots().len()).filter(|&slot| in_transition(slot)).count();
    let forced = moves.iter().filter(|change| urgent(change) && !in_transition(change.slot)).count();
    let mut room = limit.saturating_sub(in_force + forced);
    let mut admitted = Admitted::default();
    for change in moves {
        let free = urgent(change) || in_transition(change.slot);
        if free || room > 0 {
            room -= usize::from(!free);
            admitted.now.push(*change);
        } else {
            admitted.later.push(*change);
        }
    }
    admitted
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;

    fn table() -> SlotTable {
        SlotTable::new(vec![1, 1, 1, 1, 2, 2, 3, 3]).unwrap()
    }

    fn to_nine(slots: &[u32]) -> Vec<Move> {
        slots.iter().map(|&slot| Move { slot, engine: 9 }).collect()
    }

    #[test]
    fn moves_go_in_their_order_until_the_limit_is_reached() {
        let moves = to_nine(&[5, 0, 7]);

        let admitted = admit(&table(), &moves, 2, |_| false, |_| false);

        assert_eq!(admitted, Admitted { now: to_nine(&[5, 0]), later: to_nine(&[7]) });
    }

    #[test]
    fn slots_in_transition_use_up_the_limit_but_may_move_again() {
        let moves = to_nine(&[5, 0, 7]);

        let admitted = admit(&table(), &moves, 2, |slot| slot == 3 || slot == 7, |_| false);

        assert_eq!(admitted, Admitted { now: to_nine(&[7]), later: to_nine(&[5, 0]) });
    }

    #[test]
    fn moves_away_from_an_engine_that_is_out_go_first_and_in_any_number() {
        let moves = to_nine(&[5, 0, 1, 2]);

        let admitted = admit(&table(), &moves, 3, |_| false, |engine| engine == 1);

        assert_eq!(admitted, Admitted { now: to_nine(&[0, 1, 2]), later: to_nine(&[5]) });
    }

    #[test]
    fn an_urgent_move_of_a_slot_in_transition_counts_once() {
        let moves = to_nine(&[0, 4]);

        let admitted = admit(&table(), &moves, 2, |slot| slot == 0, |engine| engine == 1);

        assert_eq!(admitted, Admitted { now: to_nine(&[0, 4]), later: Vec::new() });
    }
}
