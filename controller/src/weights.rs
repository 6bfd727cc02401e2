//! Weight path, between the solve and the snapshots: each frontend's split of every class over engines.
use penstock_wire::{ClassId, EngineId, FrontendId};

/// The wanted split of every (frontend, class) pair, sorted by frontend, then class.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    pub cause: Cause,
    pub tables: Vec<TableWeights>,
}

/// Why these weights differ from the ones before.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cause {
    /// Demand, capacity or network distance moved.
    Routine,
    /// An engine or a site is gone: publish at once, exempt from the limits on moved slots.
    Failure,
}

/// The split of one class at one frontend.
#[derive(Clone, Debug, PartialEq)]
pub struct TableWeights {
    pub frontend: FrontendId,
    pub class: ClassId,
    /// Every engine that may serve the class, those of weight 0 included, sorted by id. Weights are fractions of
    /// the served traffic, finite, at least 0, and sum to 1 within 1e-9.
    pub engines: Vec<(EngineId, f64)>,
}
