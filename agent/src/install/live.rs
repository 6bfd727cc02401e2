//! Questions to the maps in force, asked by the agent or by another process beside it.
use std::path::Path;

use aya::maps::MapError;
use penstock_abi::{EngineFlags, KeyKind, MAX_SERVICES, Placement, SERVICE_RECORDS, Service, Slot, Tick};
use penstock_wire::{Epoch, Protocol, Vip};

use super::{
    clock,
    counters::{self, Counters},
    error::OpenError,
    maps::{self, Maps},
    records::vip_of,
};

/// The pinned maps of an agent, for reading.
#[derive(Debug)]
pub struct Live {
    pub(super) maps: Maps,
}

/// Where a key goes, and why.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Explanation {
    pub epoch: Epoch,
    /// Index of the service.
    pub service: u16,
    /// Slot within the service's table, and the table's size.
    pub slot: u32,
    pub slots: u32,
    /// Engine that a new flow of this key goes to, affinity left aside; `None` if neither the slot's nor its fallback
    /// takes new flows, so that the kernel looks at other slots.
    pub new_flows: Option<u16>,
    pub engine: u16,
    pub fallback: u16,
    /// Engine before the first change of the transition.
    pub origin: u16,
    /// Whether the slot's engine takes new flows.
    pub engine_takes_new_flows: bool,
    /// Seconds since the slot changed, in steps of four; `None` for a slot that has not changed for longer than any
    /// flow.
    pub changed_seconds_ago: Option<u64>,
}

impl Live {
    /// Opens the maps pinned below `pin_dir`.
    pub fn open(pin_dir: &Path) -> Result<Self, OpenError> {
        Ok(Self { maps: Maps::open(&maps::layout_folder(pin_dir))? })
    }

    /// Epoch of the snapshot in force; zero before the first.
    pub fn epoch(&self) -> Epoch {
        Epoch(self.maps.config.get(0).epoch)
    }

    /// The record in force of a VIP, port and protocol.
    pub fn service(&self, vip: Vip, port: u16, protocol: Protocol) -> Option<Service> {
        let wanted = vip_of(vip, port, protocol);
        let placement = Placement(self.maps.config.get(0).placement);
        let half = placement.half() as usize;
        let record = self.maps.services.get(half * SERVICE_RECORDS + wanted.position(placement) as usize);
        record.is(&wanted).then_some(record)
    }

    /// Where the conversation `key` of a service keyed by `address` goes. `None` for an unknown service, and for one
    /// with another kind of key.
    pub fn explain(&self, vip: Vip, port: u16, protocol: Protocol, key: u64) -> Option<Explanation> {
        let service = self.service(vip, port, protocol)?;
        if service.key != KeyKind::Address as u8 {
            return None;
        }
        Some(self.explain_hash(&service, self.maps.config.get(0).hash_key.of_key(key)))
    }

    fn explain_hash(&self, service: &Service, hash: u64) -> Explanation {
        let config = self.maps.config.get(0);
        let low = u32::try_from(hash & u64::from(u32::MAX)).unwrap_or(0);
        let slot = low & service.slot_mask;
        let word: Slot = self.maps.slots.get((service.slot_base + slot) as usize).slot;
        let takes =
            |engine: u16| EngineFlags(self.maps.engines.get(usize::from(engine)).flags).takes_new_flows();
        let now = clock::now().unwrap_or(Tick(config.tick));
        Explanation {
            epoch: Epoch(config.epoch),
            service: service.index,
            slot,
            slots: service.slot_mask + 1,
            new_flows: [word.engine, word.fallback].into_iter().find(|&engine| takes(engine)),
            engine: word.engine,
            fallback: word.fallback,
            origin: word.origin,
            engine_takes_new_flows: takes(word.engine),
            changed_seconds_ago: (word.changed_at != 0)
                .then(|| u64::from(now.since(Tick(word.changed_at))) * Tick::SECONDS),
        }
    }

    /// All counters of engines that have a record, of services, and by reason.
    pub fn counters(&self) -> Result<Counters, MapError> {
        counters::read(&self.maps, self.engines(), self.services())
    }

    /// New flows of each service since the maps were made, by service index: what demand is derived from.
    pub fn flows_per_service(&self) -> Result<Vec<(u16, u64)>, MapError> {
        self.services()
            .map(|index| Ok((index, counters::traffic(&self.maps.service_traffic, index)?.new_flows)))
            .collect()
    }

    fn engines(&self) -> impl Iterator<Item = u16> {
        let capacity = u16::try_from(self.maps.engines.capacity()).unwrap_or(u16::MAX);
        (0..capacity)
            .filter(|&index| self.maps.engines.get(usize::from(index)).flags & EngineFlags::PRESENT != 0)
    }

    fn services(&self) -> impl Iterator<Item = u16> {
        (0..u16::try_from(MAX_SERVICES).unwrap_or(u16::MAX))
            .filter(|&index| !self.maps.vips.get(usize::from(index)).is_empty())
    }
}
