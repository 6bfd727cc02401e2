//! The table that quotas alone give: for the start, and where the history is lost.
use alloc::vec;
use alloc::vec::Vec;

use crate::greedy::{Greedy, prices, reach};
use crate::{Affinity, Candidates, Quotas, SizeMismatch, SlotTable};

/// Multiple of its quota up to which an engine's order is looked at for every slot; the few slots that are not settled
/// by then look at all engines.
const DEPTH: u64 = 5;

/// The table without history: each slot to the engine with the largest `affinity + ln quota`, then a guided minimal
/// move to exact quotas. Depends on the candidates' keys and the quotas only.
pub fn canonical(
    affinity: &Affinity,
    candidates: &Candidates,
    quotas: &Quotas,
) -> Result<SlotTable, SizeMismatch> {
    affinity.size().check(quotas.size().slots())?;
    let owners = favourites(affinity, candidates, quotas);
    let (_, owners) = Greedy::new(affinity, candidates, quotas, owners).finish();
    let slots = owners.into_iter().map(|position| candidates.engine(usize::from(position))).collect();
    Ok(SlotTable::of_size(affinity.size(), slots))
}

/// Position of the engine with the largest `affinity + ln quota`, by slot.
#[expect(clippy::cast_possible_truncation, reason = "there are at most 65,535 candidates")]
fn favourites(affinity: &Affinity, candidates: &Candidates, quotas: &Quotas) -> Vec<u16> {
    let prices = prices(quotas.as_slice());
    let engines: Vec<usize> =
        (0..candidates.len()).filter(|&position| quotas.as_slice()[position] > 0).collect();
    let mut best = vec![i64::MIN; affinity.size().slots()];
    let mut owners = vec![0_u16; affinity.size().slots()];
    let mut offer = |slot: u32, position: usize, value: i64, best: &mut [i64]| {
        if value > best[slot as usize] {
            best[slot as usize] = value;
            owners[slot as usize] = position as u16;
        }
    };
    // No engine values a slot beyond the ranks looked at higher than this.
    let mut unseen = i64::MIN;
    for &position in &engines {
        let terms = candidates.terms(position);
        let depth = reach(quotas.as_slice()[position], DEPTH, affinity);
        for rank in 0..depth {
            let slot = affinity.slot(terms, rank);
            offer(slot, position, affinity.at_rank(terms, rank, slot) + prices[position], &mut best);
        }
        if (depth as usize) < affinity.size().slots() {
            unseen = unseen.max(affinity.bound(depth) + prices[position]);
        }
    }
    for slot in 0..=affinity.size().mask() {
        if best[slot as usize] < unseen {
            for &position in &engines {
                let value = affinity.of(candidates.terms(position), slot) + prices[position];
                offer(slot, position, value, &mut best);
            }
        }
    }
    owners
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;
    use crate::{Candidate, EngineKey, TableSize, WEIGHT_ONE};

    #[test]
    fn each_slot_first_goes_to_the_engine_that_values_it_most() {
        // Each order is looked at to a tenth of its length, so that about one slot in a thousand is seen by nobody.
        let affinity = Affinity::new(TableSize::new(12).unwrap());
        let mut quotas = vec![64; 62];
        quotas.extend([1, 3, 5, 7, 112]);
        let list: Vec<Candidate> = (0..67_u16)
            .map(|engine| Candidate {
                engine,
                key: EngineKey::of(&engine.to_string()),
                weight: if engine == 0 { WEIGHT_ONE } else { 0 },
            })
            .collect();
        let candidates = Candidates::new(&list).unwrap();
        let prices = prices(&quotas);

        let found =
            favourites(&affinity, &candidates, &Quotas::new(&candidates, affinity.size(), quotas).unwrap());

        for (slot, &position) in (0..).zip(&found) {
            let value = |position: usize| affinity.of(candidates.terms(position), slot) + prices[position];
            let wanted = (0..candidates.len()).max_by_key(|&position| value(position));
            assert_eq!(Some(usize::from(position)), wanted, "slot {slot}");
        }
    }
}
