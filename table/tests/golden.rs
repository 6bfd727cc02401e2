//! Vectors from an independent model of the method with exact logarithms and without any short cut: every pair of a slot
//! and an engine is looked at. Another implementation must give the same.
#![expect(clippy::unwrap_used, reason = "tests")]

use penstock_table::{
    Affinity, Candidate, Candidates, DeadBand, EngineKey, Move, SlotTable, TableHash, TableSize, advance,
    canonical, carry_fallbacks, fallbacks, quotas,
};

const IDS: [&str; 4] = ["tokyo-1", "tokyo-2", "paris-1", "a rather long engine name"];
const BEFORE: [u64; 4] = [1 << 31, 1 << 30, (1 << 29) + 12_345, (1 << 29) - 12_345];
const AFTER: [u64; 4] = [1 << 30, 1 << 30, 1 << 31, 0];

#[rustfmt::skip]
const CANONICAL: [u16; 64] = [
    1, 0, 0, 0, 0, 3, 2, 1, 3, 2, 1, 0, 0, 1, 1, 1, 1, 0, 0, 2, 0, 0, 0, 3, 0, 1, 1, 1, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 1, 3, 0, 0, 2, 2, 0, 1, 0, 0, 0, 3, 0, 1, 1, 3, 3, 3, 2, 0, 1, 0, 1, 0, 2, 0, 2,
];
#[rustfmt::skip]
const FALLBACKS: [u16; 64] = [
    3, 3, 3, 2, 2, 1, 3, 2, 1, 0, 2, 2, 2, 2, 0, 0, 0, 2, 2, 0, 2, 2, 1, 2, 1, 0, 0, 0, 1, 1, 1, 1,
    1, 1, 1, 1, 1, 0, 2, 1, 1, 0, 0, 1, 0, 1, 1, 3, 0, 3, 0, 0, 0, 0, 0, 0, 3, 0, 3, 3, 3, 1, 3, 1,
];
/// Slots that go to the engine 2, best first.
const MOVES: [u32; 24] =
    [8, 54, 48, 23, 5, 53, 38, 52, 36, 28, 21, 47, 46, 60, 56, 17, 4, 22, 45, 20, 1, 40, 30, 35];
#[rustfmt::skip]
const CARRIED: [u16; 64] = [
    2, 1, 2, 2, 1, 1, 1, 2, 1, 0, 2, 2, 2, 2, 0, 0, 0, 1, 2, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 1, 0, 1,
    1, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 0, 0, 1, 1, 1, 0, 1, 0, 2, 2, 1, 1, 2, 1,
];

fn candidates(weights: [u64; 4]) -> Candidates {
    let list: Vec<Candidate> = (0..)
        .zip(IDS.iter().zip(weights))
        .map(|(engine, (id, weight))| Candidate { engine, key: EngineKey::of(id), weight })
        .collect();
    Candidates::new(&list).unwrap()
}

#[test]
fn keys_are_those_of_the_model() {
    let keys = IDS.map(|id| EngineKey::of(id).0);

    let wanted = [0x8fb5_d06b_ad1b_1521, 0xed7f_2cf5_ea83_babe, 0x82ec_8b56_9d3d_7586, 0x1f38_7951_7070_3e39];
    assert_eq!(keys, wanted);
}

#[test]
fn tables_moves_and_fallbacks_are_those_of_the_model() {
    let affinity = Affinity::new(TableSize::new(6).unwrap());
    let (before, after) = (candidates(BEFORE), candidates(AFTER));

    let first = quotas(&before, &[0; 4], affinity.size(), DeadBand::OFF).unwrap();
    let table = canonical(&affinity, &before, &first).unwrap();
    let standing = fallbacks(&table, &before);
    let second = quotas(&after, &after.counts(&table), affinity.size(), DeadBand::OFF).unwrap();
    let moves = advance(&affinity, &table, &after, &second).unwrap();
    let mut next = table.clone();
    next.apply(&moves).unwrap();
    let carried = carry_fallbacks(&table, &standing, &next, &after).unwrap();

    assert_eq!(table.slots(), CANONICAL);
    assert_eq!(standing, FALLBACKS);
    assert_eq!(moves, MOVES.map(|slot| Move { slot, engine: 2 }));
    assert_eq!(carried, CARRIED);
}

/// The sum over the slots of SplitMix64's output function, as documented at [`TableHash`].
#[test]
fn the_hash_of_a_table_is_that_of_the_model() {
    assert_eq!(TableHash::of(&CANONICAL), TableHash(0x1ed8_4621_205e_d0e1));
    assert_eq!(SlotTable::new(CANONICAL.to_vec()).unwrap().hash(), TableHash(0x1ed8_4621_205e_d0e1));
}
