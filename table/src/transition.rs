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
