//! What an agent does alone when engines and their fallbacks are out: a living engine for every slot.
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use crate::candidates::same_length;
use crate::fallback::systematic;
use crate::key::mix;
use crate::{
    Candidate, Candidates, CandidatesError, EngineKey, SizeMismatch, SlotTable, TableSize, WEIGHT_ONE,
    apportion, carry_fallbacks,
};

/// Engines whose round trips differ by less than this are equally near.
const SAME_DISTANCE_US: u32 = 1000;

/// An engine that lives and may serve the class, whether or not it has weight.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Survivor {
    pub engine: u16,
    pub key: EngineKey,
    /// Fraction of the frontend's traffic of the class that it was given, in units of 2^-32.
    pub weight: u64,
    /// Network round trip from the frontend, in microseconds.
    pub rtt_us: u32,
    /// What it could take over, as a further fraction of the frontend's traffic of the class, in units of 2^-32.
    pub spare: u64,
}

/// A slot's new engine and fallback.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Reassignment {
    pub slot: u32,
    pub engine: u16,
    pub fallback: u16,
}

/// Why slots were not re-derived.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RederiveError {
    /// Nobody is left to serve the class.
    NoSurvivor,
    /// Two survivors share an index or a key.
    Survivors(CandidatesError),
    /// Table and fallbacks differ in length.
    Size(SizeMismatch),
}

/// Gives every slot whose engine *and* fallback are no survivors an engine that is one. Other slots stay: they have
/// their engine, or divert to their fallback.
///
/// The nearest survivors fill first, each up to its spare capacity less what already diverts to it; engines equally
/// near (within 1 ms) fill in proportion to their spare capacity. What exceeds all spare capacity is dealt over all
/// survivors in proportion to `weight + spare`, alike where that is 0 for all. Apply the result to the table before
/// the next call, so that slots keep their new engines when more engines fail.
///
/// Takes time in proportion to slots plus survivors.
pub fn rederive(
    table: &SlotTable,
    fallbacks: &[u16],
    survivors: &[Survivor],
) -> Result<Vec<Reassignment>, RederiveError> {
    same_length(table, fallbacks).map_err(RederiveError::Size)?;
    let candidates = as_candidates(survivors)?;
    let dead = nobody(&candidates);
    let owners = candidates.owners(table.slots());
    let standing = candidates.owners(fallbacks);
    let mut diverted = vec![0_u32; candidates.len()];
    let mut orphans = Vec::new();
    for (slot, (&owner, &fallback)) in (0..).zip(owners.iter().zip(&standing)) {
        if owner != dead {
            continue;
        }
        match diverted.get_mut(usize::from(fallback)) {
            Some(count) => *count += 1,
            None => orphans.push(slot),
        }
    }
    if orphans.is_empty() {
        return Ok(Vec::new());
    }
    let engines = adopt(table.size(), &orphans, &in_order(survivors), &diverted);
    with_fallbacks(table, fallbacks, &candidates, &orphans, &engines).map_err(RederiveError::Size)
}

/// The survivors as candidates with weights in proportion to the traffic that they can bear.
fn as_candidates(survivors: &[Survivor]) -> Result<Candidates, RederiveError> {
    let bearable: Vec<(EngineKey, u64)> =
        survivors.iter().map(|survivor| (survivor.key, bearable(survivor))).collect();
    let weights = apportion(&bearable).ok_or(RederiveError::NoSurvivor)?;
    let candidates: Vec<Candidate> = survivors
        .iter()
        .zip(weights)
        .map(|(survivor, weight)| Candidate { engine: survivor.engine, key: survivor.key, weight })
        .collect();
    Candidates::new(&candidates).map_err(RederiveError::Survivors)
}

/// Above any real capacity, so that sums over all engines stay within 64 bits.
const MOST_SPARE: u64 = WEIGHT_ONE << 12;

fn bearable(survivor: &Survivor) -> u64 {
    survivor.weight.min(WEIGHT_ONE) + survivor.spare.min(MOST_SPARE)
}

/// In the order of keys, as positions among candidates are.
fn in_order(survivors: &[Survivor]) -> Vec<Survivor> {
    let mut ordered = survivors.to_vec();
    ordered.sort_unstable_by_key(|survivor| survivor.key);
    ordered
}

#[expect(clippy::cast_possible_truncation, reason = "there are at most 65,535 candidates")]
fn nobody(candidates: &Candidates) -> u16 {
    candidates.len() as u16
}

/// Positions of the survivors that take over `orphans`, in the order of the orphans.
fn adopt(size: TableSize, orphans: &[u32], survivors: &[Survivor], diverted: &[u32]) -> Vec<u16> {
    let spare: Vec<u64> = survivors
        .iter()
        .zip(diverted)
        .map(|(survivor, &diverted)| {
            let slots = survivor.spare.min(MOST_SPARE) * size.slots() as u64 / WEIGHT_ONE;
            slots.saturating_sub(u64::from(diverted))
        })
        .collect();
    let mut adopted = Vec::with_capacity(orphans.len());
    for tier in tiers(survivors) {
        let mut lengths = vec![0; spare.len()];
        for position in tier {
            lengths[position] = spare[position];
        }
        deal(&lengths, orphans, &mut adopted);
    }
    let left = orphans.len() - adopted.len();
    if left > 0 {
        let bearable: Vec<u64> = survivors.iter().map(bearable).collect();
        let lengths = if bearable.iter().all(|&part| part == 0) { vec![1; bearable.len()] } else { bearable };
        adopted.extend(systematic(&lengths, left, mix(u64::from(orphans[adopted.len()]))));
    }
    adopted
}

/// Deals as many of the orphans that are left as the spare slots allow.
fn deal(spare: &[u64], orphans: &[u32], adopted: &mut Vec<u16>) {
    let room = usize::try_from(spare.iter().sum::<u64>()).unwrap_or(usize::MAX);
    let count = room.min(orphans.len() - adopted.len());
    if count > 0 {
        adopted.extend(systematic(spare, count, mix(u64::from(orphans[adopted.len()]))));
    }
}

/// Positions of engines that are equally near, nearest first. A tier is measured from its nearest engine.
fn tiers(survivors: &[Survivor]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..survivors.len()).collect();
    order.sort_unstable_by_key(|&position| (survivors[position].rtt_us, position));
    let near = |first: &[usize], position: usize| {
        first
            .first()
            .is_some_and(|&first| survivors[position].rtt_us - survivors[first].rtt_us < SAME_DISTANCE_US)
    };
    let mut tiers: Vec<Vec<usize>> = Vec::new();
    for position in order {
        match tiers.last_mut() {
            Some(tier) if near(tier, position) => tier.push(position),
            _ => tiers.push(vec![position]),
        }
    }
    tiers
}

/// Adds a living fallback to each orphan's new engine.
fn with_fallbacks(
    table: &SlotTable,
    fallbacks: &[u16],
    candidates: &Candidates,
    orphans: &[u32],
    engines: &[u16],
) -> Result<Vec<Reassignment>, SizeMismatch> {
    let mut slots = table.slots().to_vec();
    for (&slot, &position) in orphans.iter().zip(engines) {
        slots[slot as usize] = candidates.engine(usize::from(position));
    }
    let next = SlotTable::of_size(table.size(), slots);
    let renewed = carry_fallbacks(table, fallbacks, &next, candidates)?;
    let reassignment = |&slot: &u32| Reassignment {
        slot,
        engine: next.slots()[slot as usize],
        fallback: renewed[slot as usize],
    };
    Ok(orphans.iter().map(reassignment).collect())
}

impl fmt::Display for RederiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSurvivor => f.write_str("no engine is left to serve the class"),
            Self::Survivors(_) => f.write_str("the survivors are not a valid set"),
            Self::Size(_) => f.write_str("table and fallbacks do not fit"),
        }
    }
}

impl core::error::Error for RederiveError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::NoSurvivor => None,
            Self::Survivors(source) => Some(source),
            Self::Size(source) => Some(source),
        }
    }
}
