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

/// What a pair of slot and taker costs over a rank of a taker's order: every pair becomes an offer, while most ranks
/// lead to a slot that nobody gives.
const PAIR_COST: u64 = 3;

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
                let gain = Reverse(self.value(slot, usize::from(taker)) - self.kept(slot, giver));
                offers.push(Offer { gain, slot, taker, giver });
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
            let pairs = self.slots_to_give() * self.takers().len() as u64;
            if pairs * PAIR_COST <= self.cost_of_orders(&seen, &reach) {
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
                    let value = self.affinity.at_rank(terms, rank, slot) + self.prices[taker];
                    let gain = Reverse(value - self.kept(slot, giver));
                    offers.push(Offer { gain, slot, taker: taker as u16, giver });
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
            let kept = self.kept(slot, giver);
            for &taker in &takers {
                let gain = Reverse(self.value(slot, taker) - kept);
                offers.push(Offer { gain, slot, taker: taker as u16, giver });
            }
        }
        offers
    }

    /// What an engine makes of a slot.
    #[inline]
    fn value(&self, slot: u32, position: usize) -> i64 {
        self.affinity.of(self.candidates.terms(position), slot) + self.prices[position]
    }

    /// What the slot's present engine makes of it: nothing, if it leaves.
    #[inline]
    fn kept(&self, slot: u32, giver: u16) -> i64 {
        let giver = usize::from(giver);
        if self.quotas[giver] == 0 { 0 } else { self.value(slot, giver) }
    }

    /// Accepts offers, best first, while giver and taker want them. Sorts only as many as are likely to be looked at.
    fn take(&mut self, mut offers: Vec<Offer>) {
        while self.left > 0 && !offers.is_empty() {
            let best = FEW.max(2 * self.left as usize);
            if offers.len() > best {
                offers.select_nth_unstable(best);
            }
            let head = best.min(offers.len());
            offers[..head].sort_unstable();
            for offer in &offers[..head] {
                self.accept(offer);
            }
            // What was looked at is accepted or not wanted, and neither changes again.
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

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;
    use crate::{Candidate, EngineKey, TableSize, apportion};

    fn setup(parts: &[u64]) -> Candidates {
        let parts: Vec<(EngineKey, u64)> =
            (0_u16..).zip(parts).map(|(i, &part)| (EngineKey::of(&i.to_string()), part)).collect();
        let weights = apportion(&parts).unwrap();
        let list: Vec<Candidate> = (0..)
            .zip(parts.iter().zip(weights))
            .map(|(engine, (&(key, _), weight))| Candidate { engine, key, weight })
            .collect();
        Candidates::new(&list).unwrap()
    }

    /// Again and again the best of all moves that the quotas allow, by looking at every pair of slot and engine.
    #[expect(clippy::cast_possible_truncation, reason = "tiny tables")]
    fn by_hand(
        affinity: &Affinity,
        candidates: &Candidates,
        quotas: &[u32],
        mut owners: Vec<u16>,
    ) -> Vec<u32> {
        let count =
            |owners: &[u16], engine: usize| owners.iter().filter(|&&o| usize::from(o) == engine).count();
        let value = |engine: usize, slot: u32| {
            if quotas[engine] == 0 {
                return 0;
            }
            affinity.of(candidates.terms(engine), slot) + ln(u64::from(quotas[engine]))
        };
        let mut moved = Vec::new();
        loop {
            let over = |engine: usize| count(&owners, engine) > quotas[engine] as usize;
            let under = |engine: usize| count(&owners, engine) < quotas[engine] as usize;
            let pairs = (0..owners.len()).flat_map(|slot| (0..quotas.len()).map(move |taker| (slot, taker)));
            let best = pairs
                .filter(|&(slot, taker)| over(usize::from(owners[slot])) && under(taker))
                .min_by_key(|&(slot, taker)| {
                    let gain = value(taker, slot as u32) - value(usize::from(owners[slot]), slot as u32);
                    (Reverse(gain), slot, taker)
                });
            let Some((slot, taker)) = best else { return moved };
            owners[slot] = taker as u16;
            moved.push(slot as u32);
        }
    }

    #[test]
    fn moves_are_made_in_the_order_of_what_they_gain() {
        // Small enough for every order to be seen to its end in the first round.
        let affinity = Affinity::new(TableSize::new(6).unwrap());
        let candidates = setup(&[1, 2, 3, 4, 0]);
        let size = affinity.size();
        for (owners, quotas) in [
            (std::vec![0_u16; 64], [10, 20, 30, 4, 0]),
            ((0..64).map(|slot| slot % 5).collect(), [13, 13, 13, 12, 13]),
            ((0..64).map(|slot| slot % 5).collect(), [0, 0, 1, 63, 0]),
            ((0..64).map(|slot| slot / 32).collect(), [16, 16, 16, 0, 16]),
        ] {
            let wanted = by_hand(&affinity, &candidates, &quotas, owners.clone());

            let quotas = Quotas::new(&candidates, size, quotas.to_vec()).unwrap();
            let (moves, _) = Greedy::new(&affinity, &candidates, &quotas, owners).finish();

            assert_eq!(moves.iter().map(|change| change.slot).collect::<Vec<_>>(), wanted);
        }
    }
}
