//! What the agent needs of the data path: the kernel's maps behind [`crate::install`], or memory in tests.
mod door;
mod kernel;
mod memory;

use std::{fmt, sync::Arc};

pub use door::WithDoor;
pub use kernel::Kernel;
pub use memory::Memory;
use penstock_wire::{Epoch, Refusal, Snapshot};

use crate::proxy::route::KernelTables;

/// Installs snapshots and counts.
pub trait DataPath: fmt::Debug {
    /// Epoch in force; zero before the first.
    fn epoch(&self) -> Epoch;

    /// Makes a snapshot effective, or leaves the one in force untouched.
    fn install(&mut self, snapshot: &Snapshot) -> Result<Installed, NotInstalled>;

    /// As `install`, but may also be another content of the epoch in force: what a person ordered, or took back.
    fn replace(&mut self, snapshot: &Snapshot) -> Result<Installed, NotInstalled>;

    /// Leaves packets to the host stack until [`DataPath::attach`].
    fn detach(&mut self) -> Result<(), NotInstalled>;

    fn attach(&mut self) -> Result<(), NotInstalled>;

    /// Takes up a snapshot that an earlier agent put in force. Says whether it is the one in force.
    fn resume(&mut self, snapshot: &Snapshot) -> bool;

    /// Flows of each service since the data path was set up.
    fn flows_per_service(&self) -> Result<Vec<ServiceFlows>, CountError>;

    /// Packets by reason since the data path was set up.
    fn reasons(&self) -> Result<Vec<(&'static str, u64)>, CountError>;

    /// Advances its clock; to be called every second. Returns the slots in transition.
    fn maintain(&mut self) -> u64;

    /// Devices, and how each is attached.
    fn devices(&self) -> Vec<(String, String)>;

    /// The tables of the snapshot in force for the HTTP door, where the kernel has them.
    fn slot_tables(&self, _snapshot: &Snapshot) -> Result<Option<Arc<dyn KernelTables>>, NotInstalled> {
        Ok(None)
    }
}

impl<D: DataPath + ?Sized> DataPath for Box<D> {
    fn epoch(&self) -> Epoch {
        (**self).epoch()
    }

    fn install(&mut self, snapshot: &Snapshot) -> Result<Installed, NotInstalled> {
        (**self).install(snapshot)
    }

    fn replace(&mut self, snapshot: &Snapshot) -> Result<Installed, NotInstalled> {
        (**self).replace(snapshot)
    }

    fn detach(&mut self) -> Result<(), NotInstalled> {
        (**self).detach()
    }

    fn attach(&mut self) -> Result<(), NotInstalled> {
        (**self).attach()
    }

    fn resume(&mut self, snapshot: &Snapshot) -> bool {
        (**self).resume(snapshot)
    }

    fn flows_per_service(&self) -> Result<Vec<ServiceFlows>, CountError> {
        (**self).flows_per_service()
    }

    fn reasons(&self) -> Result<Vec<(&'static str, u64)>, CountError> {
        (**self).reasons()
    }

    fn maintain(&mut self) -> u64 {
        (**self).maintain()
    }

    fn devices(&self) -> Vec<(String, String)> {
        (**self).devices()
    }

    fn slot_tables(&self, snapshot: &Snapshot) -> Result<Option<Arc<dyn KernelTables>>, NotInstalled> {
        (**self).slot_tables(snapshot)
    }
}

/// Flows of one service. Counts only grow, as long as the data path is not set up anew.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ServiceFlows {
    /// Index of the service.
    pub service: u16,
    pub new: u64,
    /// New flows that no engine took.
    pub refused: u64,
}

/// What an installation changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Installed {
    /// Slots whose engine changed.
    pub moved_slots: usize,
}

/// Why a snapshot is not in force.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{detail}")]
pub struct NotInstalled {
    pub reason: Refusal,
    pub detail: String,
}

/// Counters could not be read.
#[derive(Debug, thiserror::Error)]
#[error("reading counters")]
pub struct CountError(#[source] pub Box<dyn std::error::Error + Send + Sync>);
