//! Who serves a slot while its engine diverts.
use alloc::vec;
use alloc::vec::Vec;

use crate::candidates::same_length;
use crate::key::mix;
use crate::{Candidate, Candidates, SizeMismatch, SlotTable, WEIGHT_ONE};

/// The fallback of each slot, as engine indexes, without history.
///
/// An engine's slots are dealt round the circle of the other candidates, in the order of their keys, in proportion to
/// their weights, from a start that is hashed (systematic sampling): one engine's traffic spreads over all survivors.
/// Who has part of a slot less than its weight in the table gets that much more, who has more gets less, so that after
/// the failure of one engine no survivor is a whole slot above its weight. Where no other candidate has weight, all
/// others count alike. A fallback is the slot's own engine only where there is no other candidate.
#[must_use]
pub fn fallbacks(table: &SlotTable, candidates: &Candidates) -> Vec<u16> {
    let nobody = vec![nobody(candidates); table.slots().len()];
    deal(table, candidates, nobody, Keep::All)
}

/// The fallbacks of `next`, given those of `table`: only slots that moved, and those whose fallback is not a candidate
/// with weight any more, get another one. They are dealt as in [`fallbacks`], in proportion to what each of the others
/// lacks of its part of the owner's slots.
pub fn carry_fallbacks(
    table: &SlotTable,
    fallbacks: &[u16],
    next: &SlotTable,
    candidates: &Candidates,
) -> Result<Vec<u16>, SizeMismatch> {
    same_length(table, fallbacks)?;
    same_length(table, next.slots())?;
    let mut kept = candidates.owners(fallbacks);
    for (position, (old, new)) in kept.iter_mut().zip(table.slots().iter().zip(next.slots())) {
        if old != new {
            *position = nobody(candidates);
        }
    }
    Ok(deal(next, candidates, kept, Keep::All))
}

/// Evens out fallbacks that were carried along while weights drifted: where an engine would be more than 1 % (and a
/// slot) above its weight after the failure of another one, it gives up what it has too much. Other fallbacks stay.
pub fn even_fallbacks(
    table: &SlotTable,
    fallbacks: &[u16],
    candidates: &Candidates,
) -> Result<Vec<u16>, SizeMismatch> {
    same_length(table, fallbacks)?;
    Ok(deal(table, candidates, candidates.owners(fallbacks), Keep::WithinTolerance))
}

/// Which useful fallbacks stay.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Keep {
    All,
    WithinTolerance,
}

/// Position that stands for a fallback still to be found.
#[expect(clippy::cast_possible_truncation, reason = "there are at most 65,535 candidates")]
fn nobody(candidates: &Candidates) -> u16 {
    candidates.len() as u16
}

/// Keeps the fallbacks in `standing` that are still useful and finds the others. Returns engine indexes.
fn deal(table: &SlotTable, candidates: &Candidates, mut standing: Vec<u16>, keep: Keep) -> Vec<u16> {
    let corrections = corrections(table, candidates);
    let owners = candidates.owners(table.slots());
    for (owner, slots) in by_owner(candidates.len(), &owners) {
        let parts = Parts::new(table, candidates, &corrections, owner, slots.len());
        if parts.total > 0 {
            deal_owner(&parts, &slots, &mut standing, keep);
        }
    }
    let engine = |(&position, &own): (&u16, &u16)| {
        if position == nobody(candidates) { own } else { candidates.engine(usize::from(position)) }
    };
    standing.iter().zip(table.slots()).map(engine).collect()
}

/// What each candidate's slots are below its weight, at most one slot either way, in units of 2^-32 slots: only what
/// rounding leaves is corrected, as a larger gap would make one engine the fallback of too many.
fn corrections(table: &SlotTable, candidates: &Candidates) -> Vec<i64> {
    const SLOT: i64 = WEIGHT_ONE.cast_signed();
    let counts = candidates.counts(table);
    let gap = |(candidate, &count): (&Candidate, &u32)| {
        let exact = (candidate.weight * table.size().slots() as u64).cast_signed();
        (exact - i64::from(count) * SLOT).clamp(-SLOT, SLOT)
    };
    candidates.as_slice().iter().zip(&counts).map(gap).collect()
}

/// The slots of each owner that has any, in rising order.
fn by_owner(candidates: usize, owners: &[u16]) -> impl Iterator<Item = (usize, Vec<u32>)> {
    let mut counts = vec![0; candidates + 1];
    for &owner in owners {
        counts[usize::from(owner)] += 1;
    }
    let mut slots: Vec<Vec<u32>> = counts.into_iter().map(Vec::with_capacity).collect();
    for (slot, &owner) in (0..).zip(owners) {
        slots[usize::from(owner)].push(slot);
    }
    slots.into_iter().enumerate().filter(|(_, slots)| !slots.is_empty())
}

/// Finds the missing fallbacks of one owner's slots.
fn deal_owner(parts: &Parts, slots: &[u32], standing: &mut [u16], keep: Keep) {
    let mut have = vec![0_u32; parts.parts.len()];
    for &slot in slots {
        let position = &mut standing[slot as usize];
        if parts.includes(*position) {
            have[usize::from(*position)] += 1;
        } else {
            *position = nobody(parts.candidates);
        }
    }
    if keep == Keep::WithinTolerance {
        let mut excess: Vec<u32> =
            have.iter().enumerate().map(|(position, &have)| parts.excess(position, have)).collect();
        for &slot in slots {
            let position = &mut standing[slot as usize];
            if let Some(excess) = excess.get_mut(usize::from(*position)).filter(|excess| **excess > 0) {
                *excess -= 1;
                have[usize::from(*position)] -= 1;
                *position = nobody(parts.candidates);
            }
        }
    }
    let missing: Vec<u32> =
        slots.iter().copied().filter(|&slot| standing[slot as usize] == nobody(parts.candidates)).collect();
    let Some(first) = missing.first() else { return };
    let lacks = parts.lacks(&have);
    let dealt = systematic(&lacks, missing.len(), mix(u64::from(*first) ^ parts.owner_key()));
    for (&slot, position) in missing.iter().zip(dealt) {
        standing[slot as usize] = position;
    }
}

/// How much of one owner's slots is due to each of the other candidates.
struct Parts<'a> {
    candidates: &'a Candidates,
    owner: usize,
    slots_in_table: u64,
    /// The others' weights, or 1 each where none of them has weight; 0 for the owner.
    parts: Vec<u64>,
    total: u64,
    /// Slots of the owner, corrected as the others are, in units of 2^-32 slots.
    due: i64,
    /// What the candidates' slots are below their weights, unless weights do not count.
    corrections: Option<&'a [i64]>,
}

impl<'a> Parts<'a> {
    fn new(
        table: &SlotTable,
        candidates: &'a Candidates,
        corrections: &'a [i64],
        owner: usize,
        slots: usize,
    ) -> Self {
        let weight_of_owner = candidates.as_slice().get(owner).map_or(0, |candidate| candidate.weight);
        let alone = weight_of_owner == WEIGHT_ONE;
        let weights = candidates.as_slice().iter().map(|candidate| candidate.weight);
        let mut parts: Vec<u64> = weights.map(|weight| if alone { 1 } else { weight }).collect();
        if let Some(part) = parts.get_mut(owner) {
            *part = 0;
        }
        let corrections = if alone { None } else { Some(corrections) };
        // The others' corrections sum to the negative of the owner's, so that the dues sum to its slots.
        let own = corrections.and_then(|corrections| corrections.get(owner)).copied().unwrap_or(0);
        Self {
            candidates,
            owner,
            slots_in_table: table.size().slots() as u64,
            total: parts.iter().sum(),
            parts,
            due: (WEIGHT_ONE * slots as u64).cast_signed() + own,
            corrections,
        }
    }

    fn includes(&self, position: u16) -> bool {
        self.parts.get(usize::from(position)).is_some_and(|&part| part > 0)
    }

    fn owner_key(&self) -> u64 {
        self.candidates.as_slice().get(self.owner).map_or(0, |candidate| candidate.key.0)
    }

    /// What a candidate with `have` fallbacks lacks of its due, in units of 1/`total` slots; below 0 if it has too many.
    fn lack(&self, position: usize, have: u32) -> i128 {
        let correction = self.corrections.map_or(0, |corrections| corrections[position]);
        let has = (WEIGHT_ONE * u64::from(have)).cast_signed() - correction;
        (i128::from(self.parts[position]) * i128::from(self.due) - i128::from(self.total) * i128::from(has))
            >> 32
    }

    /// What each candidate lacks, or its part where nobody lacks anything.
    fn lacks(&self, have: &[u32]) -> Vec<u64> {
        let lack = |(position, &have): (usize, &u32)| match self.parts[position] {
            0 => 0,
            // Below 2^32 parts times 2^18 slots.
            _ => u64::try_from(self.lack(position, have)).unwrap_or(0),
        };
        let lacks: Vec<u64> = have.iter().enumerate().map(lack).collect();
        if lacks.iter().all(|&lack| lack == 0) { self.parts.clone() } else { lacks }
    }

    /// How many of its `have` fallbacks a candidate gives up: all above its due, if they exceed the tolerance.
    fn excess(&self, position: usize, have: u32) -> u32 {
        if have == 0 {
            return 0;
        }
        let too_many = -self.lack(position, have);
        let total = i128::from(self.total);
        let weight =
            i128::from(self.candidates.as_slice()[position].weight) * i128::from(self.slots_in_table);
        let tolerance = total.max(((weight * total) >> 32) / 100);
        if too_many > tolerance { u32::try_from(too_many / total).unwrap_or(have).min(have) } else { 0 }
    }
}

/// Deals `count` cards round a circle of `lengths` (their sum positive and below 2^63), at equal distances from a
/// hashed start: everyone gets its part of them rounded down or up. Yields positions in `lengths`.
#[expect(clippy::cast_possible_truncation, reason = "there are at most 65,535 lengths")]
pub(crate) fn systematic(lengths: &[u64], count: usize, start: u64) -> impl Iterator<Item = u16> {
    let ends: Vec<u64> = lengths
        .iter()
        .scan(0, |end, length| {
            *end += length;
            Some(*end)
        })
        .collect();
    let (total, count) = (ends.last().copied().unwrap_or(0), count as u64);
    let mut point = start % total;
    let mut position = ends.partition_point(|&end| end <= point);
    // The distance is a whole number and a fraction of `count`.
    let (distance, fraction) = (total / count, total % count);
    let mut parts = 0;
    (0..count).map(move |_| {
        if point >= total {
            (point, position) = (point - total, 0);
        }
        while point >= ends[position] {
            position += 1;
        }
        let dealt = position as u16;
        point += distance;
        parts += fraction;
        if parts >= count {
            parts -= count;
            point += 1;
        }
        dealt
    })
}
