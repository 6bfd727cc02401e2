//! An engine as the HTTP door sees it: where it is, and what it has in flight.
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
};

use penstock_wire::{EngineEntry, EngineState};

/// One engine of the table in force. Replaced when its entry changes; its load is carried over.
#[derive(Debug)]
pub struct Engine {
    pub index: u16,
    pub id: String,
    pub address: SocketAddr,
    pub rtt_us: u32,
    pub state: EngineState,
    pub load: Arc<Load>,
}

/// Work in flight at one engine, from this host.
#[derive(Debug, Default)]
pub struct Load {
    requests: AtomicI64,
    tokens: AtomicI64,
}

impl Engine {
    pub(crate) fn new(entry: &EngineEntry, load: Arc<Load>) -> Self {
        Self {
            index: entry.index,
            id: entry.id.as_str().to_owned(),
            address: entry.address,
            rtt_us: entry.rtt_us,
            state: entry.state,
            load,
        }
    }

    /// Whether a request may go there now.
    pub(crate) fn takes_requests(&self) -> bool {
        self.state == EngineState::Serving
    }
}

impl Load {
    pub fn requests(&self) -> i64 {
        self.requests.load(Relaxed)
    }

    pub fn tokens(&self) -> i64 {
        self.tokens.load(Relaxed)
    }
}

/// Counts one request, here and in its class, until it is dropped.
#[derive(Debug)]
pub(crate) struct InFlight {
    engine: Arc<Load>,
    class: Arc<Load>,
    tokens: i64,
}

impl InFlight {
    pub(crate) fn start(engine: &Arc<Load>, class: &Arc<Load>, tokens: i64) -> Self {
        for load in [engine, class] {
            load.requests.fetch_add(1, Relaxed);
            load.tokens.fetch_add(tokens, Relaxed);
        }
        Self { engine: Arc::clone(engine), class: Arc::clone(class), tokens }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        for load in [&self.engine, &self.class] {
            load.requests.fetch_sub(1, Relaxed);
            load.tokens.fetch_sub(self.tokens, Relaxed);
        }
    }
}
