//! Last stage of the weight path: a snapshot becomes effective in the kernel.
//!
//! Everything is checked before anything is written. Writes go in the order in which the kernel may meet them: ways
//! back, engines, slots, services, and the epoch last; each slot changes at once.
mod clock;
mod config;
mod counters;
mod engines;
mod error;
mod live;
mod load;
mod mapped;
mod maps;
mod next_hop;
mod records;
mod slot_tables;
mod tables;

use std::{
    collections::{BTreeMap, BTreeSet},
    mem::offset_of,
    net::IpAddr,
    path::{Path, PathBuf},
};

use penstock_abi::{
    Config, Engine, EngineFlags, FLAG_REDIRECT_ONLY, FLAG_RESET_LOST, HashKey, MAX_SERVICES, Placement,
    Reply, SERVICE_RECORDS, Service, Slot, Tick, Vip, place,
};
use penstock_wire::{EngineEntry, Epoch, Snapshot};
use tracing::warn;

pub use config::{Attached, InstallConfig, Mode};
pub use counters::Counters;
pub use error::{InstallError, OpenError};
pub use live::{Explanation, Live};
pub use load::load_program;
pub use slot_tables::SlotTables;
pub use tables::Transition;

use engines::Targets;
use maps::Maps;
use next_hop::{Hop, Resolver};
use records::OuterSources;
use tables::{Plan, Region, Regions};

/// Ticks without divergence after which a slot is stable again: 15 minutes.
const IDLE_TICKS: u16 = 225;
/// Ticks for which the same keys are shed: 10 minutes.
const SALT_TICKS: u16 = 150;
/// Ticks between two looks at the slots in transition.
const SETTLE_EVERY: u16 = 4;

/// Owner of the kernel's maps and programs on this host.
#[derive(Debug)]
pub struct Installer {
    config: InstallConfig,
    live: Live,
    attached: Vec<(String, Attached)>,
    regions: Regions,
    replies: BTreeSet<[u8; 8]>,
    outer: OuterSources,
    resolver: Resolver,
    targets: BTreeMap<u16, Targets>,
    last_settled: Option<Tick>,
    transition: Transition,
}

/// What an installation changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct InstallReport {
    pub epoch: Epoch,
    /// Slots whose engine changed.
    pub moved_slots: usize,
    /// Slots that were written: moved, given another fallback, or new.
    pub written_slots: usize,
}

/// How far an engine is out of use, by this host's guard.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Divert {
    /// Takes all flows.
    Nothing,
    /// Keeps its flows; new ones go to the fallbacks.
    NewFlows,
    /// Keeps nothing: its flows are re-slotted.
    Everything,
}

impl Installer {
    /// Loads, pins and attaches the program. Maps that an earlier agent pinned are taken over with all they hold, and
    /// so are its links: no packet meets a device without a program.
    pub fn open(config: &InstallConfig) -> Result<Self, OpenError> {
        let folder = maps::layout_folder(&config.pin_dir);
        let mut ebpf = load::load(config, &folder)?;
        let maps = Maps::open(&folder)?;
        let tick = clock::now().map_err(|source| OpenError::Memory { name: "CONFIG", source })?;
        let flags = if config.redirect_only { FLAG_REDIRECT_ONLY } else { 0 }
            | if config.reset_lost { FLAG_RESET_LOST } else { 0 };
        maps.config.set(0, Config { flags, tick: tick.0, ..maps.config.get(0) });
        let attached = load::attach(&mut ebpf, config)?;
        let regions = tables::recover(&maps);
        let replies = maps.replies.keys().filter_map(Result::ok).collect();
        let outer = OuterSources { v4: config.outer4, v6: config.outer6 };
        let resolver = Resolver::new().map_err(|source| OpenError::Netlink { source })?;
        Ok(Self {
            config: config.clone(),
            live: Live { maps },
            attached,
            regions,
            replies,
            outer,
            resolver,
            targets: BTreeMap::new(),
            last_settled: None,
            transition: Transition::default(),
        })
    }

    /// Takes the program off all devices of `config` and removes maps and links.
    pub fn remove(config: &InstallConfig) -> std::io::Result<()> {
        load::remove(config)
    }

    /// Makes a snapshot effective, or leaves the one in force untouched.
    pub fn install(&mut self, snapshot: &Snapshot) -> Result<InstallReport, InstallError> {
        let installed = self.live.epoch();
        if snapshot.epoch == installed {
            return Err(InstallError::StaleEpoch { offered: snapshot.epoch, installed });
        }
        self.replace(snapshot)
    }

    /// As [`Installer::install`], but the snapshot may also be another content of the epoch in force: tables that a
    /// person on this host ordered, or took back.
    pub fn replace(&mut self, snapshot: &Snapshot) -> Result<InstallReport, InstallError> {
        let now = self.advance_clock();
        let plans = self.plan(snapshot, now)?;
        let replies = records::replies(snapshot)?;
        let placement = self.place(snapshot)?;
        self.write_replies(&replies)?;
        self.targets = engines::targets(snapshot);
        self.write_engines(snapshot, now);
        let written_slots = plans.iter().map(|plan| tables::write(&self.live.maps, plan)).sum();
        self.regions = plans.iter().map(|plan| (plan.class, plan.region)).collect();
        self.write_services(snapshot, placement);
        self.remove_stale(snapshot, &replies)?;
        let epoch = snapshot.epoch;
        self.live.maps.config.publish(0, offset_of!(Config, epoch), epoch.0);
        Ok(InstallReport { epoch, moved_slots: plans.iter().map(|plan| plan.moved).sum(), written_slots })
    }

    /// Takes up a snapshot that an earlier agent on the same maps installed, so that its engines' next hops are
    /// followed again. Says whether it is the one in force; if not, it must be installed.
    pub fn resume(&mut self, snapshot: &Snapshot) -> bool {
        if snapshot.epoch != self.live.epoch() {
            return false;
        }
        self.targets = engines::targets(snapshot);
        self.write_hops();
        true
    }

    /// All that can refuse a snapshot's tables, and what they become.
    fn plan(&self, snapshot: &Snapshot, now: Tick) -> Result<Vec<Plan>, InstallError> {
        let installed = self.live.epoch();
        if snapshot.epoch < installed {
            return Err(InstallError::StaleEpoch { offered: snapshot.epoch, installed });
        }
        records::check(snapshot)?;
        let key = self.live.maps.config.get(0).hash_key;
        if installed != Epoch(0) && key != HashKey::expand(snapshot.secret) {
            return Err(InstallError::OtherSecret);
        }
        let engines: BTreeMap<u16, &EngineEntry> =
            snapshot.engines.iter().map(|engine| (engine.index, engine)).collect();
        let mut regions = self.regions.clone();
        let mut plans = Vec::new();
        for entry in &snapshot.tables {
            let class = records::class_hash(&entry.class);
            let slots = u32::try_from(entry.slots.len()).unwrap_or(u32::MAX);
            let known = regions.get(&class).copied().filter(|region| region.slots == slots);
            let no_room = || InstallError::NoSlots { class: entry.class.clone(), slots: entry.slots.len() };
            let region = match known {
                Some(region) => region,
                None => tables::allocate(&regions, slots).ok_or_else(no_room)?,
            };
            regions.insert(class, region);
            let current = known.map(|region| tables::read(&self.live.maps, region));
            let plan = tables::plan(entry, &engines, current.as_deref(), region, now)?;
            self.check_moves(snapshot, entry, &plan)?;
            plans.push(plan);
        }
        Ok(plans)
    }

    fn check_moves(
        &self,
        snapshot: &Snapshot,
        entry: &penstock_wire::TableEntry,
        plan: &Plan,
    ) -> Result<(), InstallError> {
        #[expect(clippy::cast_precision_loss, reason = "at most 2^18 slots")]
        let share = plan.moved as f64 / plan.slots.len() as f64;
        if snapshot.failure_handling || share <= self.config.max_moved {
            return Ok(());
        }
        Err(InstallError::TooManyMoves {
            class: entry.class.clone(),
            moved: plan.moved,
            slots: plan.slots.len(),
        })
    }

    /// Where the services of a snapshot stand in the half of `SERVICES` that is not in force.
    fn place(&self, snapshot: &Snapshot) -> Result<Placement, InstallError> {
        let vips: Vec<Vip> = snapshot
            .services
            .iter()
            .map(|entry| records::vip_of(entry.vip, entry.port, entry.protocol))
            .collect();
        let half = Placement(self.live.maps.config.get(0).placement).half() ^ 1;
        let count = vips.len();
        place(&vips, half).ok_or(InstallError::TooLarge { what: "services", count, limit: MAX_SERVICES })
    }

    fn write_replies(&mut self, replies: &BTreeMap<[u8; 8], Reply>) -> Result<(), InstallError> {
        for (key, reply) in replies {
            let value: [u8; 8] = bytemuck::cast(*reply);
            self.live
                .maps
                .replies
                .insert(key, value, 0)
                .map_err(|source| InstallError::Map { map: "REPLIES", source })?;
            self.replies.insert(*key);
        }
        Ok(())
    }

    fn write_engines(&self, snapshot: &Snapshot, now: Tick) {
        let hops = self.hops();
        for entry in &snapshot.engines {
            let index = usize::from(entry.index);
            let current = self.live.maps.engines.get(index);
            let next = records::engine(entry, self.outer, EngineFlags(current.flags));
            if EngineFlags(next.flags).is_steady() && current.flags & EngineFlags::PRESENT != 0 {
                self.hold(entry.index, EngineFlags(current.flags), now);
            }
            engines::write(&self.live.maps, index, self.with_hop(entry.index, next, &hops));
        }
    }

    fn hops(&self) -> BTreeMap<IpAddr, Hop> {
        let targets: BTreeSet<IpAddr> = self.targets.values().flat_map(Targets::all).collect();
        self.resolver.resolve(&targets).unwrap_or_else(|error| {
            warn!(%error, "next hops are not resolved; the kernel asks its FIB");
            BTreeMap::new()
        })
    }

    fn with_hop(&self, index: u16, record: Engine, hops: &BTreeMap<IpAddr, Hop>) -> Engine {
        self.targets.get(&index).map_or(record, |targets| engines::with_hop(record, targets, hops))
    }

    /// Brings next hops up to date where the host's routes or neighbours changed.
    fn refresh_hops(&self) {
        if self.resolver.changed() {
            self.write_hops();
        }
    }

    fn write_hops(&self) {
        let hops = self.hops();
        for &index in self.targets.keys() {
            let record = self.live.maps.engines.get(usize::from(index));
            engines::write(&self.live.maps, usize::from(index), self.with_hop(index, record, &hops));
        }
    }

    fn hold(&self, engine: u16, flags: EngineFlags, now: Tick) {
        if !flags.is_steady() {
            tables::hold(&self.live.maps, &self.regions, engine, now);
        }
    }

    /// Writes the half of `SERVICES` that is not in force, and puts it in force at once.
    fn write_services(&self, snapshot: &Snapshot, placement: Placement) {
        let maps = &self.live.maps;
        let config = maps.config.get(0);
        let base = placement.half() as usize * SERVICE_RECORDS;
        for position in base..base + SERVICE_RECORDS {
            if !maps.services.get(position).is_empty() {
                maps.services.set(position, Service::default());
            }
        }
        let mut by_index = BTreeMap::new();
        for entry in &snapshot.services {
            let Some(region) = self.regions.get(&records::class_hash(&entry.class)) else { continue };
            let earlier = maps.vips.get(usize::from(entry.index));
            let record = Service { shed_below: earlier.shed_below, ..self.service(entry, *region) };
            let vip = records::vip_of(entry.vip, entry.port, entry.protocol);
            maps.services.set(base + vip.position(placement) as usize, record);
            by_index.insert(usize::from(entry.index), record);
        }
        for index in 0..MAX_SERVICES {
            let record = by_index.get(&index).copied().unwrap_or_default();
            if maps.vips.get(index) != record {
                maps.vips.set(index, record);
            }
        }
        let nat_prefix = snapshot.nat_prefix.map_or(0, u32::from_ne_bytes);
        maps.config.set(0, Config { hash_key: HashKey::expand(snapshot.secret), nat_prefix, ..config });
        maps.config.publish(0, offset_of!(Config, placement), placement.0);
    }

    fn service(&self, entry: &penstock_wire::ServiceEntry, region: Region) -> Service {
        records::service(entry, region.base, region.slots)
    }

    /// Removes what only earlier snapshots named.
    fn remove_stale(
        &mut self,
        snapshot: &Snapshot,
        replies: &BTreeMap<[u8; 8], Reply>,
    ) -> Result<(), InstallError> {
        let maps = &mut self.live.maps;
        for key in self.replies.extract_if(.., |key| !replies.contains_key(key)) {
            maps.replies.remove(&key).map_err(|source| InstallError::Map { map: "REPLIES", source })?;
        }
        let named: BTreeSet<usize> =
            snapshot.engines.iter().map(|engine| usize::from(engine.index)).collect();
        for index in (0..maps.engines.capacity()).filter(|index| !named.contains(index)) {
            if maps.engines.get(index).flags != 0 {
                maps.engines.set(index, Engine::default());
            }
        }
        Ok(())
    }

    /// Sets how far the host's guard keeps an engine out of use. Effective with one write for all its slots.
    pub fn divert(&mut self, engine: u16, divert: Divert) {
        let index = usize::from(engine);
        if index >= self.live.maps.engines.capacity() {
            return;
        }
        let record = self.live.maps.engines.get(index);
        let bits = match divert {
            Divert::Nothing => 0,
            Divert::NewFlows => EngineFlags::DIVERTS,
            Divert::Everything => EngineFlags::DIVERTS | EngineFlags::EJECTED,
        };
        let flags = record.flags & !(EngineFlags::DIVERTS | EngineFlags::EJECTED) | bits;
        if flags == record.flags || record.flags & EngineFlags::PRESENT == 0 {
            return;
        }
        if EngineFlags(flags).is_steady() {
            tables::hold(&self.live.maps, &self.regions, engine, self.advance_clock());
        }
        engines::write(&self.live.maps, index, Engine { flags, ..record });
    }

    /// Refuses new flows of this fraction of a service's keys, 0 to 1. The keys change every ten minutes.
    pub fn shed(&mut self, service: u16, fraction: f64) {
        let index = usize::from(service);
        if index >= MAX_SERVICES || self.live.maps.vips.get(index).is_empty() {
            return;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 32 bits")]
        let shed_below = (fraction.clamp(0.0, 1.0) * f64::from(u32::MAX)) as u32;
        let maps = &self.live.maps;
        let record = Service { shed_below, ..maps.vips.get(index) };
        maps.vips.set(index, record);
        let base = Placement(maps.config.get(0).placement).half() as usize * SERVICE_RECORDS;
        for position in base..base + SERVICE_RECORDS {
            let placed = maps.services.get(position);
            if !placed.is_empty() && placed.index == service {
                maps.services.set(position, record);
            }
        }
    }

    /// Advances the clock of slots and flows, makes idle slots stable, and follows changes of the host's neighbours.
    /// Call every second; it may start `ip` and wait for it.
    pub fn maintain(&mut self) -> Transition {
        self.refresh_hops();
        let now = self.advance_clock();
        let maps = &self.live.maps;
        if self.last_settled.is_none_or(|last| now.since(last) >= SETTLE_EVERY) {
            self.last_settled = Some(now);
            self.transition = tables::settle(maps, &self.regions, now, IDLE_TICKS);
        }
        self.transition
    }

    /// Writes the time that the kernel compares with, and gives it.
    fn advance_clock(&self) -> Tick {
        let now = self.now();
        let maps = &self.live.maps;
        let config = maps.config.get(0);
        if config.tick != now.0 {
            let salt = u32::from(now.0 / SALT_TICKS);
            let ([t0, t1], [s0, s1, s2, s3]) = (now.0.to_ne_bytes(), salt.to_ne_bytes());
            let word = u64::from_ne_bytes([t0, t1, 0, 0, s0, s1, s2, s3]);
            maps.config.publish(0, offset_of!(Config, tick), word);
        }
        now
    }

    fn now(&self) -> Tick {
        clock::now().unwrap_or(Tick(self.live.maps.config.get(0).tick))
    }

    /// The maps in force.
    pub fn live(&self) -> &Live {
        &self.live
    }

    /// Devices, and how the program is attached to each.
    pub fn attached(&self) -> &[(String, Attached)] {
        &self.attached
    }

    /// The folder below `pin_dir` in which this build pins its maps.
    pub fn map_folder(pin_dir: &Path) -> PathBuf {
        maps::layout_folder(pin_dir)
    }

    /// Engine of a slot of the class's table, for tests and explanations.
    pub fn slot(&self, class: &penstock_wire::ClassId, slot: u32) -> Option<Slot> {
        let region = self.regions.get(&records::class_hash(class))?;
        (slot < region.slots).then(|| self.live.maps.slots.get((region.base + slot) as usize).slot)
    }
}
