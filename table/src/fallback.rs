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
    let owners = candidates.owners(table.slots());
    let kept = vec![nobody(candidates); owners.len()];
    deal(table, candidates, &owners, kept)
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
    let owners = candidates.owners(next.slots());
    let mut kept = candidates.owners(fallbacks);
    for (position, (old, new)) in kept.iter_mut().zip(table.slots().iter().zip(next.slots())) {
        if old != new {
            *position = nobody(candidates);
        }
    }
    Ok(deal(next, candidates, &owners, kept))
}

/// Position that stands for a fallback still to be found.
#[expect(clippy::cast_possible_truncation, reason = "there are at most 65,535 candidates")]
fn nobody(candidates: &Candidates) -> u16 {
    candidates.len() as u16
}

/// Keeps the fallbacks in `kept` that are still useful and finds the others. Returns engine indexes.
fn deal(table: &SlotTable, candidates: &Candidates, owners: &[u16], mut kept: Vec<u16>) -> Vec<u16> {
    let corrections = corrections(table, candidates);
    for (owner, slots) in by_owner(candidates.len(), owners) {
        deal_owner(candidates, &corrections, owner, &slots, &mut kept);
    }
    let engine = |(&position, &own): (&u16, &u16)| {
        if position == nobody(candidates) { own } else { candidates.engine(usize::from(position)) }
    };
    kept.iter().zip(table.slots()).map(engine).collect()
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
fn deal_owner(candidates: &Candidates, corrections: &[i64], owner: usize, slots: &[u32], kept: &mut [u16]) {
    let weights = candidates.as_slice().iter().map(|candidate| candidate.weight);
    let own = candidates.as_slice().get(owner).map_or(0, |candidate| candidate.weight);
    let alone = own == WEIGHT_ONE;
    let mut parts: Vec<u64> = weights.map(|weight| if alone { 1 } else { weight }).collect();
    if let Some(part) = parts.get_mut(owner) {
        *part = 0;
    }
    let mut have = vec![0_u32; parts.len()];
    let mut missing = Vec::new();
    for &slot in slots {
        let position = &mut kept[slot as usize];
        if parts.get(usize::from(*position)).is_some_and(|&part| part > 0) {
            have[usize::from(*position)] += 1;
        } else {
            *position = nobody(candidates);
            missing.push(slot);
        }
    }
    let total: u64 = parts.iter().sum();
    if missing.is_empty() || total == 0 {
        return;
    }
    let key = candidates.as_slice().get(owner).map_or(0, |candidate| candidate.key.0);
    let none = vec![0; if alone { parts.len() } else { 0 }];
    let corrections = if alone { &none } else { corrections };
    let lacks = lacks(&parts, total, owner, slots.len(), &have, corrections);
    let dealt = systematic(&lacks, missing.len(), mix(u64::from(missing[0]) ^ key));
    for (&slot, position) in missing.iter().zip(dealt) {
        kept[slot as usize] = position;
    }
}

/// How far each candidate is below its part of an owner's slots, in units of 1/`total` slots; the parts themselves
/// where nobody is.
fn lacks(
    parts: &[u64],
    total: u64,
    owner: usize,
    slots: usize,
    have: &[u32],
    corrections: &[i64],
) -> Vec<u64> {
    // In units of 2^-32 slots, as the corrections are. The owner's own correction makes the sum come out.
    let due =
        i128::from(WEIGHT_ONE) * slots as i128 + i128::from(corrections.get(owner).copied().unwrap_or(0));
    let lack = |(position, &part): (usize, &u64)| {
        let kept = i128::from(WEIGHT_ONE) * i128::from(have[position]) - i128::from(corrections[position]);
        let lack = if part == 0 { 0 } else { i128::from(part) * due - i128::from(total) * kept };
        // Below 2^32 times 2^50 before the shift.
        u64::try_from(lack >> 32).unwrap_or(0)
    };
    let lacks: Vec<u64> = parts.iter().enumerate().map(lack).collect();
    if lacks.iter().all(|&lack| lack == 0) { parts.to_vec() } else { lacks }
}

/// Deals `count` cards round a circle of `lengths` (their sum positive and below 2^63), at equal distances from a
/// hashed start: everyone gets its part of them rounded down or up. Yields positions in `lengths`.
#[expect(
    clippy::cast_possible_truncation,
    reason = "there are at most 65,535 lengths, points lie below their sum"
)]
pub(crate) fn systematic(lengths: &[u64], count: usize, start: u64) -> impl Iterator<Item = u16> {
    let ends: Vec<u64> = lengths
        .iter()
        .scan(0, |end, length| {
            *end += length;
            Some(*end)
        })
        .collect();
    let total = ends.last().copied().unwrap_or(0);
    let start = start % total;
    let mut position = ends.partition_point(|&end| end <= start);
    let mut wrapped = false;
    (0..count as u128).map(move |card| {
        let mut point = (card * u128::from(total) / count as u128) as u64 + start;
        if point >= total {
            point -= total;
            if !wrapped {
                (wrapped, position) = (true, 0);
            }
        }
        while point >= ends[position] {
            position += 1;
        }
        position as u16
    })
}
