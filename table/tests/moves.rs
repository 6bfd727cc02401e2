//! What holds for every table: exact quotas, the least number of moves, and independence of order and indexes.
use penstock_table::{
    Affinity, Candidate, Candidates, DeadBand, EngineKey, Quotas, SlotTable, TableSize, WEIGHT_ONE, advance,
    advance_preferring, apportion, canonical, carry_fallbacks, fallbacks, quotas,
};
use proptest::prelude::*;

/// Candidates with the ids `e0`, `e1`, ... and the indexes 10, 11, ...; engines of part `None` are left out.
fn candidates(parts: &[Option<u64>]) -> Candidates {
    let present: Vec<(u16, EngineKey, u64)> = (0..)
        .zip(parts)
        .filter_map(|(number, part)| {
            part.map(|part| (10 + number, EngineKey::of(&format!("e{number}")), part))
        })
        .collect();
    let weights = apportion(&present.iter().map(|&(_, key, part)| (key, part)).collect::<Vec<_>>()).unwrap();
    let list: Vec<Candidate> = present
        .iter()
        .zip(weights)
        .map(|(&(engine, key, _), weight)| Candidate { engine, key, weight })
        .collect();
    Candidates::new(&list).unwrap()
}

fn rounded(candidates: &Candidates, counts: &[u32], size: TableSize) -> Quotas {
    quotas(candidates, counts, size, DeadBand::OFF).unwrap()
}

fn start(affinity: &Affinity, candidates: &Candidates) -> SlotTable {
    let none = vec![0; candidates.as_slice().len()];
    canonical(affinity, candidates, &rounded(candidates, &none, affinity.size())).unwrap()
}

/// Slots of engines that have more than their quota, with those of engines that are no candidates.
fn surplus(table: &SlotTable, candidates: &Candidates, quotas: &Quotas) -> usize {
    let counts = candidates.counts(table);
    let over: u32 =
        counts.iter().zip(quotas.as_slice()).map(|(count, quota)| count.saturating_sub(*quota)).sum();
    let gone = table.slots().len() as u32 - counts.iter().sum::<u32>();
    (over + gone) as usize
}

/// Parts of a fleet before and after a change: 1 to 24 engines, some without weight, some absent.
fn change() -> impl Strategy<Value = (Vec<Option<u64>>, Vec<Option<u64>>)> {
    let part = prop_oneof![1 => Just(None), 1 => Just(Some(0)), 6 => (1..1_000_000_u64).prop_map(Some)];
    let fleet = prop::collection::vec((part.clone(), part), 1..24);
    fleet.prop_map(|pairs| pairs.into_iter().unzip::<_, _, Vec<_>, Vec<_>>()).prop_filter(
        "no engine with weight",
        |(old, new)| {
            let weighted = |parts: &[Option<u64>]| parts.iter().any(|part| part.is_some_and(|part| part > 0));
            weighted(old) && weighted(new)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn quotas_are_weights_rounded_down_or_up((old, new) in change(), bits in 1_u32..=10) {
        let size = TableSize::new(bits).unwrap();
        let (old, new) = (candidates(&old), candidates(&new));
        let before = start(&Affinity::new(size), &old);

        let found = rounded(&new, &new.counts(&before), size);

        for (candidate, &quota) in new.as_slice().iter().zip(found.as_slice()) {
            let exact = candidate.weight * size.slots() as u64;
            let error = exact.abs_diff(u64::from(quota) * WEIGHT_ONE);
            prop_assert!(error < WEIGHT_ONE, "quota {quota} for weight {}", candidate.weight);
        }
        prop_assert_eq!(found.as_slice().iter().sum::<u32>() as usize, size.slots());
    }

    #[test]
    fn exactly_the_surplus_moves_and_every_step_on_the_way_is_valid((old, new) in change(), bits in 1_u32..=10) {
        let affinity = Affinity::new(TableSize::new(bits).unwrap());
        let (old, new) = (candidates(&old), candidates(&new));
        let mut table = start(&affinity, &old);
        let quotas = rounded(&new, &new.counts(&table), affinity.size());
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
    fn a_preference_changes_who_takes_but_not_how_much_moves((old, new) in change(), seed in any::<u64>()) {
        let affinity = Affinity::new(TableSize::new(8).unwrap());
        let (old, new) = (candidates(&old), candidates(&new));
        let mut table = start(&affinity, &old);
        let quotas = rounded(&new, &new.counts(&table), affinity.size());
        let preferred: Vec<u16> = (0..256_u64).map(|slot| 10 + (seed.rotate_left(slot as u32) % 24) as u16).collect();
        let wanted = surplus(&table, &new, &quotas);

        let moves = advance_preferring(&affinity, &table, &new, &quotas, &preferred).unwrap();
        table.apply(&moves).unwrap();

        prop_assert_eq!(moves.len(), wanted);
        prop_assert_eq!(new.counts(&table), quotas.as_slice());
    }

    #[test]
    fn the_order_of_candidates_and_their_indexes_change_nothing((old, new) in change(), turn in 0_usize..24) {
        let affinity = Affinity::new(TableSize::new(8).unwrap());
        let renamed = |candidates: &Candidates| {
            let mut list = candidates.as_slice().to_vec();
            list.iter_mut().for_each(|candidate| candidate.engine = 999 - candidate.engine);
            list.rotate_left(turn % candidates.as_slice().len());
            Candidates::new(&list).unwrap()
        };
        let run = |old: &Candidates, new: &Candidates| {
            let before = start(&affinity, old);
            let moves = advance(&affinity, &before, new, &rounded(new, &new.counts(&before), affinity.size()));
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
