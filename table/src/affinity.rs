//! How much an engine likes a slot: a fixed score that weights do not touch.
use alloc::vec::Vec;

use crate::TableSize;
use crate::candidates::EngineTerms;
use crate::logarithm::{FRACTION_BITS, ln};

/// Bits of a score that tell apart engines for which a slot has the same rank.
const TIE_BITS: u32 = 20;

/// The scores of the ranks in tables of one size. Building it costs two logarithms a slot, so it is made once and kept;
/// it takes 4 bytes a slot.
///
/// The score of rank `k` of `M` is a quantile of the Gumbel distribution, `-ln(-ln(1 - (k + 1/2) / M))`. With it, the
/// engine with the largest `score + ln weight` is distributed over the slots as the weights are (the Gumbel-max
/// trick, the same law as weighted rendezvous hashing's `-ln(u) / w`).
#[derive(Clone, Debug)]
pub struct Affinity {
    size: TableSize,
    /// By rank, falling, in units of 2^-24.
    scores: Vec<i32>,
}

impl Affinity {
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "scores lie between -3 and 14 in units of 2^-24")]
    #[expect(clippy::cast_sign_loss, reason = "1 - u is below 1, so its logarithm is negative")]
    pub fn new(size: TableSize) -> Self {
        let twice = 2 * size.slots() as u64;
        let (whole, one) = (ln(twice), ln(1 << FRACTION_BITS));
        let score = |rank| {
            let exponential = whole - ln(twice - 2 * rank - 1);
            ((one - ln(exponential as u64)) >> TIE_BITS) as i32
        };
        Self { size, scores: (0..size.slots() as u64).map(score).collect() }
    }

    #[must_use]
    pub fn size(&self) -> TableSize {
        self.size
    }

    /// The slot at `rank` in the order of an engine.
    #[inline]
    pub(crate) fn slot(&self, engine: &EngineTerms, rank: u32) -> u32 {
        engine.permutation.slot(rank, self.size)
    }

    /// The affinity of an engine for a slot whose rank is known, in units of 2^-44.
    #[inline]
    #[expect(clippy::cast_possible_wrap, reason = "twenty bits")]
    pub(crate) fn at_rank(&self, engine: &EngineTerms, rank: u32, slot: u32) -> i64 {
        let tie = u64::from(slot + 1).wrapping_mul(engine.tie_factor) >> (64 - TIE_BITS);
        (i64::from(self.scores[rank as usize]) << TIE_BITS) | tie as i64
    }

    /// The affinity of an engine for a slot, in units of 2^-44.
    #[inline]
    pub(crate) fn of(&self, engine: &EngineTerms, slot: u32) -> i64 {
        self.at_rank(engine, engine.permutation.rank(slot, self.size), slot)
    }

    /// What no affinity at `rank` or a later one exceeds.
    pub(crate) fn bound(&self, rank: u32) -> i64 {
        (i64::from(self.scores[rank as usize]) + 1) << TIE_BITS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EngineKey;

    #[test]
    fn scores_are_the_gumbel_quantiles_of_their_ranks() {
        let affinity = Affinity::new(TableSize::new(12).unwrap());

        for (rank, &score) in affinity.scores.iter().enumerate() {
            let quantile = (rank as f64 + 0.5) / 4096.0;
            let wanted = -(-(1.0 - quantile).ln()).ln();
            assert!((f64::from(score) / 2_f64.powi(24) - wanted).abs() < 1e-6, "rank {rank}");
        }
    }

    #[test]
    fn affinities_are_those_of_a_model_with_exact_logarithms() {
        let affinity = Affinity::new(TableSize::new(6).unwrap());
        let of = |id| {
            let engine = EngineTerms::new(EngineKey::of(id));
            [0, 1, 17, 63].map(|slot| affinity.of(&engine, slot))
        };

        let tokyo = [9_301_594_413_540, -3_037_565_930_551, 21_289_135_231_511, 14_717_264_754_998];
        let paris = [42_389_132_823_466, -13_416_925_718_699, 25_334_085_669_377, 39_301_114_161_838];
        assert_eq!(of("tokyo-1"), tokyo);
        assert_eq!(of("paris-1"), paris);
    }

    #[test]
    fn a_better_rank_never_scores_less() {
        for bits in [1, 4, 16, 18] {
            let affinity = Affinity::new(TableSize::new(bits).unwrap());

            assert!(affinity.scores.is_sorted_by(|better, worse| better > worse));
        }
    }
}
