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

/// A flow found in its bucket.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Found {
    pub engine: u16,
    /// Its stamp changed, or it moved to the confirmed ways: not more than once in 16 s for each flow.
    pub refreshed: bool,
}

/// Finds an entry and brings its stamp up to date. An entry seen once moves to the confirmed ways.
#[inline(always)]
pub fn find(bucket: &[SharedWord; WAYS], hash: u64, now: u8) -> Option<Found> {
    for word in bucket.iter().skip(UNCONFIRMED_WAYS) {
        let entry = Entry(word.load());
        if entry.is_of(hash) {
            let refreshed = entry.stamp() != now;
            if refreshed {
                word.store(Entry::new(hash, entry.engine(), now).0);
            }
            return Some(Found { engine: entry.engine(), refreshed });
        }
    }
    for word in bucket.iter().take(UNCONFIRMED_WAYS) {
        let entry = Entry(word.load());
        if entry.is_of(hash) {
            let place = oldest::<UNCONFIRMED_WAYS, WAYS>(bucket, now);
            bucket[place & (WAYS - 1)].store(Entry::new(hash, entry.engine(), now).0);
            word.store(0);
            return Some(Found { engine: entry.engine(), refreshed: true });
        }
    }
    None
}

/// Records a flow seen for the first time, in place of the oldest such flow. Confirmed flows stay, unless it is one of
/// them that begins anew.
#[inline(always)]
pub fn record(bucket: &[SharedWord; WAYS], hash: u64, engine: u16, now: u8) {
    let known = (0..WAYS).find(|&way| Entry(bucket[way & (WAYS - 1)].load()).is_of(hash));
    let place = known.unwrap_or_else(|| oldest::<0, UNCONFIRMED_WAYS>(bucket, now));
    bucket[place & (WAYS - 1)].store(Entry::new(hash, engine, now).0);
}

/// Records an affinity, or replaces a confirmed flow: where it stands already, else in place of the oldest.
#[inline(always)]
pub fn record_confirmed(bucket: &[SharedWord; WAYS], hash: u64, engine: u16, now: u8) {
    let known = (UNCONFIRMED_WAYS..WAYS).find(|&way| Entry(bucket[way & (WAYS - 1)].load()).is_of(hash));
    let place = known.unwrap_or_else(|| oldest::<UNCONFIRMED_WAYS, WAYS>(bucket, now));
    bucket[place & (WAYS - 1)].store(Entry::new(hash, engine, now).0);
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
        tag << 25 | 0x00_5678
    }

    #[test]
    fn a_flood_of_new_flows_leaves_confirmed_flows_in_place() {
        let bucket = empty();
        record(&bucket, hash(1), 11, 0);
        assert_eq!(find(&bucket, hash(1), 0), Some(Found { engine: 11, refreshed: true }));

        for flood in 1000..2000 {
            record(&bucket, hash(flood), 99, 1);
        }

        assert_eq!(find(&bucket, hash(1), 2), Some(Found { engine: 11, refreshed: true }));
        assert_eq!(find(&bucket, hash(1), 2), Some(Found { engine: 11, refreshed: false }));
        assert_eq!(find(&bucket, hash(1000), 2), None);
    }

    #[test]
    fn a_confirmed_flow_that_begins_anew_has_its_new_engine_only() {
        let bucket = empty();
        record_confirmed(&bucket, hash(1), 5, 0);

        record(&bucket, hash(1), 6, 1);

        assert_eq!(find(&bucket, hash(1), 1).map(|found| found.engine), Some(6));
        assert_eq!(bucket.iter().filter(|way| way.load() != 0).count(), 1);
    }

    #[test]
    fn the_oldest_confirmed_flow_makes_room_for_the_seventh() {
        let bucket = empty();
        for flow in 0..6 {
            record_confirmed(&bucket, hash(flow + 1), 7, 10 + flow.to_le_bytes()[0]);
        }
        assert_eq!(find(&bucket, hash(1), 20).map(|found| found.engine), Some(7));

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
