//! Everything that numbers and names what is published.
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Instant, SystemTime},
};

use penstock_table::TableSize;
use penstock_wire::{
    CheckError, ClassId, Digests, EngineEntry, EngineId, EngineState, Epoch, FrontendId, MAX_ENGINES,
    MAX_SERVICES, ServiceEntry, Snapshot, TableEntry,
};

use super::{
    IndexError, StoreError,
    indexes::Indexes,
    store::{State, Store, by_frontend},
    table::{self, Share, TableError, Transition},
};
use crate::{
    fleet::{Fleet, parts::Frontend},
    weights::{Cause, TableWeights, Weights},
};

/// State that outlives the process.
#[derive(Debug)]
pub struct Ledger {
    pub(super) store: Store,
    pub(super) state: State,
    size: TableSize,
    /// Newest snapshot of each frontend.
    pub(super) snapshots: BTreeMap<FrontendId, Arc<Snapshot>>,
    transitions: BTreeMap<(FrontendId, ClassId), Transition>,
    /// Nothing was ever published from this folder.
    empty: bool,
}

/// What should be in force.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    pub fleet: &'a Fleet,
    pub weights: &'a Weights,
    /// Engines that do not simply serve.
    pub states: &'a BTreeMap<EngineId, EngineState>,
}

/// A new epoch.
#[derive(Clone, Debug)]
pub struct Publication {
    pub epoch: Epoch,
    pub failure_handling: bool,
    /// Frontends whose state changed.
    pub snapshots: Vec<Arc<Snapshot>>,
    pub moved_slots: usize,
    /// Moves that wait until fewer slots are in transition: plan again later.
    pub waiting_slots: usize,
}

/// What an empty ledger took over from agents.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Adopted {
    pub frontends: Vec<FrontendId>,
    /// Highest epoch among the agents; what is published from now on is of a later term.
    pub highest: Epoch,
}

/// Why there is no ledger.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("opening the state folder")]
    Store(#[from] StoreError),
    #[error("tables of {slots} slots; a power of two from 2 to 2^18 is needed")]
    Size { slots: usize },
    #[error("the system has no random numbers for the fleet's secret")]
    Random,
}

/// Why nothing was published. What is in force stays in force.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error("table of class {class} at frontend {frontend}")]
    Table { frontend: FrontendId, class: ClassId, source: TableError },
    #[error("naming engines and services")]
    Index(#[from] IndexError),
    #[error("the snapshot of frontend {frontend} is not valid")]
    Invalid { frontend: FrontendId, source: CheckError },
    #[error("keeping the publication")]
    Store(#[from] StoreError),
    /// 2^48 publications in one term.
    #[error("epochs of term {term} are used up")]
    TermEnd { term: u16 },
    /// `rollback --list` names the epochs that are kept.
    #[error("epoch {epoch} is not kept in {}", folder.display())]
    NotKept { epoch: Epoch, folder: PathBuf },
}

impl Ledger {
    /// Reads the folder, or starts a new ledger in it. Damaged publications are kept aside and named.
    pub fn open(folder: &Path, slots: usize) -> Result<(Self, Vec<PathBuf>), OpenError> {
        let size = slots.checked_ilog2().and_then(TableSize::new).filter(|size| size.slots() == slots);
        let size = size.ok_or(OpenError::Size { slots })?;
        let store = Store::open(folder)?;
        let loaded = store.load()?;
        let empty = loaded.is_none();
        let (state, snapshots, damaged) = match loaded {
            Some(loaded) => (loaded.state, loaded.snapshots, loaded.damaged),
            None => {
                let mut secret = [0; 16];
                let provider = rustls::crypto::ring::default_provider();
                provider.secure_random.fill(&mut secret).map_err(|_failed| OpenError::Random)?;
                let (engines, services) = (Indexes::default(), Indexes::default());
                let epoch = Epoch::start_of(1);
                let state = State { epoch, secret, engines, services, rolled_back: None };
                (state, BTreeMap::new(), vec![])
            }
        };
        Ok((Self { store, state, size, snapshots, transitions: BTreeMap::new(), empty }, damaged))
    }

    /// Whether agents may know more than this ledger, which never published.
    pub fn is_empty(&self) -> bool {
        self.empty
    }

    pub fn epoch(&self) -> Epoch {
        self.state.epoch
    }

    pub fn folder(&self) -> &Path {
        self.store.folder()
    }

    /// Newest snapshot of each frontend.
    pub fn snapshots(&self) -> impl Iterator<Item = &Arc<Snapshot>> {
        self.snapshots.values()
    }

    /// Takes secret, indexes and tables from what agents hold, the highest epoch of each frontend. Only for an empty
    /// ledger.
    pub fn adopt(&mut self, held: Vec<Snapshot>) -> Option<Adopted> {
        let mut held = held;
        held.sort_by_key(|snapshot| snapshot.epoch);
        let newest = held.last()?;
        let highest = newest.epoch;
        self.state.secret = newest.secret;
        for snapshot in &held {
            for engine in &snapshot.engines {
                self.state.engines.adopt(engine.id.as_str(), engine.index);
            }
            for service in &snapshot.services {
                self.state.services.adopt(service.id.as_str(), service.index);
            }
        }
        self.state.epoch = Epoch::start_of(highest.term().saturating_add(1));
        self.snapshots = by_frontend(held.into_iter().map(Arc::new).collect()).collect();
        Some(Adopted { frontends: self.snapshots.keys().cloned().collect(), highest })
    }

    /// Makes and keeps the next epoch; `None` if nothing would change.
    pub fn plan(&mut self, wanted: &Wanted<'_>, now: Instant) -> Result<Option<Publication>, PlanError> {
        let planned = self.preview(wanted, now)?;
        let Planned { state, snapshots, moved, waiting } = planned;
        if snapshots.is_empty() {
            return Ok(None);
        }
        let snapshots: Vec<_> = snapshots.into_iter().map(Arc::new).collect();
        self.keep(state, &snapshots)?;
        let moved_slots = moved.iter().map(|(_, slots)| slots.len()).sum();
        for (table, slots) in moved {
            self.transitions.entry(table).or_default().record(slots, now);
        }
        Ok(Some(Publication {
            epoch: self.state.epoch,
            failure_handling: wanted.weights.cause == Cause::Failure,
            snapshots,
            moved_slots,
            waiting_slots: waiting,
        }))
    }

    /// The state that follows, without keeping it.
    pub(super) fn preview(&mut self, wanted: &Wanted<'_>, now: Instant) -> Result<Planned, PlanError> {
        let mut state = self.state.clone();
        state.epoch = state.epoch.next().ok_or(PlanError::TermEnd { term: state.epoch.term() })?;
        name_all(&mut state, wanted.fleet)?;
        let mut planned = Planned { state, snapshots: vec![], moved: vec![], waiting: 0 };
        for frontend in &wanted.fleet.frontends {
            let snapshot = self.snapshot_of(frontend, wanted, &mut planned, now)?;
            let changed =
                self.snapshots.get(&frontend.id).is_none_or(|old| Digests::of(old) != Digests::of(&snapshot));
            if changed {
                let id = || frontend.id.clone();
                snapshot.check().map_err(|source| PlanError::Invalid { frontend: id(), source })?;
                planned.snapshots.push(snapshot);
            }
        }
        Ok(planned)
    }

    fn snapshot_of(
        &mut self,
        frontend: &Frontend,
        wanted: &Wanted<'_>,
        planned: &mut Planned,
        now: Instant,
    ) -> Result<Snapshot, PlanError> {
        let mut tables = Vec::new();
        for class in &wanted.fleet.classes {
            let weights = wanted
                .weights
                .tables
                .iter()
                .find(|table| table.frontend == frontend.id && table.class == class.id);
            let table = match weights {
                Some(weights) => Some(self.next_table(weights, wanted, planned, now)?),
                None => self.table(&frontend.id, &class.id).cloned(),
            };
            tables.extend(table);
        }
        tables.sort_by(|a, b| a.class.cmp(&b.class));
        let named: BTreeSet<u16> = tables
            .iter()
            .flat_map(|table| table.candidates.iter().map(|candidate| candidate.engine))
            .collect();
        let mut engines = engines_of(frontend, wanted, &planned.state);
        engines.retain(|engine| named.contains(&engine.index));
        let mut services = services_of(wanted.fleet, &planned.state);
        services.retain(|service| tables.iter().any(|table| table.class == service.class));
        Ok(Snapshot {
            epoch: planned.state.epoch,
            frontend: frontend.id.clone(),
            secret: planned.state.secret,
            nat_prefix: frontend.nat_prefix,
            failure_handling: wanted.weights.cause == Cause::Failure,
            engines,
            services,
            tables,
        })
    }

    fn next_table(
        &mut self,
        weights: &TableWeights,
        wanted: &Wanted<'_>,
        planned: &mut Planned,
        now: Instant,
    ) -> Result<TableEntry, PlanError> {
        let key = (weights.frontend.clone(), weights.class.clone());
        let mut shares: Vec<Share<'_>> = weights
            .engines
            .iter()
            .filter_map(|(id, weight)| {
                let index = planned.state.engines.get(id.as_str())?;
                let out = wanted.states.get(id) == Some(&EngineState::Out);
                Some(Share { index, id, weight: *weight, out })
            })
            .collect();
        shares.sort_by_key(|share| share.index);
        let old = self.table(&weights.frontend, &weights.class).cloned();
        let failure = wanted.weights.cause == Cause::Failure;
        let transition = self.transitions.entry(key.clone()).or_default();
        let next = table::next(&weights.class, old.as_ref(), &shares, self.size, transition, failure, now)
            .map_err(|source| PlanError::Table { frontend: key.0.clone(), class: key.1.clone(), source })?;
        planned.moved.push((key, next.moved));
        planned.waiting += next.waiting;
        Ok(next.table)
    }

    fn table(&self, frontend: &FrontendId, class: &ClassId) -> Option<&TableEntry> {
        self.snapshots.get(frontend)?.tables.iter().find(|table| table.class == *class)
    }

    pub(super) fn keep(&mut self, state: State, snapshots: &[Arc<Snapshot>]) -> Result<(), PlanError> {
        self.store.commit(&state, snapshots)?;
        self.state = state;
        self.snapshots.extend(by_frontend(snapshots.to_vec()));
        self.empty = false;
        self.store.prune(&self.snapshots)?;
        Ok(())
    }
}

/// A state in the making.
pub(super) struct Planned {
    pub(super) state: State,
    pub(super) snapshots: Vec<Snapshot>,
    pub(super) moved: Vec<((FrontendId, ClassId), Vec<u32>)>,
    pub(super) waiting: usize,
}

/// Gives every engine and service of the fleet an index, and frees those of others.
fn name_all(state: &mut State, fleet: &Fleet) -> Result<(), IndexError> {
    let now = SystemTime::now();
    let engines: BTreeSet<&str> = fleet.engines.iter().map(|engine| engine.id.as_str()).collect();
    let services: BTreeSet<&str> = fleet.services.iter().map(|service| service.id.as_str()).collect();
    state.engines.retain(|id| engines.contains(id), now);
    state.services.retain(|id| services.contains(id), now);
    let limit = |most: usize| u16::try_from(most).unwrap_or(u16::MAX);
    for engine in engines {
        state.engines.assign(engine, limit(MAX_ENGINES), now)?;
    }
    for service in services {
        state.services.assign(service, limit(MAX_SERVICES), now)?;
    }
    Ok(())
}

/// All engines as a frontend reaches them, by index.
fn engines_of(frontend: &Frontend, wanted: &Wanted<'_>, state: &State) -> Vec<EngineEntry> {
    let fleet = wanted.fleet;
    let mut engines: Vec<EngineEntry> = fleet
        .engines
        .iter()
        .filter_map(|engine| {
            let group = fleet.group(&engine.group)?;
            let rtt = fleet.rtt(&frontend.site, &group.site)?;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts saturate")]
            let rtt_us = (rtt.get() * 1000.0).round() as u32;
            Some(EngineEntry {
                index: state.engines.get(engine.id.as_str())?,
                id: engine.id.clone(),
                group: group.id.clone(),
                site: group.site.clone(),
                address: engine.address,
                address6: engine.address6,
                forwarding: None,
                rtt_us,
                state: wanted.states.get(&engine.id).copied().unwrap_or(EngineState::Serving),
            })
        })
        .collect();
    engines.sort_by_key(|engine| engine.index);
    engines
}

/// All services, by index.
fn services_of(fleet: &Fleet, state: &State) -> Vec<ServiceEntry> {
    let mut services: Vec<ServiceEntry> = fleet
        .services
        .iter()
        .filter_map(|service| {
            Some(ServiceEntry {
                index: state.services.get(service.id.as_str())?,
                id: service.id.clone(),
                class: service.class.clone(),
                vip: service.vip,
                port: service.port,
                protocol: service.protocol,
                key: service.key,
                forwarding: service.forwarding,
            })
        })
        .collect();
    services.sort_by_key(|service| service.index);
    services
}
