//! A data path that only remembers.
use std::sync::Arc;

use penstock_agent::datapath::{CountError, DataPath, Installed, NotInstalled, ServiceFlows};
use penstock_wire::{Epoch, Refusal, Snapshot};
use tokio::sync::watch;

/// What is in force, as another task sees it.
pub type InForce = watch::Receiver<Option<Arc<Snapshot>>>;

/// Keeps the last snapshot. Like the kernel's maps, it outlives the agent that wrote it.
#[derive(Clone, Debug)]
pub struct Memory {
    in_force: Arc<watch::Sender<Option<Arc<Snapshot>>>>,
    /// New flows that each service counts.
    flows: u64,
    detached: bool,
    /// Routine installs that it still takes.
    room: usize,
}

impl Memory {
    pub fn new(flows: u64) -> Self {
        Self { in_force: Arc::new(watch::Sender::new(None)), flows, detached: false, room: usize::MAX }
    }

    /// One that an earlier agent left detached.
    pub fn detached(self) -> Self {
        Self { detached: true, ..self }
    }

    /// One that takes just `count` installs that do not answer a failure.
    #[must_use]
    pub fn with_room_for(self, count: usize) -> Self {
        Self { room: count, ..self }
    }

    pub fn in_force(&self) -> InForce {
        self.in_force.subscribe()
    }
}

impl DataPath for Memory {
    fn epoch(&self) -> Epoch {
        self.in_force.borrow().as_ref().map_or(Epoch(0), |snapshot| snapshot.epoch)
    }

    fn install(&mut self, snapshot: &Snapshot) -> Result<Installed, NotInstalled> {
        let installed = self.epoch();
        if snapshot.epoch == installed {
            return Err(stale(snapshot, installed));
        }
        if !snapshot.failure_handling {
            let full = || NotInstalled { reason: Refusal::NotInstalled, detail: "no room".to_owned() };
            self.room = self.room.checked_sub(1).ok_or_else(full)?;
        }
        self.replace(snapshot)
    }

    fn replace(&mut self, snapshot: &Snapshot) -> Result<Installed, NotInstalled> {
        let installed = self.epoch();
        if self.detached {
            return Err(NotInstalled { reason: Refusal::Held, detail: "detached".to_owned() });
        }
        if snapshot.epoch < installed {
            return Err(stale(snapshot, installed));
        }
        let before = self.in_force.send_replace(Some(Arc::new(snapshot.clone())));
        let tables = before.iter().flat_map(|before| before.tables.iter().zip(&snapshot.tables));
        let moved = |(old, new): (&penstock_wire::TableEntry, &penstock_wire::TableEntry)| {
            old.slots.iter().zip(&new.slots).filter(|(old, new)| old != new).count()
        };
        Ok(Installed { moved_slots: tables.map(moved).sum() })
    }

    fn detach(&mut self) -> Result<(), NotInstalled> {
        self.detached = true;
        self.in_force.send_replace(None);
        Ok(())
    }

    fn attach(&mut self) -> Result<(), NotInstalled> {
        self.detached = false;
        Ok(())
    }

    fn resume(&mut self, snapshot: &Snapshot) -> bool {
        self.epoch() == snapshot.epoch
    }

    fn flows_per_service(&self) -> Result<Vec<ServiceFlows>, CountError> {
        let in_force = self.in_force.borrow();
        let services = in_force.iter().flat_map(|snapshot| &snapshot.services);
        Ok(services
            .map(|service| ServiceFlows { service: service.index, new: self.flows, refused: 0 })
            .collect())
    }

    fn reasons(&self) -> Result<Vec<(&'static str, u64)>, CountError> {
        Ok(vec![])
    }

    fn maintain(&mut self) -> u64 {
        0
    }

    fn devices(&self) -> Vec<(String, String)> {
        vec![("memory".to_owned(), "none".to_owned())]
    }
}

fn stale(snapshot: &Snapshot, installed: Epoch) -> NotInstalled {
    let detail = format!("epoch {} is not newer than epoch {installed}", snapshot.epoch);
    NotInstalled { reason: Refusal::Stale, detail }
}
