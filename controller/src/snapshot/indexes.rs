//! Small numbers that stand for ids in tables and maps, stable for an id's life.
use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};

/// A freed index names nobody for this long: longer than any flow, origin or affinity entry lives, and than an agent
/// is expected to be away.
const QUARANTINE: Duration = Duration::from_secs(24 * 3600);

/// Ids and their indexes.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Indexes {
    used: BTreeMap<String, u16>,
    /// When each freed index was freed, seconds since 1970.
    freed: BTreeMap<u16, u64>,
}

/// More ids than indexes: all are in use, or were within a day.
#[derive(Debug, thiserror::Error)]
#[error("no index is left for {id}: {used} are in use and {freed} were freed within a day, of {limit}")]
pub struct IndexError {
    id: String,
    used: usize,
    freed: usize,
    limit: u16,
}

impl Indexes {
    pub(super) fn get(&self, id: &str) -> Option<u16> {
        self.used.get(id).copied()
    }

    /// The id's index, a new one below `limit` if it has none: one that was never used, else the one freed longest
    /// ago.
    pub(super) fn assign(&mut self, id: &str, limit: u16, now: SystemTime) -> Result<u16, IndexError> {
        if let Some(index) = self.get(id) {
            return Ok(index);
        }
        let next = self.used.values().chain(self.freed.keys()).max().map_or(0, |highest| highest + 1);
        let index = if next < limit { next } else { self.longest_free(id, limit, now)? };
        self.freed.remove(&index);
        self.used.insert(id.to_owned(), index);
        Ok(index)
    }

    /// Takes an index as another controller gave it. Ids that held it lose it.
    pub(super) fn adopt(&mut self, id: &str, index: u16) {
        self.used.retain(|_, used| *used != index);
        self.used.insert(id.to_owned(), index);
    }

    /// Frees the indexes of all ids but those that `keep` names.
    pub(super) fn retain(&mut self, keep: impl Fn(&str) -> bool, now: SystemTime) {
        let gone: Vec<_> = self.used.extract_if(.., |id, _| !keep(id)).map(|(_, index)| index).collect();
        self.freed.extend(gone.into_iter().map(|index| (index, seconds(now))));
    }

    fn longest_free(&self, id: &str, limit: u16, now: SystemTime) -> Result<u16, IndexError> {
        let oldest = self.freed.iter().min_by_key(|(_, since)| **since);
        oldest
            .filter(|(_, since)| **since + QUARANTINE.as_secs() <= seconds(now))
            .map(|(index, _)| *index)
            .ok_or_else(|| IndexError {
                id: id.to_owned(),
                used: self.used.len(),
                freed: self.freed.len(),
                limit,
            })
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_keeps_its_index_and_a_freed_one_is_reused_only_after_a_day() {
        let day = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let mut indexes = Indexes::default();
        for (id, index) in [("a", 0), ("b", 1), ("c", 2)] {
            assert_eq!(indexes.assign(id, 3, day).unwrap(), index);
        }
        indexes.retain(|id| id != "b", day);

        assert_eq!(indexes.assign("c", 3, day).unwrap(), 2);
        assert!(indexes.assign("d", 3, day + Duration::from_secs(3600)).is_err());
        assert_eq!(indexes.assign("d", 3, day + QUARANTINE).unwrap(), 1);
    }

    #[test]
    fn an_index_that_was_never_used_goes_first() {
        let now = SystemTime::UNIX_EPOCH;
        let mut indexes = Indexes::default();
        indexes.assign("a", 10, now).unwrap();
        indexes.retain(|_| false, now);

        assert_eq!(indexes.assign("b", 10, now + QUARANTINE * 2).unwrap(), 1);
    }
}
