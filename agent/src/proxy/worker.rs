//! One thread's state. Nothing on the way of a request is shared with other threads but atomics.
use std::{
    cell::{Cell, RefCell},
    collections::HashSet,
    hash::{BuildHasher, RandomState},
    io,
    rc::Rc,
    sync::{Arc, MutexGuard},
    time::Duration,
};

use tokio::{net::TcpStream, time::Instant};

use super::{
    access_log::AccessLog,
    budget::Budget,
    config::{HttpConfig, UpstreamProtocol},
    deadline::Deadlines,
    engine::Engine,
    h2::client::Connections,
    io::Io,
    metrics::{Metrics, Shard},
    pool::{EngineConnection, Pools},
    route::Routes,
    tls::EngineTls,
};

/// Bytes that are read at once: a piece is handled before the next is read, so one buffer serves all connections.
const SCRATCH: usize = 128 << 10;

#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) index: usize,
    pub(crate) config: Arc<HttpConfig>,
    pub(crate) routes: Arc<Routes>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) log: Option<AccessLog>,
    pub(crate) pools: Pools,
    pub(crate) http2: Connections,
    engine_tls: Option<EngineTls>,
    pub(crate) budget: RefCell<Budget>,
    pub(crate) deadlines: Deadlines,
    pub(crate) scratch: RefCell<Box<[u8]>>,
    pub(crate) draining: Cell<bool>,
    pub(crate) connections: Cell<usize>,
    /// Engines to which connections are being opened ahead of requests.
    pub(crate) warming: RefCell<HashSet<u16>>,
    random: Cell<u64>,
    start: Instant,
}

impl Worker {
    pub(crate) fn new(
        index: usize,
        config: Arc<HttpConfig>,
        routes: Arc<Routes>,
        metrics: Arc<Metrics>,
        log: Option<AccessLog>,
        engine_tls: Option<EngineTls>,
    ) -> Rc<Self> {
        let budget = Budget::new(config.retry, config.workers.get());
        Rc::new(Self {
            index,
            routes,
            metrics,
            log,
            pools: Pools::default(),
            http2: Connections::default(),
            engine_tls,
            budget: RefCell::new(budget),
            deadlines: Deadlines::default(),
            scratch: RefCell::new(vec![0; SCRATCH].into_boxed_slice()),
            draining: Cell::new(false),
            connections: Cell::new(0),
            warming: RefCell::default(),
            random: Cell::new(RandomState::new().hash_one(index) | 1),
            start: Instant::now(),
            config,
        })
    }

    pub(crate) fn shard(&self) -> MutexGuard<'_, Shard> {
        self.metrics.shard(self.index)
    }

    pub(crate) fn age(&self) -> Duration {
        self.start.elapsed()
    }

    /// A number that need not be hard to guess: xorshift64* (Marsaglia; Vigna).
    pub(crate) fn random(&self) -> u64 {
        let mut x = self.random.get();
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.random.set(x);
        x.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A connection to an engine that is there already. An HTTP/2 connection gives one of its streams.
    pub(crate) fn idle(&self, engine: &Engine) -> Option<EngineConnection> {
        let now = self.deadlines.now();
        match self.config.upstream.protocol {
            UpstreamProtocol::Http1 => {
                self.pools.take(engine.index, engine.address, &self.config.upstream, now)
            }
            UpstreamProtocol::Http2 => {
                let stream = self.http2.stream(engine.index, engine.address)?;
                Some(EngineConnection::new(stream, engine.address, now))
            }
        }
    }

    /// How many connections an engine has less than `wanted`. One of HTTP/2 is enough.
    pub(crate) fn missing(&self, engine: &Engine, wanted: usize) -> usize {
        match self.config.upstream.protocol {
            UpstreamProtocol::Http1 => wanted.saturating_sub(self.pools.idle(engine.index)),
            UpstreamProtocol::Http2 => usize::from(self.http2.stream(engine.index, engine.address).is_none()),
        }
    }

    /// A new connection to an engine.
    pub(crate) async fn connect(&self, engine: &Engine) -> io::Result<EngineConnection> {
        let limit = self.config.upstream.connect_timeout;
        let connected = tokio::time::timeout(limit, self.connect_in_time(engine)).await;
        let io = connected.map_err(|_elapsed| io::Error::from(io::ErrorKind::TimedOut))??;
        Ok(EngineConnection::new(io, engine.address, self.deadlines.now()))
    }

    async fn connect_in_time(&self, engine: &Engine) -> io::Result<Io> {
        let stream = TcpStream::connect(engine.address).await?;
        stream.set_nodelay(true)?;
        let io = match &self.engine_tls {
            Some(tls) => tls.connect(stream).await?,
            None => Io::Tcp(stream),
        };
        match self.config.upstream.protocol {
            UpstreamProtocol::Http1 => Ok(io),
            UpstreamProtocol::Http2 => self.http2.begin(engine.index, engine.address, io).await,
        }
    }

    /// Keeps a connection for the next request, where it carries one at a time.
    pub(crate) fn keep(&self, engine: &Engine, mut connection: EngineConnection) {
        connection.requests += 1;
        self.keep_unused(engine, connection);
    }

    /// The same for a connection that has not carried a request.
    pub(crate) fn keep_unused(&self, engine: &Engine, connection: EngineConnection) {
        if self.config.upstream.protocol == UpstreamProtocol::Http1 {
            self.pools.put(engine.index, connection, &self.config.upstream, self.deadlines.now());
        }
    }
}
