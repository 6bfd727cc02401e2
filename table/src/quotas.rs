//! From weights to whole slots, without moving what need not move.
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt;

use crate::{Candidates, TableSize, WEIGHT_ONE};

/// How far a count may be from its weight before slots move for it, so that noise in the weights moves nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DeadBand {
    per_mille: u16,
}

impl DeadBand {
    /// Every quota is exact: less than one slot from its weight.
    pub const OFF: Self = Self { per_mille: 0 };
    /// 2 %: what a running controller uses.
    pub const DEFAULT: Self = Self { per_mille: 20 };

    /// A band of `per_mille` thousandths of an engine's slots, or `None` above 1000.
    #[must_use]
    pub const fn new(per_mille: u16) -> Option<Self> {
        if per_mille <= 1000 { Some(Self { per_mille }) } else { None }
    }
}

/// Slots that each candidate gets, in the order of the candidates; the sum is the table's size.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Quotas {
    size: TableSize,
    slots: Vec<u32>,
}

/// Why a list of quotas does not fit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum QuotasError {
    /// There must be one quota a candidate.
    Count { expected: usize, found: usize },
    /// The sum must be the table's size.
    Sum { expected: u64, found: u64 },
}

impl Quotas {
    /// Quotas decided elsewhere, in the order of `candidates`.
    pub fn new(candidates: &Candidates, size: TableSize, slots: Vec<u32>) -> Result<Self, QuotasError> {
        if slots.len() != candidates.len() {
            return Err(QuotasError::Count { expected: candidates.len(), found: slots.len() });
        }
        let (expected, found) = (size.slots() as u64, slots.iter().map(|&quota| u64::from(quota)).sum());
        if found != expected {
            return Err(QuotasError::Sum { expected, found });
        }
        Ok(Self { size, slots })
    }

    #[must_use]
    pub fn as_slice(&self) -> &[u32] {
        &self.slots
    }

    #[must_use]
    pub fn size(&self) -> TableSize {
        self.size
    }
}

/// Sticky rounding of the weights to whole slots.
///
/// `counts` are the slots that each candidate has now ([`Candidates::counts`]), all 0 at the start. An engine keeps its
/// count where that is its weight rounded down or up, and otherwise gets the nearer of the two; then the sum is repaired,
/// one slot at a time, where the distance between weight and quota is largest (ties: lowest key). Of all quotas within
/// one slot of the weights, these are the ones closest to `counts`, so that the table moves least.
///
/// With a dead band, an engine whose count is within the band of its weight keeps it.
pub fn quotas(
    candidates: &Candidates,
    counts: &[u32],
    size: TableSize,
    band: DeadBand,
) -> Result<Quotas, QuotasError> {
    if counts.len() != candidates.len() {
        return Err(QuotasError::Count { expected: candidates.len(), found: counts.len() });
    }
    let wanted = candidates.as_slice().iter().map(|candidate| Wanted::new(candidate.weight, size));
    let wanted: Vec<Wanted> = wanted.collect();
    let mut slots: Vec<u32> =
        wanted.iter().zip(counts).map(|(wanted, &count)| wanted.start(count, band)).collect();
    repair(&wanted, &mut slots, size);
    Ok(Quotas { size, slots })
}

/// An engine's weight in slots.
struct Wanted {
    /// In units of 2^-32 slots; at most 2^50.
    exact: u64,
    floor: u32,
    ceil: u32,
}

impl Wanted {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a weight is at most 1, so its slots are at most 2^18"
    )]
    fn new(weight: u64, size: TableSize) -> Self {
        let exact = weight * size.slots() as u64;
        Self { exact, floor: (exact / WEIGHT_ONE) as u32, ceil: exact.div_ceil(WEIGHT_ONE) as u32 }
    }

    fn start(&self, count: u32, band: DeadBand) -> u32 {
        let distance = self.exact.abs_diff(u64::from(count) * WEIGHT_ONE);
        if distance.saturating_mul(1000) <= self.exact * u64::from(band.per_mille) {
            return count;
        }
        count.clamp(self.floor, self.ceil)
    }

    /// Exact slots less `quota`, in units of 2^-32 slots.
    #[expect(clippy::cast_possible_wrap, reason = "both are at most 2^50")]
    fn gap(&self, quota: u32) -> i64 {
        self.exact as i64 - (u64::from(quota) * WEIGHT_ONE) as i64
    }
}

/// Raises or lowers quotas until they sum to the size. None passes its ceiling or floor on the way: the exact slots sum
/// to the size, so a sum that is too low leaves somebody below its exact slots, and the other way round.
fn repair(wanted: &[Wanted], slots: &mut [u32], size: TableSize) {
    let sum: usize = slots.iter().map(|&quota| quota as usize).sum();
    let raise = sum < size.slots();
    let gap = |position: usize, quota: u32| {
        let gap = wanted[position].gap(quota);
        let gap = if raise { gap } else { -gap };
        (gap > 0).then_some((gap, Reverse(position)))
    };
    let mut open: BinaryHeap<_> =
        slots.iter().enumerate().filter_map(|(position, &quota)| gap(position, quota)).collect();
    for _ in 0..sum.abs_diff(size.slots()) {
        let Some((_, Reverse(position))) = open.pop() else { break };
        slots[position] = if raise { slots[position] + 1 } else { slots[position] - 1 };
        open.extend(gap(position, slots[position]));
    }
}

impl fmt::Display for QuotasError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count { expected, found } => write!(f, "{found} quotas for {expected} candidates"),
            Self::Sum { expected, found } => write!(f, "quotas sum to {found} where {expected} are expected"),
        }
    }
}

impl core::error::Error for QuotasError {}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::{Candidate, EngineKey};

    /// Candidates in the order of the given weights, in units of 1/1024 of all traffic: slots of a table of 2^10.
    fn candidates(weights: &[u64]) -> Candidates {
        let list: Vec<Candidate> = (0..)
            .zip(weights)
            .map(|(engine, weight)| Candidate {
                engine,
                key: EngineKey(u64::from(engine)),
                weight: weight * (WEIGHT_ONE >> 10),
            })
            .collect();
        Candidates::new(&list).unwrap()
    }

    fn found(weights: &[u64], counts: &[u32], band: DeadBand) -> Vec<u32> {
        quotas(&candidates(weights), counts, TableSize::new(10).unwrap(), band).unwrap().slots
    }

    #[test]
    fn a_count_two_percent_off_is_held_and_one_beyond_goes_to_its_weight() {
        // 2 % of 500 is 10; the third engine takes what the second gives back.
        let weights = [500, 500, 24];

        assert_eq!(found(&weights, &[490, 510, 24], DeadBand::DEFAULT), [490, 510, 24]);
        assert_eq!(found(&weights, &[490, 511, 23], DeadBand::DEFAULT), [500, 500, 24]);
        assert_eq!(found(&weights, &[490, 510, 24], DeadBand::OFF), [500, 500, 24]);
    }

    #[test]
    fn what_held_counts_leave_over_goes_where_the_distance_is_largest() {
        // The third engine is new. The two others are within 2 % of their weights but have its 8 slots too much.
        assert_eq!(found(&[508, 508, 8], &[514, 510, 0], DeadBand::DEFAULT), [508, 508, 8]);
        assert_eq!(found(&[508, 512, 4], &[514, 510, 0], DeadBand::DEFAULT), [510, 510, 4]);
    }

    #[test]
    fn equal_remainders_go_to_the_lowest_key() {
        let candidates = Candidates::new(&[3, 2, 1].map(|key| Candidate {
            engine: 10 * key,
            key: EngineKey(u64::from(key)),
            weight: if key == 1 { WEIGHT_ONE / 2 } else { WEIGHT_ONE / 4 },
        }));

        let quotas =
            quotas(&candidates.unwrap(), &[0; 3], TableSize::new(1).unwrap(), DeadBand::OFF).unwrap();

        // One slot for half of the traffic, half a slot for each quarter: the key 2 comes before 3.
        assert_eq!(quotas.as_slice(), [1, 1, 0]);
    }

    #[test]
    fn quotas_that_do_not_fit_are_refused() {
        let candidates = candidates(&[1024]);
        let size = TableSize::new(3).unwrap();

        let refused = |slots: Vec<u32>| Quotas::new(&candidates, size, slots).err();

        assert_eq!(refused(vec![8, 0]), Some(QuotasError::Count { expected: 1, found: 2 }));
        assert_eq!(refused(vec![7]), Some(QuotasError::Sum { expected: 8, found: 7 }));
        assert_eq!(refused(vec![8]), None);
        assert_eq!(
            quotas(&candidates, &[1, 2], size, DeadBand::OFF),
            Err(QuotasError::Count { expected: 1, found: 2 })
        );
    }
}
