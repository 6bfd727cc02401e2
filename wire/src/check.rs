//! What every snapshot must satisfy, whoever made it.
use std::collections::BTreeSet;

use crate::{
    ClassId, KeyMode, ServiceId, Snapshot, TableEntry, Vip,
    codec::{MAX_ENGINES, MAX_SERVICES, MAX_SLOT_BITS, MAX_TABLES, MAX_TEXT},
};

/// Most slots of all tables together: 8 MiB as the kernel holds them.
pub const MAX_SLOTS: usize = 1 << 20;

/// Why a snapshot is not usable.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum CheckError {
    #[error("{count} {things}, at most {limit} are accepted")]
    TooMany { things: &'static str, count: usize, limit: usize },
    #[error("{things} are not in ascending order without repeats")]
    Unordered { things: &'static str },
    #[error("engine {index} has the id of another")]
    SameId { index: u16 },
    #[error("an id has {length} bytes, {limit} at most")]
    LongId { length: usize, limit: usize },
    #[error("class {class} has {slots} slots; a power of two up to 2^18 is needed")]
    SlotCount { class: ClassId, slots: usize },
    #[error("class {class} names engine {engine}, which the snapshot does not describe")]
    UnknownEngine { class: ClassId, engine: u16 },
    #[error("slot {slot} of class {class} names engine {engine}, which is not a candidate")]
    NotCandidate { class: ClassId, slot: usize, engine: u16 },
    #[error("weights of class {class} do not sum to 1")]
    Weights { class: ClassId },
    #[error("service {service} is of class {class}, which has no table")]
    NoTable { service: ServiceId, class: ClassId },
    #[error("service {service}: {reason}")]
    Service { service: ServiceId, reason: &'static str },
}

impl Snapshot {
    /// Limits, order and references. Duplicate VIPs and what a data path cannot do are found where it is installed.
    pub fn check(&self) -> Result<(), CheckError> {
        self.check_published()?;
        self.tables.iter().try_for_each(TableEntry::check_slots)
    }

    /// As [`Snapshot::check`], for tables whose weights are their slot counts: weights that sum to 1 mean that every
    /// slot's engine is a candidate, so that slots need not be looked at one by one.
    pub(crate) fn check_published(&self) -> Result<(), CheckError> {
        at_most("engines", self.engines.len(), MAX_ENGINES)?;
        at_most("services", self.services.len(), MAX_SERVICES)?;
        at_most("tables", self.tables.len(), MAX_TABLES)?;
        at_most("slots", self.tables.iter().map(|table| table.slots.len()).sum(), MAX_SLOTS)?;
        self.check_ids()?;
        ascending("engines", self.engines.iter().map(|engine| engine.index))?;
        ascending("services", self.services.iter().map(|service| service.index))?;
        ascending("tables", self.tables.iter().map(|table| &table.class))?;
        let mut ids = BTreeSet::new();
        if let Some(engine) = self.engines.iter().find(|engine| !ids.insert(&engine.id)) {
            return Err(CheckError::SameId { index: engine.index });
        }
        for table in &self.tables {
            self.check_table(table)?;
        }
        self.services.iter().try_for_each(|service| self.check_service(service))
    }

    fn check_ids(&self) -> Result<(), CheckError> {
        let engines = self.engines.iter().flat_map(|e| [e.id.as_str(), e.group.as_str(), e.site.as_str()]);
        let services = self.services.iter().flat_map(|s| [s.id.as_str(), s.class.as_str()]);
        let tables = self.tables.iter().map(|table| table.class.as_str());
        let mut all = engines.chain(services).chain(tables).chain([self.frontend.as_str()]);
        match all.find(|id| id.len() > MAX_TEXT) {
            Some(id) => Err(CheckError::LongId { length: id.len(), limit: MAX_TEXT }),
            None => Ok(()),
        }
    }

    fn check_table(&self, table: &TableEntry) -> Result<(), CheckError> {
        let class = || table.class.clone();
        let slots = table.slots.len();
        if !slots.is_power_of_two() || slots > 1 << MAX_SLOT_BITS {
            return Err(CheckError::SlotCount { class: class(), slots });
        }
        ascending("candidates", table.candidates.iter().map(|candidate| candidate.engine))?;
        let unknown = table.candidates.iter().find(|candidate| self.engine(candidate.engine).is_none());
        if let Some(candidate) = unknown {
            return Err(CheckError::UnknownEngine { class: class(), engine: candidate.engine });
        }
        let sum = table.candidates.iter().try_fold(0_u64, |sum, candidate| sum.checked_add(candidate.weight));
        if sum != Some(1 << 32) {
            return Err(CheckError::Weights { class: class() });
        }
        Ok(())
    }

    fn check_service(&self, service: &crate::ServiceEntry) -> Result<(), CheckError> {
        let fault = |reason| Err(CheckError::Service { service: service.id.clone(), reason });
        if self.tables.binary_search_by(|table| table.class.cmp(&service.class)).is_err() {
            return Err(CheckError::NoTable { service: service.id.clone(), class: service.class.clone() });
        }
        match (service.key, service.vip) {
            (KeyMode::Address, Vip::V4(_) | Vip::V6(_)) => fault("key `address` needs a /64 as VIP"),
            (KeyMode::Source { prefix4, prefix6 }, _) if prefix4 > 32 || prefix6 > 128 => {
                fault("source prefix is longer than an address")
            }
            (_, Vip::V6Prefix(prefix)) if prefix.segments()[4..] != [0; 4] => {
                fault("the low half of a /64 is not zero")
            }
            _ if service.port == 0 => fault("port is 0"),
            _ => Ok(()),
        }
    }
}

impl TableEntry {
    fn check_slots(&self) -> Result<(), CheckError> {
        match self.positions().iter().position(|position| *position == u16::MAX) {
            Some(slot) => {
                Err(CheckError::NotCandidate { class: self.class.clone(), slot, engine: self.slots[slot] })
            }
            None => Ok(()),
        }
    }
}

fn at_most(things: &'static str, count: usize, limit: usize) -> Result<(), CheckError> {
    if count > limit { Err(CheckError::TooMany { things, count, limit }) } else { Ok(()) }
}

fn ascending<T: PartialOrd>(things: &'static str, items: impl Iterator<Item = T>) -> Result<(), CheckError> {
    if items.is_sorted_by(|a, b| a < b) { Ok(()) } else { Err(CheckError::Unordered { things }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn the_fixture_is_valid() {
        fixture::snapshot().check().unwrap();
    }

    #[test]
    fn a_slot_of_an_engine_that_is_no_candidate_is_found() {
        let mut snapshot = fixture::snapshot();
        snapshot.tables[0].slots[7] = 77;

        let error = snapshot.check().unwrap_err();

        assert_eq!(error, CheckError::NotCandidate { class: "chat".into(), slot: 7, engine: 77 });
    }

    #[test]
    fn each_fault_is_named() {
        let with = |change: fn(&mut Snapshot)| {
            let mut snapshot = fixture::snapshot();
            change(&mut snapshot);
            snapshot.check().unwrap_err()
        };

        assert!(matches!(with(|s| s.engines.swap(0, 1)), CheckError::Unordered { things: "engines" }));
        assert!(matches!(with(|s| s.engines[1].id = s.engines[0].id.clone()), CheckError::SameId { .. }));
        assert!(matches!(with(|s| s.engines[0].group.0 = "x".repeat(129)), CheckError::LongId { .. }));
        assert!(matches!(with(|s| s.engines.truncate(1)), CheckError::UnknownEngine { .. }));
        assert!(matches!(with(|s| s.tables[0].slots.truncate(63)), CheckError::SlotCount { .. }));
        assert!(matches!(with(|s| s.tables[0].candidates[0].weight += 1), CheckError::Weights { .. }));
        assert!(matches!(with(|s| s.services[0].class.0.push('x')), CheckError::NoTable { .. }));
        assert!(matches!(with(|s| s.services[0].port = 0), CheckError::Service { .. }));
    }
}
