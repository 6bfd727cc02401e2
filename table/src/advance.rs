//! Guided minimal move: from the table in force to one with other quotas.
use alloc::vec::Vec;

use crate::candidates::same_length;
use crate::greedy::Greedy;
use crate::{Affinity, Candidates, Move, Quotas, SizeMismatch, SlotTable};

/// The moves from `table` to a table with `quotas`: exactly as many as the engines over quota have too much, which no
/// method can undercut. In the order in which they should be made: after any number of them, every engine that
/// gained is still at or below its quota and every engine that lost at or above.
///
/// Engines of the table that are no candidates lose all their slots. Of the minimal moves, this takes greedily those
/// that gain most in `affinity + ln quota`, which keeps the table near the one that its quotas alone would give, so
/// that an engine that comes back finds many of its old slots.
pub fn advance(
    affinity: &Affinity,
    table: &SlotTable,
    candidates: &Candidates,
    quotas: &Quotas,
) -> Result<Vec<Move>, SizeMismatch> {
    Ok(start(affinity, table, candidates, quotas)?.finish().0)
}

/// As [`advance`], and with the same number of moves, but a slot that moves goes to the engine that `preferred`
/// (indexes by slot) names for it, as long as that engine lacks slots: the one that served it before
/// ([`crate::Formers`]), or the fallback that did while an engine was out.
pub fn advance_preferring(
    affinity: &Affinity,
    table: &SlotTable,
    candidates: &Candidates,
    quotas: &Quotas,
    preferred: &[u16],
) -> Result<Vec<Move>, SizeMismatch> {
    same_length(table, preferred)?;
    let mut greedy = start(affinity, table, candidates, quotas)?;
    greedy.prefer(&candidates.owners(preferred));
    Ok(greedy.finish().0)
}

fn start<'a>(
    affinity: &'a Affinity,
    table: &SlotTable,
    candidates: &'a Candidates,
    quotas: &Quotas,
) -> Result<Greedy<'a>, SizeMismatch> {
    let size = table.size();
    size.check(affinity.size().slots())?;
    size.check(quotas.size().slots())?;
    Ok(Greedy::new(affinity, candidates, quotas, candidates.owners(table.slots())))
}
