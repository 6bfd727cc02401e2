//! A keyed order of the slots for each engine.
use crate::{EngineKey, TableSize};

const ROUNDS: usize = 4;

/// A bijection between ranks and slots: rounds of an odd multiplier, an addition and a folding of the upper half into
/// the lower one, each of which can be undone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permutation {
    factor: [u32; ROUNDS],
    addend: [u32; ROUNDS],
    inverse: [u32; ROUNDS],
}

impl Permutation {
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of a hash")]
    pub(crate) fn new(key: EngineKey) -> Self {
        let hashes: [u64; ROUNDS] = core::array::from_fn(|round| key.derive(0x1000 + round as u64));
        let factor = hashes.map(|hash| hash as u32 | 1);
        Self { factor, addend: hashes.map(|hash| (hash >> 32) as u32), inverse: factor.map(inverse_of_odd) }
    }

    /// The slot at `rank`, 0 being the one that the engine likes best.
    #[inline]
    pub(crate) fn slot(&self, rank: u32, size: TableSize) -> u32 {
        let (mask, half) = (size.mask(), size.bits().div_ceil(2));
        let mut value = rank;
        for round in 0..ROUNDS {
            value = value.wrapping_mul(self.factor[round]).wrapping_add(self.addend[round]) & mask;
            value ^= value >> half;
        }
        value
    }

    /// The rank of `slot`.
    #[inline]
    pub(crate) fn rank(&self, slot: u32, size: TableSize) -> u32 {
        let (mask, half) = (size.mask(), size.bits().div_ceil(2));
        let mut value = slot;
        for round in (0..ROUNDS).rev() {
            // Folding at half the width or more is its own inverse.
            value ^= value >> half;
            value = value.wrapping_sub(self.addend[round]).wrapping_mul(self.inverse[round]) & mask;
        }
        value
    }
}

/// The multiplicative inverse modulo 2^32, by Newton's iteration: an odd number is its own inverse modulo 8, and every
/// step doubles the bits that are right.
fn inverse_of_odd(odd: u32) -> u32 {
    let mut inverse = odd;
    for _ in 0..4 {
        inverse = inverse.wrapping_mul(2_u32.wrapping_sub(odd.wrapping_mul(inverse)));
    }
    inverse
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn every_rank_has_a_slot_of_its_own_and_finds_its_way_back() {
        for bits in [1, 2, 3, 8, 13, 16] {
            let size = TableSize::new(bits).unwrap();
            for id in ["a", "b", "a much longer id of an engine"] {
                let permutation = Permutation::new(EngineKey::of(id));
                let mut seen = vec![false; size.slots()];

                for rank in 0..=size.mask() {
                    let slot = permutation.slot(rank, size);
                    assert!(!seen[slot as usize], "slot {slot} comes twice");
                    seen[slot as usize] = true;
                    assert_eq!(permutation.rank(slot, size), rank);
                }
            }
        }
    }

    #[test]
    fn two_engines_share_no_more_of_their_best_slots_than_chance_gives() {
        // Of the best 4,096 slots of 65,536 each, two independent orders share 256 on average; 6 sigma is 90.
        let size = TableSize::new(16).unwrap();
        for (one, other) in [("e1", "e2"), ("e1", "e3"), ("site-a/7", "site-a/8"), ("x", "y")] {
            let (one, other) = (Permutation::new(EngineKey::of(one)), Permutation::new(EngineKey::of(other)));

            let shared = (0..4096).filter(|&rank| other.rank(one.slot(rank, size), size) < 4096).count();

            assert!((166..346).contains(&shared), "{shared} slots shared");
        }
    }
}
