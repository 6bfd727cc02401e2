//! A data path whose snapshots the HTTP door follows too.
use std::{collections::BTreeMap, sync::Arc};

use penstock_abi::Tick;
use penstock_wire::{Epoch, Refusal, Snapshot};

use super::{CountError, DataPath, Installed, NotInstalled, ServiceFlows};
use crate::proxy::{
    metrics::Metrics,
    route::{KernelTables, Routes},
};

/// Installs first in the data path, then in the door: the door never names a table that the kernel lacks.
#[derive(Debug)]
pub struct WithDoor<D> {
    path: D,
    routes: Arc<Routes>,
    metrics: Arc<Metrics>,
    /// Class of each service in force, by index, lowest first.
    services: BTreeMap<u16, String>,
    seconds: u64,
}

impl<D: DataPath> WithDoor<D> {
    pub fn new(path: D, routes: Arc<Routes>, metrics: Arc<Metrics>) -> Self {
        Self { path, routes, metrics, services: BTreeMap::new(), seconds: 0 }
    }
}

impl<D: DataPath> WithDoor<D> {
    /// Lets the door follow what is in force in the data path.
    fn follow(&mut self, snapshot: &Snapshot) -> Result<(), NotInstalled> {
        let tables = self.path.slot_tables(snapshot)?;
        let now = Tick::at_second(self.seconds);
        self.routes
            .install(snapshot, tables, now)
            .map_err(|error| NotInstalled { reason: Refusal::NotInstalled, detail: error.to_string() })?;
        let services = snapshot.services.iter();
        self.services = services.map(|service| (service.index, service.class.as_str().to_owned())).collect();
        Ok(())
    }
}

impl<D: DataPath> DataPath for WithDoor<D> {
    fn epoch(&self) -> Epoch {
        self.path.epoch()
    }

    fn install(&mut self, snapshot: &Snapshot) -> Result<Installed, NotInstalled> {
        let installed = self.path.install(snapshot)?;
        self.follow(snapshot)?;
        Ok(installed)
    }

    fn replace(&mut self, snapshot: &Snapshot) -> Result<Installed, NotInstalled> {
        let installed = self.path.replace(snapshot)?;
        self.follow(snapshot)?;
        Ok(installed)
    }

    /// The door goes on with the tables that it has.
    fn detach(&mut self) -> Result<(), NotInstalled> {
        self.path.detach()
    }

    fn attach(&mut self) -> Result<(), NotInstalled> {
        self.path.attach()
    }

    /// The door starts empty, beside maps that an earlier agent left.
    fn resume(&mut self, snapshot: &Snapshot) -> bool {
        self.path.resume(snapshot) && self.follow(snapshot).is_ok()
    }

    /// Requests of the door count as flows of the first service of their class.
    fn flows_per_service(&self) -> Result<Vec<ServiceFlows>, CountError> {
        let mut flows: BTreeMap<u16, ServiceFlows> =
            self.path.flows_per_service()?.into_iter().map(|flows| (flows.service, flows)).collect();
        for (class, requests) in self.metrics.requests_per_class() {
            if let Some((&service, _)) = self.services.iter().find(|(_, known)| **known == class) {
                let none = ServiceFlows { service, ..ServiceFlows::default() };
                flows.entry(service).or_insert(none).new += requests;
            }
        }
        Ok(flows.into_values().collect())
    }

    fn reasons(&self) -> Result<Vec<(&'static str, u64)>, CountError> {
        self.path.reasons()
    }

    fn maintain(&mut self) -> u64 {
        self.seconds += 1;
        self.path.maintain()
    }

    fn devices(&self) -> Vec<(String, String)> {
        self.path.devices()
    }

    fn slot_tables(&self, snapshot: &Snapshot) -> Result<Option<Arc<dyn KernelTables>>, NotInstalled> {
        self.path.slot_tables(snapshot)
    }
}

#[cfg(test)]
mod tests {
    use penstock_wire::{EngineEntry, EngineState, TableEntry};

    use super::{super::Memory, *};
    use crate::proxy::config::BoundConfig;

    fn snapshot(epoch: u64) -> Snapshot {
        let engine = EngineEntry {
            index: 0,
            id: "e".into(),
            group: "g".into(),
            site: "s".into(),
            address: ([127, 0, 0, 1], 1).into(),
            address6: None,
            forwarding: None,
            rtt_us: 1,
            state: EngineState::Serving,
        };
        Snapshot {
            epoch: Epoch(epoch),
            frontend: "A".into(),
            secret: [7; 16],
            nat_prefix: None,
            failure_handling: false,
            engines: vec![engine],
            services: vec![],
            tables: vec![TableEntry::from_slots("chat".into(), &[0], vec![0; 16])],
        }
    }

    fn routes() -> Arc<Routes> {
        Arc::new(Routes::new(BoundConfig { ratio: 1.25, slack_tokens: 0 }))
    }

    #[test]
    fn a_door_that_starts_beside_maps_of_an_earlier_agent_takes_the_same_snapshot() {
        let mut left = Memory::default();
        left.install(&snapshot(3)).unwrap();
        let routes = routes();
        let mut path = WithDoor::new(left, Arc::clone(&routes), Arc::new(Metrics::empty()));
        assert_eq!(routes.epoch(), Epoch(0));

        assert!(path.resume(&snapshot(3)));

        assert_eq!((path.epoch(), routes.epoch()), (Epoch(3), Epoch(3)));
    }

    #[test]
    fn a_snapshot_that_the_data_path_refuses_does_not_reach_the_door() {
        let mut left = Memory::default();
        left.install(&snapshot(3)).unwrap();
        let routes = routes();
        let mut path = WithDoor::new(left, Arc::clone(&routes), Arc::new(Metrics::empty()));

        let refused = path.install(&snapshot(2)).unwrap_err();

        assert_eq!(refused.reason, Refusal::Stale);
        assert_eq!(routes.epoch(), Epoch(0));
    }
}
