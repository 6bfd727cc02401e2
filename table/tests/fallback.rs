//! Fallbacks: another engine for every slot, an even spread over the survivors, and no change without need.
#![expect(clippy::unwrap_used, reason = "tests")]
mod fleet;

use fleet::{candidates, change, exact, start};
use penstock_table::{
    Affinity, Candidates, SlotTable, TableSize, WEIGHT_ONE, advance, carry_fallbacks, even_fallbacks,
    fallbacks,
};
use proptest::prelude::*;

/// Engines with weight beside `engine`.
fn others_with_weight(candidates: &Candidates, engine: u16) -> usize {
    candidates.as_slice().iter().filter(|other| other.weight > 0 && other.engine != engine).count()
}

fn check_validity(
    table: &SlotTable,
    fallbacks: &[u16],
    candidates: &Candidates,
) -> Result<(), TestCaseError> {
    for (&engine, &fallback) in table.slots().iter().zip(fallbacks) {
        let position = candidates.position(fallback);
        prop_assert!(position.is_some(), "{} is no candidate", fallback);
        if candidates.as_slice().len() > 1 {
            prop_assert_ne!(engine, fallback);
        }
        if others_with_weight(candidates, engine) > 0 {
            prop_assert!(candidates.as_slice()[position.unwrap()].weight > 0);
        }
    }
    Ok(())
}

/// Slots that each engine serves after the failure of `gone`, in the order of the candidates.
fn loads(table: &SlotTable, fallbacks: &[u16], candidates: &Candidates, gone: u16) -> Vec<u64> {
    let mut loads = vec![0; candidates.as_slice().len()];
    for (&engine, &fallback) in table.slots().iter().zip(fallbacks) {
        loads[candidates.position(if engine == gone { fallback } else { engine }).unwrap()] += 1;
    }
    loads
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn after_one_failure_no_survivor_is_a_slot_above_its_weight((parts, _) in change(16), bits in 4_u32..=10) {
        let affinity = Affinity::new(TableSize::new(bits).unwrap());
        let candidates = candidates(&parts);
        let table = start(&affinity, &candidates);

        let found = fallbacks(&table, &candidates);

        check_validity(&table, &found, &candidates)?;
        for gone in candidates.as_slice() {
            let left = WEIGHT_ONE - gone.weight;
            if left == 0 {
                continue;
            }
            let loads = loads(&table, &found, &candidates, gone.engine);
            for (survivor, load) in candidates.as_slice().iter().zip(loads) {
                // load < weight / (1 - weight of the failed) * slots + 1, without a division; the units of 2^-32 slots
                // in which the dealing counts allow for a millionth.
                let due = u128::from(survivor.weight) * table.slots().len() as u128;
                let limit = due + u128::from(left) + u128::from(left >> 20) + 1;
                prop_assert!(
                    survivor.engine == gone.engine || u128::from(load * left) <= limit,
                    "load {} of weight {} after {} with weight {}", load, survivor.weight, gone.engine, gone.weight
                );
            }
        }
    }

    #[test]
    fn only_slots_that_moved_or_lost_their_fallback_get_another((old, new) in change(16), bits in 4_u32..=10) {
        let affinity = Affinity::new(TableSize::new(bits).unwrap());
        let (old, new) = (candidates(&old), candidates(&new));
        let table = start(&affinity, &old);
        let standing = fallbacks(&table, &old);
        let mut next = table.clone();
        let quotas = exact(&new, &new.counts(&table), affinity.size());
        next.apply(&advance(&affinity, &table, &new, &quotas).unwrap()).unwrap();

        let carried = carry_fallbacks(&table, &standing, &next, &new).unwrap();

        check_validity(&next, &carried, &new)?;
        for slot in 0..carried.len() {
            let useful = new.position(standing[slot]).is_some_and(|position| new.as_slice()[position].weight > 0);
            if table.slots()[slot] == next.slots()[slot] && useful && standing[slot] != next.slots()[slot] {
                prop_assert_eq!(carried[slot], standing[slot], "slot {}", slot);
            }
        }
    }

    #[test]
    fn evened_out_fallbacks_leave_no_survivor_far_above_its_weight((old, new) in change(16), bits in 4_u32..=12) {
        let affinity = Affinity::new(TableSize::new(bits).unwrap());
        let (old, new) = (candidates(&old), candidates(&new));
        let table = start(&affinity, &old);
        let mut next = table.clone();
        let quotas = exact(&new, &new.counts(&table), affinity.size());
        next.apply(&advance(&affinity, &table, &new, &quotas).unwrap()).unwrap();
        let carried = carry_fallbacks(&table, &fallbacks(&table, &old), &next, &new).unwrap();

        let evened = even_fallbacks(&next, &carried, &new).unwrap();

        check_validity(&next, &evened, &new)?;
        for gone in new.as_slice() {
            let left = u128::from(WEIGHT_ONE - gone.weight);
            let loads = loads(&next, &evened, &new, gone.engine);
            for (survivor, load) in new.as_slice().iter().zip(loads) {
                let slots = u128::from(survivor.weight) * next.slots().len() as u128;
                // One slot of rounding beside the tolerance: a slot or 1 % of the survivor's own.
                let tolerance = u128::from(WEIGHT_ONE).max(slots / 100) + u128::from(WEIGHT_ONE) + (1 << 13);
                let limit = slots + ((tolerance * left) >> 32);
                prop_assert!(
                    left == 0 || survivor.engine == gone.engine || u128::from(load) * left <= limit,
                    "load {} of weight {} after {} with weight {}", load, survivor.weight, gone.engine, gone.weight
                );
            }
        }
        prop_assert_eq!(even_fallbacks(&next, &evened, &new).unwrap(), evened, "there is nothing left to even out");
    }

    #[test]
    fn without_any_move_nothing_changes((parts, _) in change(16)) {
        let affinity = Affinity::new(TableSize::new(8).unwrap());
        let candidates = candidates(&parts);
        let table = start(&affinity, &candidates);
        let standing = fallbacks(&table, &candidates);

        let carried = carry_fallbacks(&table, &standing, &table, &candidates).unwrap();

        prop_assert_eq!(carried, standing);
    }
}

#[test]
fn a_lone_engine_falls_back_on_itself() {
    let candidates = candidates(&[Some(1)]);
    let table = SlotTable::new(vec![10; 4]).unwrap();

    assert_eq!(fallbacks(&table, &candidates), [10; 4]);
}

#[test]
fn where_one_engine_has_all_the_weight_the_others_share_its_slots_alike() {
    let candidates = candidates(&[Some(1), Some(0), Some(0)]);
    let table = SlotTable::new(vec![10; 64]).unwrap();

    let found = fallbacks(&table, &candidates);

    assert_eq!(found.iter().filter(|&&engine| engine == 11).count(), 32);
    assert_eq!(found.iter().filter(|&&engine| engine == 12).count(), 32);
}
