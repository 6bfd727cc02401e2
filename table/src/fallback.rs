//! Who serves a slot while its engine diverts.
use alloc::vec;
use alloc::vec::Vec;

use crate::candidates::same_length;
use crate::key::mix;
use crate::{Candidates, SizeMismatch, SlotTable};

/// The fallback of each slot, as engine indexes, without history.
///
/// An engine's slots are dealt round the circle of the other candidates, in the order of their keys, in proportion to
/// their weights, from a start that is hashed (systematic sampling): each of the others gets its part rounded down or
/// up, so one engine's traffic spreads over all survivors. Where no other candidate has weight, all others count
/// alike. A fallback is the slot's own engine only where there is no other candidate.
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
    for (owner, slots) in by_owner(candidates.len(), owners) {
        deal_owner(candidates, owner, &slots, &mut kept);
    }
    let engine = |(&position, &own): (&u16, &u16)| {
        if position == nobody(candidates) { own } else { candidates.engine(usize::from(position)) }
    };
    kept.iter().zip(table.slots()).map(engine).collect()
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
fn deal_owner(candidates: &Candidates, owner: usize, slots: &[u32], kept: &mut [u16]) {
    let parts = parts(candidates, owner);
    let total: u64 = parts.iter().sum();
    let mut have = vec![0_u64; parts.len()];
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
    if missing.is_empty() || total == 0 {
        return;
    }
    let lacks: Vec<u64> = parts
        .iter()
        .zip(&have)
        .map(|(part, have)| (part * slots.len() as u64).saturating_sub(have * total))
        .collect();
    let start =
        mix(u64::from(missing[0]) ^ candidates.as_slice().get(owner).map_or(0, |engine| engine.key.0));
    for (&slot, position) in missing.iter().zip(systematic(&lacks, missing.len(), start)) {
        kept[slot as usize] = position;
    }
}

/// The parts of the other candidates in an owner's slots: their weights, or 1 each where none has weight.
fn parts(candidates: &Candidates, owner: usize) -> Vec<u64> {
    let mut parts: Vec<u64> = candidates.as_slice().iter().map(|candidate| candidate.weight).collect();
    let own = parts.get(owner).copied().unwrap_or(0);
    if own == crate::WEIGHT_ONE {
        parts.fill(1);
    }
    if let Some(part) = parts.get_mut(owner) {
        *part = 0;
    }
    parts
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
