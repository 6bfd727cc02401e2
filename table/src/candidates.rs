//! The engines that may serve a class, with their weights.
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use crate::permutation::Permutation;
use crate::{EngineKey, SizeMismatch, SlotTable};

/// The sum of a table's weights: they are fractions in units of 2^-32.
pub const WEIGHT_ONE: u64 = 1 << 32;

/// Position of engines that are not candidates.
const NOWHERE: u16 = u16::MAX;

/// One engine that may serve the class.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Candidate {
    /// What stands for the engine in tables; no two candidates share it.
    pub engine: u16,
    pub key: EngineKey,
    /// Fraction of the frontend's traffic of the class, in units of 2^-32; 0 for an engine that is only eligible.
    pub weight: u64,
}

/// A checked set of candidates, in the order of their keys: 1 to 65,535 of them, weights that sum to 2^32.
///
/// Lists that run along the candidates ([`Candidates::counts`], [`crate::Quotas`]) are in the same order.
#[derive(Clone, Debug)]
pub struct Candidates {
    engines: Vec<Candidate>,
    terms: Vec<EngineTerms>,
    /// By engine index.
    positions: Vec<u16>,
}

/// What an engine's key stands for in affinities.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EngineTerms {
    pub(crate) permutation: Permutation,
    pub(crate) tie_factor: u64,
}

/// Why a list of candidates is not a valid set.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CandidatesError {
    /// A table needs between 1 and 65,535 candidates.
    Count { found: usize },
    /// Two candidates have the same index.
    SharedIndex { engine: u16 },
    /// Two candidates have the same key: their ids are the same, or collide. Rename one of the engines.
    SharedKey { engines: [u16; 2] },
    /// The weights do not sum to 2^32; see [`apportion`].
    WeightSum { found: u128 },
}

impl Candidates {
    pub fn new(candidates: &[Candidate]) -> Result<Self, CandidatesError> {
        if candidates.is_empty() || candidates.len() > usize::from(u16::MAX) {
            return Err(CandidatesError::Count { found: candidates.len() });
        }
        let found = candidates.iter().map(|candidate| u128::from(candidate.weight)).sum();
        if found != u128::from(WEIGHT_ONE) {
            return Err(CandidatesError::WeightSum { found });
        }
        let mut engines = candidates.to_vec();
        engines.sort_unstable_by_key(|candidate| (candidate.key, candidate.engine));
        if let Some(pair) = engines.windows(2).find(|pair| pair[0].key == pair[1].key) {
            return Err(CandidatesError::SharedKey { engines: [pair[0].engine, pair[1].engine] });
        }
        let largest = engines.iter().map(|candidate| usize::from(candidate.engine)).max().unwrap_or(0);
        let mut positions = vec![NOWHERE; largest + 1];
        for (position, candidate) in (0..).zip(&engines) {
            let place = &mut positions[usize::from(candidate.engine)];
            if *place != NOWHERE {
                return Err(CandidatesError::SharedIndex { engine: candidate.engine });
            }
            *place = position;
        }
        let terms = engines.iter().map(|candidate| EngineTerms::new(candidate.key)).collect();
        Ok(Self { engines, terms, positions })
    }

    /// The candidates in the order of their keys.
    #[must_use]
    pub fn as_slice(&self) -> &[Candidate] {
        &self.engines
    }

    /// Where an engine stands in the order, or `None` for one that is not a candidate.
    #[must_use]
    pub fn position(&self, engine: u16) -> Option<usize> {
        let position = *self.positions.get(usize::from(engine))?;
        (position != NOWHERE).then_some(usize::from(position))
    }

    /// Slots of each candidate in `table`. Slots of other engines are not counted.
    #[must_use]
    pub fn counts(&self, table: &SlotTable) -> Vec<u32> {
        let mut counts = vec![0; self.engines.len()];
        for &engine in table.slots() {
            if let Some(position) = self.position(engine) {
                counts[position] += 1;
            }
        }
        counts
    }

    pub(crate) fn len(&self) -> usize {
        self.engines.len()
    }

    pub(crate) fn terms(&self, position: usize) -> &EngineTerms {
        &self.terms[position]
    }

    pub(crate) fn engine(&self, position: usize) -> u16 {
        self.engines[position].engine
    }

    /// Positions of the engines of `slots`, with [`Self::len`] for engines that are not candidates.
    #[expect(clippy::cast_possible_truncation, reason = "there are at most 65,535 candidates")]
    pub(crate) fn owners(&self, slots: &[u16]) -> Vec<u16> {
        let gone = self.len() as u16;
        slots.iter().map(|&engine| self.position(engine).map_or(gone, |position| position as u16)).collect()
    }
}

impl EngineTerms {
    pub(crate) fn new(key: EngineKey) -> Self {
        Self { permutation: Permutation::new(key), tie_factor: key.derive(77) | 1 }
    }
}

/// Weights that sum to 2^32, in proportion to `parts` and within one unit of it: the whole units first, those that are
/// left to the largest remainders, ties to the lowest key. All parts 0 gives equal weights. In the order given.
///
/// Fails when there is no part, or when the parts' sum exceeds 64 bits.
pub fn apportion(parts: &[(EngineKey, u64)]) -> Option<Vec<u64>> {
    let total = parts.iter().try_fold(0_u64, |sum, &(_, part)| sum.checked_add(part))?;
    let equal = total == 0;
    let total = if equal { parts.len() as u64 } else { total };
    if total == 0 {
        return None;
    }
    let scaled = |part| u128::from(if equal { 1 } else { part }) * u128::from(WEIGHT_ONE);
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a part is at most the total, so its weight is at most 2^32"
    )]
    let mut weights: Vec<u64> =
        parts.iter().map(|&(_, part)| (scaled(part) / u128::from(total)) as u64).collect();
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_unstable_by_key(|&i| (core::cmp::Reverse(scaled(parts[i].1) % u128::from(total)), parts[i].0));
    let missing = WEIGHT_ONE - weights.iter().sum::<u64>();
    for &i in order.iter().take(usize::try_from(missing).ok()?) {
        weights[i] += 1;
    }
    Some(weights)
}

/// The same number of slots in a list as in `table`.
pub(crate) fn same_length(table: &SlotTable, list: &[u16]) -> Result<(), SizeMismatch> {
    table.size().check(list.len())
}

impl fmt::Display for CandidatesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count { found } => write!(f, "{found} candidates where 1 to 65535 are allowed"),
            Self::SharedIndex { engine } => write!(f, "two candidates have the index {engine}"),
            Self::SharedKey { engines: [one, other] } => {
                write!(f, "the candidates with the indexes {one} and {other} have the same key")
            }
            Self::WeightSum { found } => write!(f, "weights sum to {found} where {WEIGHT_ONE} is expected"),
        }
    }
}

impl core::error::Error for CandidatesError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(engine: u16, key: u64, weight: u64) -> Candidate {
        Candidate { engine, key: EngineKey(key), weight }
    }

    #[test]
    fn a_set_that_is_not_one_is_refused_with_the_reason() {
        let refused = |list: &[Candidate]| Candidates::new(list).err();
        let half = WEIGHT_ONE / 2;

        assert_eq!(refused(&[]), Some(CandidatesError::Count { found: 0 }));
        assert_eq!(
            refused(&[candidate(4, 1, half), candidate(4, 2, half)]),
            Some(CandidatesError::SharedIndex { engine: 4 })
        );
        assert_eq!(
            refused(&[candidate(4, 1, half), candidate(3, 1, half)]),
            Some(CandidatesError::SharedKey { engines: [3, 4] })
        );
        assert_eq!(
            refused(&[candidate(4, 1, half), candidate(3, 2, half - 1)]),
            Some(CandidatesError::WeightSum { found: (1 << 32) - 1 })
        );
        assert_eq!(
            refused(&[candidate(4, 1, u64::MAX), candidate(3, 2, u64::MAX)]),
            Some(CandidatesError::WeightSum { found: (1 << 65) - 2 })
        );
    }

    #[test]
    fn candidates_stand_in_the_order_of_their_keys() {
        let candidates = Candidates::new(&[candidate(1, 90, 0), candidate(7, 20, WEIGHT_ONE)]).unwrap();

        assert_eq!(candidates.position(7), Some(0));
        assert_eq!(candidates.position(1), Some(1));
        assert_eq!(candidates.position(2), None);
        assert_eq!(candidates.position(60_000), None);
    }

    #[test]
    fn apportioned_weights_sum_to_one_and_the_largest_remainder_is_rounded_up() {
        let parts = [(EngineKey(3), 1), (EngineKey(2), 1), (EngineKey(1), 1)];

        // 2^32 / 3 = 1,431,655,765 and a third: the lowest key gets the unit that is left.
        assert_eq!(apportion(&parts), Some(vec![1_431_655_765, 1_431_655_765, 1_431_655_766]));
    }

    #[test]
    fn parts_that_are_all_zero_count_alike_and_too_large_ones_are_refused() {
        let half = 1 << 31;

        assert_eq!(apportion(&[(EngineKey(1), 0), (EngineKey(2), 0)]), Some(vec![half, half]));
        assert_eq!(apportion(&[(EngineKey(1), u64::MAX), (EngineKey(2), 1)]), None);
        assert_eq!(apportion(&[]), None);
        assert_eq!(apportion(&[(EngineKey(1), u64::MAX)]), Some(vec![WEIGHT_ONE]));
    }
}
