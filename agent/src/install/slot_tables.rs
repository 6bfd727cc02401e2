//! The tables in force as the HTTP door reads them: straight from the kernel's memory.
use std::{collections::BTreeMap, path::Path};

use penstock_abi::{EngineFlags, Slot};
use penstock_wire::{ClassId, Snapshot};

use super::{Installer, Live, OpenError, records, tables::Region};
use crate::proxy::route::KernelTables;

/// Where each class's table stands, and the maps that hold it.
#[derive(Debug)]
pub struct SlotTables {
    live: Live,
    regions: BTreeMap<String, Region>,
}

impl Installer {
    /// The tables of a snapshot that is in force.
    pub fn slot_tables(&self, pin_dir: &Path, snapshot: &Snapshot) -> Result<SlotTables, OpenError> {
        let classes = snapshot.tables.iter().map(|table| &table.class);
        let region = |class: &ClassId| self.regions.get(&records::class_hash(class)).copied();
        let regions = classes.filter_map(|class| Some((class.as_str().to_owned(), region(class)?))).collect();
        Ok(SlotTables { live: Live::open(pin_dir)?, regions })
    }
}

impl KernelTables for SlotTables {
    fn region(&self, class: &ClassId) -> Option<(u32, u32)> {
        self.regions.get(class.as_str()).map(|region| (region.base, region.slots))
    }

    fn slot(&self, at: u32) -> Slot {
        self.live.maps.slots.get(at as usize).slot
    }

    fn takes_new_flows(&self, engine: u16) -> bool {
        EngineFlags(self.live.maps.engines.get(usize::from(engine)).flags).takes_new_flows()
    }
}
