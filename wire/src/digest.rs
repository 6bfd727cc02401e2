//! Integrity hashes: equal content on both sides, undamaged bytes on the way and on disk. Against accidents, not
//! against an adversary: that is what mutual TLS is for.
use crate::{Snapshot, TableEntry, codec, codec::Writer, update::Head};

/// Odd, with its bits evenly spread: the golden ratio and the square root of 3 as binary fractions.
const FOLD: u64 = 0x9e37_79b9_7f4a_7c15;
const START: u64 = 0xbb67_ae85_84ca_a73b;

/// Hashes of a snapshot's content. Epoch and failure mark are not part of it, so that equal content has equal hashes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Digests {
    /// Everything but slots: head, engines, services, and each table's class and candidates.
    pub meta: u64,
    /// Each table's slots, in the snapshot's order.
    pub tables: Vec<u64>,
}

impl Digests {
    pub fn of(snapshot: &Snapshot) -> Self {
        Self { meta: meta(snapshot), tables: snapshot.tables.iter().map(slots).collect() }
    }

    /// All of them in one, for the greeting.
    pub fn overall(&self) -> u64 {
        self.tables.iter().fold(mix(START, self.meta), |state, table| mix(state, *table))
    }
}

/// Hash of some bytes.
pub(crate) fn of_bytes(bytes: &[u8]) -> u64 {
    let (chunks, rest) = bytes.as_chunks();
    let state = chunks.iter().fold(START, |state, chunk| mix(state, u64::from_le_bytes(*chunk)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(mix(state, u64::from_le_bytes(last)), bytes.len() as u64)
}

fn slots(table: &TableEntry) -> u64 {
    let (chunks, rest) = table.slots.as_chunks::<4>();
    let whole = chunks.iter().fold(START, |state, [a, b, c, d]| {
        let word = u64::from(*a) | u64::from(*b) << 16 | u64::from(*c) << 32 | u64::from(*d) << 48;
        mix(state, word)
    });
    let state = rest.iter().fold(whole, |state, engine| mix(state, u64::from(*engine)));
    mix(state, table.slots.len() as u64)
}

fn meta(snapshot: &Snapshot) -> u64 {
    let mut writer = Writer::new();
    codec::put_head(&mut writer, &Head::of(snapshot));
    writer.length(snapshot.engines.len());
    for engine in &snapshot.engines {
        codec::put_engine(&mut writer, engine);
    }
    codec::put_service_list(&mut writer, &snapshot.services);
    for table in &snapshot.tables {
        writer.text(table.class.as_str());
        writer.length(table.candidates.len());
        for candidate in &table.candidates {
            writer.int(u64::from(candidate.engine));
            writer.int(candidate.weight);
        }
    }
    of_bytes(writer.as_bytes())
}

/// Folded multiply: both halves of the 128-bit product, so that every input bit reaches every output bit.
#[expect(clippy::cast_possible_truncation, reason = "both halves fit 64 bits")]
fn mix(state: u64, word: u64) -> u64 {
    let product = u128::from(state ^ word) * u128::from(FOLD);
    let [high, low] = [product >> 64, product & u128::from(u64::MAX)].map(|half| half as u64);
    (high ^ low).rotate_left(23).wrapping_add(START)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_single_bit_and_each_length_has_a_hash_of_its_own() {
        let mut seen = HashSet::new();
        for length in 0..40 {
            assert!(seen.insert(of_bytes(&vec![0; length])));
            for bit in 0..length * 8 {
                let mut bytes = vec![0_u8; length];
                bytes[bit / 8] = 1 << (bit % 8);
                assert!(seen.insert(of_bytes(&bytes)), "length {length}, bit {bit}");
            }
        }
    }
}
