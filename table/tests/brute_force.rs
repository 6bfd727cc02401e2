//! Tiny tables against every possibility.
#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "tests; tables have at most 2^18 slots"
)]
mod fleet;

use fleet::{candidates, change, exact, start};
use penstock_table::{Affinity, DeadBand, TableSize, WEIGHT_ONE, advance, quotas};
use proptest::prelude::*;

const BITS: u32 = 3;
const SLOTS: usize = 1 << BITS;

/// Every vector of as many counts as `most`, each at most that, with the sum 8.
fn vectors(most: &[u32]) -> Vec<Vec<u32>> {
    let mut found = vec![Vec::new()];
    for &most in most {
        found =
            found.iter().flat_map(|prefix| (0..=most).map(|last| [prefix, &[last][..]].concat())).collect();
    }
    found.retain(|vector| vector.iter().sum::<u32>() as usize == SLOTS);
    found
}

fn distance(one: &[u32], other: &[u32]) -> u32 {
    one.iter().zip(other).map(|(one, other)| one.abs_diff(*other)).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_rounding_within_a_slot_of_the_weights_is_closer_to_the_counts((old, new) in change(5)) {
        let size = TableSize::new(BITS).unwrap();
        let (old, new) = (candidates(&old), candidates(&new));
        let counts = new.counts(&start(&Affinity::new(size), &old));

        let found = exact(&new, &counts, size);

        let weights = || new.as_slice().iter().map(|candidate| candidate.weight * SLOTS as u64);
        let ceilings: Vec<u32> = weights().map(|weight| weight.div_ceil(WEIGHT_ONE) as u32).collect();
        let floors: Vec<u32> = weights().map(|weight| (weight / WEIGHT_ONE) as u32).collect();
        let least = vectors(&ceilings)
            .into_iter()
            .filter(|vector| vector.iter().zip(&floors).all(|(quota, floor)| quota >= floor))
            .map(|vector| distance(&vector, &counts))
            .min();
        prop_assert_eq!(Some(distance(found.as_slice(), &counts)), least);
    }

    #[test]
    fn no_table_with_the_quotas_is_closer((old, new) in change(4)) {
        let affinity = Affinity::new(TableSize::new(BITS).unwrap());
        let (old, new) = (candidates(&old), candidates(&new));
        let table = start(&affinity, &old);
        let quotas = exact(&new, &new.counts(&table), affinity.size());

        let moves = advance(&affinity, &table, &new, &quotas).unwrap();

        let engines = new.as_slice().len();
        let least = (0..engines.pow(SLOTS as u32))
            .map(|number| (0..SLOTS as u32).map(|slot| number / engines.pow(slot) % engines).collect::<Vec<_>>())
            .filter(|owners| (0..engines).all(|engine| {
                owners.iter().filter(|&&owner| owner == engine).count() == quotas.as_slice()[engine] as usize
            }))
            .map(|owners| {
                let engine = |owner: &usize| new.as_slice()[*owner].engine;
                owners.iter().zip(table.slots()).filter(|(owner, old)| engine(owner) != **old).count()
            })
            .min();
        prop_assert_eq!(Some(moves.len()), least);
    }

    #[test]
    fn within_the_dead_band_nothing_moves_and_beyond_it_no_count_gets_worse((old, new) in change(12)) {
        let size = TableSize::new(10).unwrap();
        let (old, new) = (candidates(&old), candidates(&new));
        let counts = new.counts(&start(&Affinity::new(size), &old));
        let band = DeadBand::new(20).unwrap();

        let found = quotas(&new, &counts, size, band).unwrap();

        let gap = |weight: u64, count: u32| (weight * size.slots() as u64).abs_diff(u64::from(count) * WEIGHT_ONE);
        let held = |weight: u64, count| gap(weight, count) * 50 <= weight * size.slots() as u64;
        let pairs = || new.as_slice().iter().map(|candidate| candidate.weight).zip(&counts).zip(found.as_slice());
        if counts.iter().sum::<u32>() as usize == size.slots() && pairs().all(|((weight, &count), _)| held(weight, count)) {
            prop_assert_eq!(found.as_slice(), &counts[..]);
        }
        for ((weight, &count), &quota) in pairs() {
            prop_assert!(gap(weight, quota) < gap(weight, count).max(WEIGHT_ONE) + u64::from(quota == count));
        }
        prop_assert_eq!(found.as_slice().iter().sum::<u32>() as usize, size.slots());
    }
}
