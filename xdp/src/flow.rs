//! The flow cache and the affinity cache: buckets of eight entries, one cache line each.
//!
//! Two CPUs may write one entry at a time; one of them wins, and the other flow is recorded with its next packet.
use crate::shared::SharedWord;

use penstock_abi::{AFFINITY_BUCKETS, CONFIRMED_WAYS, Entry, FLOW_BUCKETS, WAYS};

const UNCONFIRMED_WAYS: usize = WAYS - CONFIRMED_WAYS;
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Bucket of a flow. All flows of a slot share low bits of their hash, so the index takes the top of a product.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the shift leaves 17 bits")]
pub const fn flow_bucket(hash: u64) -> u32 {
    (hash.wrapping_mul(SPREAD) >> (64 - FLOW_BUCKETS.trailing_zeros())) as u32
}

/// Bucket of a conversation's affinity.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the shift leaves 14 bits")]
pub const fn affinity_bucket(hash: u64) -> u32 {
    (hash.wrapping_mul(SPREAD) >> (64 - AFFINITY_BUCKETS.trailing_zeros())) as u32
}

/// Finds an entry and brings its stamp up to date. An entry seen once moves to the confirmed ways.
#[inline(always)]
pub fn find(bucket: &[SharedWord; WAYS], hash: u64, now: u8) -> Option<u16> {
    for way in 0..WAYS {
        let entry = Entry(bucket[way].load());
        if !entry.is_of(hash) {
            continue;
        }
        let fresh = Entry::new(hash, entry.engine(), now);
        if way < UNCONFIRMED_WAYS {
            let place = oldest::<UNCONFIRMED_WAYS, WAYS>(bucket, now);
            bucket[place & (WAYS - 1)].store(fresh.0);
            bucket[way].store(0);
        } else if entry.0 != fresh.0 {
            bucket[way].store(fresh.0);
        }
        return Some(entry.engine());
    }
    None
}

/// Records a flow seen for the first time, in place of the oldest such flow. Confirmed flows stay.
#[inline(always)]
pub fn record(bucket: &[SharedWord; WAYS], hash: u64, engine: u16, now: u8) {
    put::<0, UNCONFIRMED_WAYS>(bucket, hash, engine, now);
}

/// Records an affinity, or replaces a confirmed flow.
#[inline(always)]
pub fn record_confirmed(bucket: &[SharedWord; WAYS], hash: u64, engine: u16, now: u8) {
    put::<UNCONFIRMED_WAYS, WAYS>(bucket, hash, engine, now);
}

/// Reads an entry without a trace.
#[inline(always)]
pub fn peek(bucket: &[SharedWord; WAYS], hash: u64) -> Option<u16> {
    for way in bucket {
        let entry = Entry(way.load());
        if entry.is_of(hash) {
            return Some(entry.engine());
        }
    }
    None
}

#[inline(always)]
fn put<const FIRST: usize, const END: usize>(bucket: &[SharedWord; WAYS], hash: u64, engine: u16, now: u8) {
    let place = place_of::<FIRST, END>(bucket, hash, now);
    bucket[place & (WAYS - 1)].store(Entry::new(hash, engine, now).0);
}

/// The way that holds `hash` already, else an empty one, else the oldest.
#[inline(always)]
fn place_of<const FIRST: usize, const END: usize>(bucket: &[SharedWord; WAYS], hash: u64, now: u8) -> usize {
    for (way, word) in bucket.iter().enumerate().take(END).skip(FIRST) {
        if Entry(word.load()).is_of(hash) {
            return way;
        }
    }
    oldest::<FIRST, END>(bucket, now)
}

#[inline(always)]
fn oldest<const FIRST: usize, const END: usize>(bucket: &[SharedWord; WAYS], now: u8) -> usize {
    let mut place = FIRST;
    let mut place_age = 0_u32;
    for (way, word) in bucket.iter().enumerate().take(END).skip(FIRST) {
        let entry = Entry(word.load());
        let age = if entry.is_empty() { 257 } else { u32::from(entry.age(now)) + 1 };
        if age > place_age {
            place_age = age;
            place = way;
        }
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> [SharedWord; WAYS] {
        std::array::from_fn(|_| SharedWord::new(0))
    }

    /// A hash with `tag` in the bits that an entry keeps.
    fn hash(tag: u64) -> u64 {
        tag << 24 | 0x00_5678
    }

    #[test]
    fn a_flood_of_new_flows_leaves_confirmed_flows_in_place() {
        let bucket = empty();
        record(&bucket, hash(1), 11, 0);
        assert_eq!(find(&bucket, hash(1), 0), Some(11));

        for flood in 1000..2000 {
            record(&bucket, hash(flood), 99, 1);
        }

        assert_eq!(find(&bucket, hash(1), 2), Some(11));
        assert_eq!(find(&bucket, hash(1000), 2), None);
    }

    #[test]
    fn the_oldest_confirmed_flow_makes_room_for_the_seventh() {
        let bucket = empty();
        for flow in 0..6 {
            record_confirmed(&bucket, hash(flow + 1), 7, 10 + flow.to_le_bytes()[0]);
        }
        assert_eq!(find(&bucket, hash(1), 20), Some(7));

        record_confirmed(&bucket, hash(50), 8, 21);

        assert_eq!(peek(&bucket, hash(2)), None);
        assert_eq!(peek(&bucket, hash(1)), Some(7));
        assert_eq!(peek(&bucket, hash(50)), Some(8));
    }

    #[test]
    fn a_flow_recorded_twice_takes_one_way_and_its_last_engine() {
        let bucket = empty();

        record(&bucket, hash(3), 1, 0);
        record(&bucket, hash(3), 2, 0);

        assert_eq!(bucket.iter().filter(|way| way.load() != 0).count(), 1);
        assert_eq!(peek(&bucket, hash(3)), Some(2));
    }
}
