//! Connections to engines that wait for a request. Each worker has its own.
use std::{cell::RefCell, net::SocketAddr, time::Duration};

use super::{config::UpstreamConfig, io::Io};

/// A connection to an engine.
#[derive(Debug)]
pub(crate) struct EngineConnection {
    pub(crate) io: Io,
    pub(crate) address: SocketAddr,
    /// Requests that it has carried.
    pub(crate) requests: u32,
    /// Worker time of its last use, in milliseconds.
    used_at: u64,
}

impl EngineConnection {
    pub(crate) fn new(io: Io, address: SocketAddr, now: u64) -> Self {
        Self { io, address, requests: 0, used_at: now }
    }
}

/// Idle connections by engine index. The one used last is taken first, so that surplus ones age.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    engines: RefCell<Vec<Vec<EngineConnection>>>,
}

impl Pools {
    /// An idle connection that the engine will most likely still take a request on.
    pub(crate) fn take(
        &self,
        engine: u16,
        address: SocketAddr,
        config: &UpstreamConfig,
        now: u64,
    ) -> Option<EngineConnection> {
        let mut engines = self.engines.borrow_mut();
        let idle = engines.get_mut(usize::from(engine))?;
        while let Some(mut connection) = idle.pop() {
            if connection.address == address && is_fresh(&connection, config, now) && connection.io.is_quiet()
            {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection after a request, within the bounds.
    pub(crate) fn put(
        &self,
        engine: u16,
        mut connection: EngineConnection,
        config: &UpstreamConfig,
        now: u64,
    ) {
        let mut engines = self.engines.borrow_mut();
        let at = usize::from(engine);
        if engines.len() <= at {
            engines.resize_with(at + 1, Vec::new);
        }
        if connection.requests < config.requests_per_connection && engines[at].len() < config.idle_connections
        {
            connection.used_at = now;
            engines[at].push(connection);
        }
    }

    /// Closes connections that have been idle too long.
    pub(crate) fn prune(&self, config: &UpstreamConfig, now: u64) {
        for idle in self.engines.borrow_mut().iter_mut() {
            idle.retain(|connection| is_fresh(connection, config, now));
            if idle.is_empty() {
                idle.shrink_to_fit();
            }
        }
    }

    /// Idle connections to an engine.
    pub(crate) fn idle(&self, engine: u16) -> usize {
        self.engines.borrow().get(usize::from(engine)).map_or(0, Vec::len)
    }

    /// Closes all.
    pub(crate) fn clear(&self) {
        self.engines.borrow_mut().clear();
    }
}

fn is_fresh(connection: &EngineConnection, config: &UpstreamConfig, now: u64) -> bool {
    Duration::from_millis(now.saturating_sub(connection.used_at)) < config.idle
}
