//! The state of one guided minimal move: who gives, who takes, and what a slot's change of engine gains.
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::logarithm::ln;
use crate::{Affinity, Candidates, Move, Quotas};

/// How far down its order an engine looks for slots, in multiples of its quota, round after round.
const WIDENINGS: [u64; 3] = [3, 9, 27];
/// Below this many offers, sorting them all is cheaper than selecting the best.
const FEW: usize = 512;

/// A possible move. The order is the order of moving: largest gain first, ties by slot, then by the taker's key.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Offer {
    gain: Reverse<i64>,
    slot: u32,
    /// Positions among the candidates.
    taker: u16,
    giver: u16,
}

/// A move in the making. Engines are positions among the candidates; the one past the last stands for every engine
/// that is no candidate any more.
pub(crate) struct Greedy<'a> {
    affinity: &'a Affinity,
    candidates: &'a Candidates,
    /// Quota by position, 0 for the engines that are gone.
    quotas: Vec<u32>,
    /// ln(quota) by position, in the units of affinities; 0 where the quota is 0, as nothing is compared with it.
    prices: Vec<i64>,
    pub(crate) owners: Vec<u16>,
    surplus: Vec<u32>,
    deficit: Vec<u32>,
    left: u32,
    moves: Vec<Move>,
}

impl<'a> Greedy<'a> {
    pub(crate) fn new(
        affinity: &'a Affinity,
        candidates: &'a Candidates,
        quotas: &Quotas,
        owners: Vec<u16>,
    ) -> Self {
        let mut all = quotas.as_slice().to_vec();
        all.push(0);
        let mut counts = vec![0_u32; all.len()];
        for &owner in &owners {
            counts[usize::from(owner)] += 1;
        }
        let difference = |from: &[u32], to: &[u32]| -> Vec<u32> {
            from.iter().zip(to).map(|(from, to)| from.saturating_sub(*to)).collect()
        };
        let (surplus, deficit) = (difference(&counts, &all), difference(&all, &counts));
        let left = surplus.iter().sum();
        let prices = prices(&all);
        Self { affinity, candidates, quotas: all, prices, owners, surplus, deficit, left, moves: Vec::new() }
    }

    /// Moves slots to the engines that `preferred` names (positions), as far as the quotas allow it.
    pub(crate) fn prefer(&mut self, preferred: &[u16]) {
        let mut offers = Vec::new();
        for (slot, (&giver, &taker)) in (0..).zip(self.owners.iter().zip(preferred)) {
            if self.surplus[usize::from(giver)] > 0 && self.deficit[usize::from(taker)] > 0 {
                let affinity = self.affinity.of(self.candidates.terms(usize::from(taker)), slot);
                offers.push(self.offer(slot, giver, taker, affinity));
            }
        }
        self.take(offers);
    }

    /// Moves slots until every engine has its quota, and returns all moves in the order in which they were made.
    pub(crate) fn finish(mut self) -> (Vec<Move>, Vec<u16>) {
        let mut seen = vec![0; self.candidates.len()];
        for widening in WIDENINGS {
            if self.left == 0 {
                break;
            }
            let reach = self.reach(widening);
            if self.slots_to_give() * self.takers().len() as u64 <= self.cost_of_orders(&seen, &reach) {
                break;
            }
            let offers = self.offers_of_takers(&mut seen, &reach);
            self.take(offers);
        }
        if self.left > 0 {
            let offers = self.offers_of_givers();
            self.take(offers);
        }
        (self.moves, self.owners)
    }

    fn takers(&self) -> Vec<usize> {
        (0..self.candidates.len()).filter(|&position| self.deficit[position] > 0).collect()
    }

    /// Slots that belong to an engine with a surplus.
    fn slots_to_give(&self) -> u64 {
        self.owners.iter().filter(|&&owner| self.surplus[usize::from(owner)] > 0).count() as u64
    }

    /// Ranks at which each engine stops looking: a multiple of its quota and twice its standard deviation.
    fn reach(&self, widening: u64) -> Vec<u32> {
        self.quotas.iter().map(|&quota| reach(quota, widening, self.affinity)).collect()
    }

    fn cost_of_orders(&self, seen: &[u32], reach: &[u32]) -> u64 {
        self.takers().into_iter().map(|taker| u64::from(reach[taker].saturating_sub(seen[taker]))).sum()
    }

    /// Looks along the orders of the takers, from where the round before ended.
    #[expect(clippy::cast_possible_truncation, reason = "there are at most 65,535 candidates")]
    fn offers_of_takers(&self, seen: &mut [u32], reach: &[u32]) -> Vec<Offer> {
        let mut offers = Vec::new();
        for taker in self.takers() {
            let terms = self.candidates.terms(taker);
            for rank in seen[taker]..reach[taker] {
                let slot = self.affinity.slot(terms, rank);
                let giver = self.owners[slot as usize];
                if self.surplus[usize::from(giver)] > 0 {
                    offers.push(self.offer(
                        slot,
                        giver,
                        taker as u16,
                        self.affinity.at_rank(terms, rank, slot),
                    ));
                }
            }
            seen[taker] = seen[taker].max(reach[taker]);
        }
        offers
    }

    /// Looks at every pair of a slot that may be given and an engine that lacks slots.
    #[expect(clippy::cast_possible_truncation, reason = "there are at most 65,535 candidates")]
    fn offers_of_givers(&self) -> Vec<Offer> {
        let takers = self.takers();
        let mut offers = Vec::new();
        for (slot, &giver) in (0..).zip(&self.owners) {
            if self.surplus[usize::from(giver)] == 0 {
                continue;
            }
            for &taker in &takers {
                let affinity = self.affinity.of(self.candidates.terms(taker), slot);
                offers.push(self.offer(slot, giver, taker as u16, affinity));
            }
        }
        offers
    }

    #[inline]
    fn offer(&self, slot: u32, giver: u16, taker: u16, affinity: i64) -> Offer {
        let from = usize::from(giver);
        let kept = if self.quotas[from] == 0 {
            0
        } else {
            self.affinity.of(self.candidates.terms(from), slot) + self.prices[from]
        };
        Offer { gain: Reverse(affinity + self.prices[usize::from(taker)] - kept), slot, taker, giver }
    }

    /// Accepts offers, best first, while giver and taker want them. Sorts only as many as are likely to be looked at.
    fn take(&mut self, mut offers: Vec<Offer>) {
        while self.left > 0 && !offers.is_empty() {
            let best = FEW.max(2 * self.left as usize);
            let rest = if offers.len() > best {
                offers.select_nth_unstable(best - 1);
                offers.split_off(best)
            } else {
                Vec::new()
            };
            offers.sort_unstable();
            for offer in &offers {
                self.accept(offer);
            }
            offers = rest;
            offers.retain(|offer| self.wanted(offer));
        }
    }

    fn wanted(&self, offer: &Offer) -> bool {
        self.surplus[usize::from(offer.giver)] > 0
            && self.deficit[usize::from(offer.taker)] > 0
            && self.owners[offer.slot as usize] == offer.giver
    }

    fn accept(&mut self, offer: &Offer) {
        if !self.wanted(offer) {
            return;
        }
        self.surplus[usize::from(offer.giver)] -= 1;
        self.deficit[usize::from(offer.taker)] -= 1;
        self.left -= 1;
        self.owners[offer.slot as usize] = offer.taker;
        self.moves.push(Move { slot: offer.slot, engine: self.candidates.engine(usize::from(offer.taker)) });
    }
}

/// ln(quota) of each engine with a quota.
pub(crate) fn prices(quotas: &[u32]) -> Vec<i64> {
    quotas.iter().map(|&quota| if quota == 0 { 0 } else { ln(u64::from(quota)) }).collect()
}

/// Number of ranks that hold `widening` times the quota and twice its standard deviation.
#[expect(clippy::cast_possible_truncation, reason = "cut to the number of slots")]
pub(crate) fn reach(quota: u32, widening: u64, affinity: &Affinity) -> u32 {
    let quota = u64::from(quota);
    (widening * (quota + 2 * quota.isqrt() + 1) + 16).min(affinity.size().slots() as u64) as u32
}
