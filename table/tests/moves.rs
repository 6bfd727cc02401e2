//! What holds for every table: exact quotas, the least number of moves, and independence of order and indexes.
#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "tests; tables have at most 2^18 slots"
)]
mod fleet;

use fleet::{candidates, change, exact, start};
use penstock_table::{
    Affinity, Candidates, Quotas, SlotTable, TableSize, WEIGHT_ONE, advance, advance_preferring,
    carry_fallbacks, fallbacks,
};
use proptest::prelude::*;

/// Slots of engines that have more than their quota, with those of engines that are no candidates.
fn surplus(table: &SlotTable, candidates: &Candidates, quotas: &Quotas) -> usize {
    let counts = candidates.counts(table);
    let over: u32 =
        counts.iter().zip(quotas.as_slice()).map(|(count, quota)| count.saturating_sub(*quota)).sum();
    let gone = table.slots().len() as u32 - counts.iter().sum::<u32>();
    (over + gone) as usize
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn quotas_are_weights_rounded_down_or_up((old, new) in change(24), bits in 1_u32..=10) {
        let size = TableSize::new(bits).unwrap();
        let (old, new) = (candidates(&old), candidates(&new));
        let before = start(&Affinity::new(size), &old);

        let found = exact(&new, &new.counts(&before), size);

        for (candidate, &quota) in new.as_slice().iter().zip(found.as_slice()) {
            let exact = candidate.weight * size.slots() as u64;
            let error = exact.abs_diff(u64::from(quota) * WEIGHT_ONE);
            prop_assert!(error < WEIGHT_ONE, "quota {quota} for weight {}", candidate.weight);
        }
        prop_assert_eq!(found.as_slice().iter().sum::<u32>() as usize, size.slots());
    }

    #[test]
    fn exactly_the_surplus_moves_and_every_step_on_the_way_is_valid((old, new) in change(24), bits in 1_u32..=10) {
        let affinity = Affinity::new(TableSize::new(bits).unwrap());
        let (old, new) = (candidates(&old), candidates(&new));
        let mut table = start(&affinity, &old);
        let quotas = exact(&new, &new.counts(&table), affinity.size());
        let wanted = surplus(&table, &new, &quotas);

        let moves = advance(&affinity, &table, &new, &quotas).unwrap();

        prop_assert_eq!(moves.len(), wanted);
        for change in &moves {
            prop_assert_ne!(table.slots()[change.slot as usize], change.engine);
            let lost = new.position(table.slots()[change.slot as usize]);
            table.apply(&[*change]).unwrap();
            let counts = new.counts(&table);
            let gained = new.position(change.engine).unwrap();
            prop_assert!(counts[gained] <= quotas.as_slice()[gained]);
            prop_assert!(lost.is_none_or(|lost| counts[lost] >= quotas.as_slice()[lost]));
        }
        prop_assert_eq!(new.counts(&table), quotas.as_slice());
    }

    #[test]
    fn a_preference_changes_who_takes_but_not_how_much_moves((old, new) in change(24), seed in any::<u64>()) {
        let affinity = Affinity::new(TableSize::new(8).unwrap());
        let (old, new) = (candidates(&old), candidates(&new));
        let mut table = start(&affinity, &old);
        let quotas = exact(&new, &new.counts(&table), affinity.size());
        let preferred: Vec<u16> = (0..256_u64).map(|slot| 10 + (seed.rotate_left(slot as u32) % 24) as u16).collect();
        let wanted = surplus(&table, &new, &quotas);

        let moves = advance_preferring(&affinity, &table, &new, &quotas, &preferred).unwrap();
        table.apply(&moves).unwrap();

        prop_assert_eq!(moves.len(), wanted);
        prop_assert_eq!(new.counts(&table), quotas.as_slice());
    }

    #[test]
    fn the_order_of_candidates_and_their_indexes_change_nothing((old, new) in change(24), turn in 0_usize..24) {
        let affinity = Affinity::new(TableSize::new(8).unwrap());
        let renamed = |candidates: &Candidates| {
            let mut list = candidates.as_slice().to_vec();
            list.iter_mut().for_each(|candidate| candidate.engine = 999 - candidate.engine);
            list.rotate_left(turn % candidates.as_slice().len());
            Candidates::new(&list).unwrap()
        };
        let run = |old: &Candidates, new: &Candidates| {
            let before = start(&affinity, old);
            let moves = advance(&affinity, &before, new, &exact(new, &new.counts(&before), affinity.size()));
            let mut after = before.clone();
            after.apply(&moves.unwrap()).unwrap();
            let first = fallbacks(&before, old);
            let second = carry_fallbacks(&before, &first, &after, new).unwrap();
            [before.into_slots(), after.into_slots(), first, second]
        };
        let (old, new) = (candidates(&old), candidates(&new));

        let plain = run(&old, &new);
        let other = run(&renamed(&old), &renamed(&new));

        prop_assert_eq!(plain, other.map(|slots| slots.into_iter().map(|engine| 999 - engine).collect::<Vec<_>>()));
    }
}
