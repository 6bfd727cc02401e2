//! The pinned maps of one agent, opened.
use std::{
    fmt,
    os::fd::AsFd,
    path::{Path, PathBuf},
};

use aya::maps::{HashMap, Map, MapData, PerCpuArray};
use bytemuck::Pod;
use penstock_abi::{
    Config, Engine, LAYOUT_HASH, MAX_ENGINES, MAX_SERVICES, MAX_SLOTS, RouteGroup, SERVICE_RECORDS,
    SLOTS_PER_GROUP, Service, SlotRecord,
};

use super::{error::OpenError, mapped::Mapped};

/// Map values as aya takes them: bytes for a struct of `penstock_abi`.
type EightBytes = [u8; 8];
type TrafficWords = [u64; 4];

pub(super) struct Maps {
    pub(super) config: Mapped<Config>,
    pub(super) services: Mapped<Service>,
    pub(super) vips: Mapped<Service>,
    pub(super) routes: Mapped<RouteGroup>,
    pub(super) slots: Mapped<SlotRecord>,
    pub(super) engines: Mapped<Engine>,
    pub(super) replies: HashMap<MapData, EightBytes, EightBytes>,
    pub(super) engine_traffic: PerCpuArray<MapData, TrafficWords>,
    pub(super) service_traffic: PerCpuArray<MapData, TrafficWords>,
    pub(super) reasons: PerCpuArray<MapData, u64>,
}

impl fmt::Debug for Maps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Maps").field("config", &self.config.get(0)).finish_non_exhaustive()
    }
}

/// The folder of this build's maps: the layout is part of its name, so that no build opens another's.
pub(super) fn layout_folder(pin_dir: &Path) -> PathBuf {
    pin_dir.join(format!("maps-{LAYOUT_HASH:016x}"))
}

fn open(folder: &Path, name: &'static str) -> Result<MapData, OpenError> {
    let path = folder.join(name);
    MapData::from_pin(&path).map_err(|source| OpenError::NotPinned { path, source })
}

fn array<T: Pod>(folder: &Path, name: &'static str, capacity: usize) -> Result<Mapped<T>, OpenError> {
    let map = open(folder, name)?;
    Mapped::new(map.fd().as_fd(), capacity).map_err(|source| OpenError::Memory { name, source })
}

fn per_cpu<T: aya::Pod>(folder: &Path, name: &'static str) -> Result<PerCpuArray<MapData, T>, OpenError> {
    let map = Map::PerCpuArray(open(folder, name)?);
    map.try_into().map_err(|source| OpenError::Map { name, source })
}

impl Maps {
    /// Opens the maps that are pinned in `folder`.
    pub(super) fn open(folder: &Path) -> Result<Self, OpenError> {
        let replies = Map::HashMap(open(folder, "REPLIES")?);
        Ok(Self {
            config: array(folder, "CONFIG", 1)?,
            services: array(folder, "SERVICES", 2 * SERVICE_RECORDS)?,
            vips: array(folder, "VIPS", MAX_SERVICES)?,
            routes: array(folder, "ROUTES", MAX_SLOTS / SLOTS_PER_GROUP)?,
            slots: array(folder, "SLOTS", MAX_SLOTS)?,
            engines: array(folder, "ENGINES", MAX_ENGINES)?,
            replies: replies.try_into().map_err(|source| OpenError::Map { name: "REPLIES", source })?,
            engine_traffic: per_cpu(folder, "ENGINE_TRAFFIC")?,
            service_traffic: per_cpu(folder, "SERVICE_TRAFFIC")?,
            reasons: per_cpu(folder, "REASONS")?,
        })
    }
}
