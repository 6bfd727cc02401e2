//! The slot tables of the HTTP door: the same slots, by the same hash, as the packet door's.
//!
//! A table is read from the kernel's own memory where the agent installs one there, and from a copy in this process
//! otherwise. Requests read one atomic pointer and take no lock.
use std::{collections::HashMap, fmt, sync::Arc};

use arc_swap::ArcSwap;
use penstock_abi::{HashKey, Slot, Tick};
use penstock_table as table;
use penstock_wire::{ClassId, Epoch, Snapshot, TableEntry};

use super::{
    affinity::{Affinity, Responses},
    choice::{self, Choice, Rules},
    config::BoundConfig,
    engine::{Engine, Load},
};

/// Ticks after which a slot that moved counts as stable: 15 minutes.
const IDLE_TICKS: u16 = 225;
/// Responses whose conversation is remembered.
const RESPONSES: usize = 1 << 16;

/// The tables that the kernel has in its memory.
pub trait KernelTables: fmt::Debug + Send + Sync {
    /// First slot and number of slots (a power of two) of a class's table.
    fn region(&self, class: &ClassId) -> Option<(u32, u32)>;
    /// The slot at a place of the array of all tables.
    fn slot(&self, at: u32) -> Slot;
    /// Whether the guard or the snapshot lets new flows go to the engine.
    fn takes_new_flows(&self, engine: u16) -> bool;
}

/// Why a snapshot's tables are not usable. Those in force stay.
#[derive(Debug, thiserror::Error)]
pub enum RouteError {
    #[error("class {class}: {reason}")]
    Table { class: ClassId, reason: String },
    #[error("class {class} has no table in the kernel")]
    NotInKernel { class: ClassId },
}

/// What requests are routed by.
#[derive(Debug)]
pub struct Routes {
    tables: ArcSwap<Tables>,
    pub(crate) affinity: Affinity,
    pub(crate) responses: Responses,
    bound: BoundConfig,
}

/// All tables at one epoch.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) epoch: Epoch,
    hash_key: HashKey,
    /// By index.
    engines: Vec<Option<Arc<Engine>>>,
    classes: HashMap<String, Arc<ClassTable>>,
    kernel: Option<Arc<dyn KernelTables>>,
}

/// One class's table.
#[derive(Debug)]
pub(crate) struct ClassTable {
    slots: Slots,
    mask: u32,
    /// Engine index and weight in units of 2^-32, by index.
    candidates: Vec<(u16, u64)>,
    pub(crate) load: Arc<Load>,
}

#[derive(Debug)]
enum Slots {
    /// Words of [`Slot`].
    Memory(Vec<Slot>),
    Kernel {
        base: u32,
        source: Arc<dyn KernelTables>,
    },
}

/// An engine for a request.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) engine: Arc<Engine>,
    pub(crate) class_load: Arc<Load>,
    pub(crate) slot: u32,
    pub(crate) hash: u64,
    pub(crate) epoch: Epoch,
    pub(crate) why: choice::Why,
}

/// Why a request has no engine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum NoRoute {
    /// No snapshot describes the class yet.
    NoTable,
    /// No candidate may serve.
    NoEngine,
}

impl Routes {
    /// Without tables: every request is refused until the first snapshot.
    pub fn new(bound: BoundConfig) -> Self {
        let empty = Tables {
            epoch: Epoch::default(),
            hash_key: HashKey::default(),
            engines: Vec::new(),
            classes: HashMap::new(),
            kernel: None,
        };
        Self {
            tables: ArcSwap::from_pointee(empty),
            affinity: Affinity::new(),
            responses: Responses::new(RESPONSES),
            bound,
        }
    }

    /// Makes a snapshot's tables effective, or leaves those in force untouched. With `kernel`, slots are read from
    /// there; the snapshot must be installed there first.
    ///
    /// # Errors
    /// The snapshot's tables are not valid, or the kernel does not have them.
    pub fn install(
        &self,
        snapshot: &Snapshot,
        kernel: Option<Arc<dyn KernelTables>>,
        now: Tick,
    ) -> Result<(), RouteError> {
        let current = self.tables.load();
        let mut engines: Vec<Option<Arc<Engine>>> = Vec::new();
        for entry in &snapshot.engines {
            let index = usize::from(entry.index);
            let known = current.engines.get(index).and_then(Option::as_ref);
            let load =
                known.filter(|engine| engine.id == entry.id.as_str()).map(|engine| Arc::clone(&engine.load));
            engines.resize(index.max(engines.len()), None);
            engines.insert(index, Some(Arc::new(Engine::new(entry, load.unwrap_or_default()))));
        }
        let mut classes = HashMap::new();
        for entry in &snapshot.tables {
            let previous = current.classes.get(entry.class.as_str());
            let table = class_table(snapshot, entry, previous.map(Arc::as_ref), kernel.as_ref(), now)?;
            classes.insert(entry.class.as_str().to_owned(), Arc::new(table));
        }
        let hash_key = HashKey::expand(snapshot.secret);
        self.tables.store(Arc::new(Tables { epoch: snapshot.epoch, hash_key, engines, classes, kernel }));
        Ok(())
    }

    /// Epoch of the tables in force; zero before the first.
    pub fn epoch(&self) -> Epoch {
        self.tables.load().epoch
    }

    /// Every engine of the tables in force.
    pub fn engines(&self) -> Vec<Arc<Engine>> {
        self.tables.load().engines.iter().flatten().cloned().collect()
    }

    /// Work in flight by engine, in the exposition text of Prometheus.
    pub(crate) fn render_load(&self) -> String {
        let engines = self.engines();
        let mut out = String::new();
        type Pick = fn(&Load) -> i64;
        let gauges: [(&str, &str, Pick); 2] = [
            ("penstock_http_requests_in_flight", "Requests without a complete answer.", Load::requests),
            ("penstock_http_tokens_in_flight", "Estimated tokens of these requests.", Load::tokens),
        ];
        for (name, help, pick) in gauges {
            out += &format!("# HELP {name} {help}\n# TYPE {name} gauge\n");
            for engine in &engines {
                out += &format!("{name}{{engine=\"{}\"}} {}\n", engine.id, pick(&engine.load));
            }
        }
        out
    }

    /// The engine for a key. Engines in `tried` are left out.
    pub(crate) fn route(&self, class: &str, key: u64, tried: &[u16]) -> Result<Route, NoRoute> {
        let tables = self.tables.load();
        let table = tables.classes.get(class).ok_or(NoRoute::NoTable)?;
        let hash = tables.hash_key.of_key(key);
        let rules =
            RouteRules { tables: &tables, table, affinity: &self.affinity, bound: self.bound, hash, tried };
        let Choice { engine, slot, why } = choice::choose(&rules, hash).ok_or(NoRoute::NoEngine)?;
        Ok(Route {
            engine: tables.engine(engine).cloned().ok_or(NoRoute::NoEngine)?,
            class_load: Arc::clone(&table.load),
            slot,
            hash,
            epoch: tables.epoch,
            why,
        })
    }
}

impl Tables {
    fn engine(&self, index: u16) -> Option<&Arc<Engine>> {
        self.engines.get(usize::from(index))?.as_ref()
    }
}

impl ClassTable {
    fn slot(&self, at: u32) -> Slot {
        match &self.slots {
            Slots::Memory(slots) => slots[at as usize],
            Slots::Kernel { base, source } => source.slot(base + at),
        }
    }
}

/// The tables in force as the choice asks about them.
struct RouteRules<'a> {
    tables: &'a Tables,
    table: &'a ClassTable,
    affinity: &'a Affinity,
    bound: BoundConfig,
    hash: u64,
    tried: &'a [u16],
}

impl Rules for RouteRules<'_> {
    fn mask(&self) -> u32 {
        self.table.mask
    }

    fn slot(&self, at: u32) -> Slot {
        self.table.slot(at)
    }

    fn takes_requests(&self, engine: u16) -> bool {
        !self.tried.contains(&engine)
            && self.tables.engine(engine).is_some_and(|engine| engine.takes_requests())
            && self.tables.kernel.as_ref().is_none_or(|kernel| kernel.takes_new_flows(engine))
    }

    fn over_bound(&self, engine: u16) -> bool {
        let Some(tokens) = self.tables.engine(engine).map(|engine| engine.load.tokens()) else {
            return false;
        };
        if tokens <= self.bound.slack_tokens {
            return false;
        }
        let at = self.table.candidates.binary_search_by_key(&engine, |(index, _)| *index);
        let weight = at.map_or(0, |at| self.table.candidates[at].1);
        choice::is_over(self.bound, tokens, self.table.load.tokens(), weight)
    }

    fn affinity(&self) -> Option<u16> {
        self.affinity.get(self.hash)
    }

    fn nearest(&self) -> Option<u16> {
        let candidates = self.table.candidates.iter().map(|(index, _)| *index);
        let able = candidates.filter(|index| self.takes_requests(*index));
        able.min_by_key(|index| self.tables.engine(*index).map_or(u32::MAX, |engine| engine.rtt_us))
    }
}

fn class_table(
    snapshot: &Snapshot,
    entry: &TableEntry,
    previous: Option<&ClassTable>,
    kernel: Option<&Arc<dyn KernelTables>>,
    now: Tick,
) -> Result<ClassTable, RouteError> {
    let not_in_kernel = || RouteError::NotInKernel { class: entry.class.clone() };
    let (slots, size) = match kernel {
        Some(source) => {
            let (base, size) = source.region(&entry.class).ok_or_else(not_in_kernel)?;
            (Slots::Kernel { base, source: Arc::clone(source) }, size)
        }
        None => {
            let before = match previous.map(|table| &table.slots) {
                Some(Slots::Memory(slots)) if slots.len() == entry.slots.len() => Some(slots.as_slice()),
                _ => None,
            };
            let slots = memory_slots(snapshot, entry, before, now)?;
            let size = u32::try_from(slots.len()).unwrap_or(u32::MAX);
            (Slots::Memory(slots), size)
        }
    };
    Ok(ClassTable {
        slots,
        mask: size - 1,
        candidates: entry.candidates.iter().map(|candidate| (candidate.engine, candidate.weight)).collect(),
        load: previous.map(|table| Arc::clone(&table.load)).unwrap_or_default(),
    })
}

/// The slots of a snapshot with their fallbacks, and with the origins of those that moved.
fn memory_slots(
    snapshot: &Snapshot,
    entry: &TableEntry,
    before: Option<&[Slot]>,
    now: Tick,
) -> Result<Vec<Slot>, RouteError> {
    let wrong = |reason: String| RouteError::Table { class: entry.class.clone(), reason };
    let id_of = |index: u16| {
        snapshot.engines.iter().find(|engine| engine.index == index).map(|engine| engine.id.as_str())
    };
    let candidates = entry
        .candidates
        .iter()
        .map(|candidate| {
            let engine = candidate.engine;
            let id = id_of(engine).ok_or_else(|| wrong(format!("engine {engine} is not described")))?;
            Ok(table::Candidate { engine, key: table::EngineKey::of(id), weight: candidate.weight })
        })
        .collect::<Result<Vec<_>, RouteError>>()?;
    let candidates = table::Candidates::new(&candidates).map_err(|error| wrong(error.to_string()))?;
    let slots = table::SlotTable::new(entry.slots.clone()).map_err(|error| wrong(error.to_string()))?;
    let fallbacks = table::fallbacks(&slots, &candidates);
    let pairs = slots.slots().iter().zip(fallbacks).enumerate();
    Ok(pairs
        .map(|(at, (&engine, fallback))| match before.map(|slots| slots[at]) {
            None => Slot::stable(engine, fallback),
            Some(old) if old.engine != engine => old.moved(engine, fallback, now),
            Some(old) if old.changed_at != 0 && now.since(Tick(old.changed_at)) < IDLE_TICKS => {
                Slot { fallback, ..old }
            }
            Some(_) => Slot::stable(engine, fallback),
        })
        .collect())
}

#[cfg(test)]
#[path = "route_tests.rs"]
mod tests;
