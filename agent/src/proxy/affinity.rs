//! Which engine served a conversation last, and which conversation a response belongs to. Both bounded, per host.
use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use penstock_abi::conversation_key;

const BUCKETS: usize = 1 << 16;
const WAYS: usize = 4;

/// A conversation's last engine: buckets of four entries `{tag 48 bits, engine 16 bits}`, 2 MiB. No locks; a lost
/// update costs one conversation's affinity.
#[derive(Debug)]
pub(crate) struct Affinity {
    entries: Box<[AtomicU64]>,
}

impl Affinity {
    pub(crate) fn new() -> Self {
        Self { entries: (0..BUCKETS * WAYS).map(|_| AtomicU64::new(0)).collect() }
    }

    /// `hash` is the slot hash of the conversation's key.
    pub(crate) fn get(&self, hash: u64) -> Option<u16> {
        let tag = tag(hash);
        let words = self.bucket(hash).iter().map(|entry| entry.load(Ordering::Relaxed));
        words.filter(|word| word >> 16 == tag).map(engine_of).next()
    }

    /// Takes the conversation's own entry, else a free one, else one that the hash picks.
    pub(crate) fn put(&self, hash: u64, engine: u16) {
        let tag = tag(hash);
        let bucket = self.bucket(hash);
        let holds = |wanted: u64| bucket.iter().find(|entry| entry.load(Ordering::Relaxed) >> 16 == wanted);
        let victim = usize::try_from(hash >> 62).expect("two bits fit");
        let entry = holds(tag).or_else(|| holds(0)).unwrap_or(&bucket[victim]);
        let word = tag << 16 | u64::from(engine);
        if entry.load(Ordering::Relaxed) != word {
            entry.store(word, Ordering::Relaxed);
        }
    }

    fn bucket(&self, hash: u64) -> &[AtomicU64] {
        let at = usize::try_from(hash >> 16 & (BUCKETS as u64 - 1)).expect("below BUCKETS") * WAYS;
        &self.entries[at..at + WAYS]
    }
}

/// Never 0, which stands for a free entry.
fn tag(hash: u64) -> u64 {
    (hash ^ hash >> 32) & 0xffff_ffff_ffff | 1
}

#[expect(clippy::cast_possible_truncation, reason = "takes the lower 16 bits")]
fn engine_of(word: u64) -> u16 {
    word as u16
}

/// The conversation key of each response of the responses API, for `previous_response_id`. The oldest is forgotten.
#[derive(Debug)]
pub(crate) struct Responses {
    inner: Mutex<ResponseKeys>,
    capacity: usize,
}

#[derive(Debug, Default)]
struct ResponseKeys {
    keys: HashMap<u64, u64>,
    order: VecDeque<u64>,
}

impl Responses {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { inner: Mutex::default(), capacity }
    }

    pub(crate) fn key_of(&self, response: &str) -> Option<u64> {
        let inner = self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        inner.keys.get(&conversation_key(response)).copied()
    }

    pub(crate) fn remember(&self, response: &str, key: u64) {
        let response = conversation_key(response);
        let mut inner = self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if inner.keys.insert(response, key).is_none() {
            inner.order.push_back(response);
        }
        if inner.order.len() > self.capacity
            && let Some(oldest) = inner.order.pop_front()
        {
            inner.keys.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_found_until_its_bucket_overflows() {
        let affinity = Affinity::new();
        let hash = |n: u64| n << 34 | 0x7_0000;

        for n in 1..=4 {
            affinity.put(hash(n), u16::try_from(n).unwrap());
        }
        affinity.put(hash(2), 20);

        let found: Vec<_> = (1..=5).map(|n| affinity.get(hash(n))).collect();
        assert_eq!(found, [Some(1), Some(20), Some(3), Some(4), None]);
        affinity.put(hash(5), 5);
        assert_eq!(affinity.get(hash(5)), Some(5));
    }

    #[test]
    fn the_oldest_response_is_forgotten() {
        let responses = Responses::new(2);

        for (id, key) in [("a", 1), ("b", 2), ("c", 3)] {
            responses.remember(id, key);
        }

        assert_eq!(["a", "b", "c"].map(|id| responses.key_of(id)), [None, Some(2), Some(3)]);
    }
}
