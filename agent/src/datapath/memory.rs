//! A data path without packets: tables in this process's memory, for the HTTP door alone.
use penstock_wire::{Epoch, Refusal, Snapshot};

use super::{CountError, DataPath, Installed, NotInstalled, ServiceFlows};

/// Holds what is in force. The HTTP door keeps its own copy of the tables.
#[derive(Debug, Default)]
pub struct Memory {
    held: Option<Snapshot>,
}

impl Memory {
    fn stale(&self, offered: &Snapshot) -> NotInstalled {
        let detail = format!("epoch {} is not newer than epoch {}", offered.epoch, self.epoch());
        NotInstalled { reason: Refusal::Stale, detail }
    }
}

impl DataPath for Memory {
    fn epoch(&self) -> Epoch {
        self.held.as_ref().map_or(Epoch::default(), |held| held.epoch)
    }

    fn install(&mut self, snapshot: &Snapshot) -> Result<Installed, NotInstalled> {
        if snapshot.epoch == self.epoch() {
            return Err(self.stale(snapshot));
        }
        self.replace(snapshot)
    }

    fn replace(&mut self, snapshot: &Snapshot) -> Result<Installed, NotInstalled> {
        if snapshot.epoch < self.epoch() {
            return Err(self.stale(snapshot));
        }
        snapshot
            .check()
            .map_err(|error| NotInstalled { reason: Refusal::NotInstalled, detail: error.to_string() })?;
        let moved_slots = self.held.as_ref().map_or(0, |held| moved(held, snapshot));
        self.held = Some(snapshot.clone());
        Ok(Installed { moved_slots })
    }

    /// There are no packets to leave to the host.
    fn detach(&mut self) -> Result<(), NotInstalled> {
        Ok(())
    }

    fn attach(&mut self) -> Result<(), NotInstalled> {
        Ok(())
    }

    /// Nothing outlives the process.
    fn resume(&mut self, snapshot: &Snapshot) -> bool {
        self.held.as_ref() == Some(snapshot)
    }

    fn flows_per_service(&self) -> Result<Vec<ServiceFlows>, CountError> {
        Ok(Vec::new())
    }

    fn reasons(&self) -> Result<Vec<(&'static str, u64)>, CountError> {
        Ok(Vec::new())
    }

    fn maintain(&mut self) -> u64 {
        0
    }

    fn devices(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}

/// Slots that have another engine in `next`, in tables that both have.
fn moved(held: &Snapshot, next: &Snapshot) -> usize {
    let before = |class| held.tables.iter().find(|table| table.class == class);
    let pairs = next.tables.iter().filter_map(|table| Some((before(table.class.clone())?, table)));
    pairs.map(|(old, new)| old.slots.iter().zip(&new.slots).filter(|(old, new)| old != new).count()).sum()
}
