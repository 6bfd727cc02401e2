//! A worker's thread: accepts, keeps time, and drains at the end.
use std::{
    io,
    rc::Rc,
    sync::{Arc, mpsc::Sender},
    time::Duration,
};

use tokio::{
    net::TcpSocket,
    runtime,
    sync::watch,
    task::{LocalSet, spawn_local},
    time::{Instant, interval, sleep},
};

use super::{
    access_log::AccessLog,
    config::HttpConfig,
    connection::{self, Counted},
    deadline::TICK,
    listen::{Accepted, Bound, Listener},
    metrics::Metrics,
    route::Routes,
    scrape,
    tls::{Certificate, EngineTls},
    worker::Worker,
};

/// Time after a failed `accept`: descriptors are short, and trying at once would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
const SCRAPE_BACKLOG: u32 = 16;

/// What a worker is started with.
pub(crate) struct Seat {
    pub(crate) index: usize,
    pub(crate) config: Arc<HttpConfig>,
    pub(crate) routes: Arc<Routes>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) log: Option<AccessLog>,
    pub(crate) engine_tls: Option<EngineTls>,
    pub(crate) listeners: Vec<Bound>,
    /// To look after.
    pub(crate) certificates: Vec<Arc<Certificate>>,
    /// For scrapes: the first worker answers them.
    pub(crate) metrics_socket: Option<TcpSocket>,
    /// The time to drain, once the door is to close.
    pub(crate) stop: watch::Receiver<Option<Duration>>,
}

impl Seat {
    /// Runs until the door closes. Says once on `ready` whether it listens.
    pub(crate) fn run(self, ready: &Sender<io::Result<()>>) {
        let outcome = runtime::Builder::new_current_thread().enable_all().build().and_then(|runtime| {
            let _entered = runtime.enter();
            let listening: io::Result<Vec<Listener>> =
                self.listeners.into_iter().map(Bound::listen).collect();
            let scraped = self.metrics_socket.map(|socket| socket.listen(SCRAPE_BACKLOG)).transpose();
            Ok((listening?, scraped?, runtime))
        });
        let (listeners, scraped, runtime) = match outcome {
            Ok(opened) => opened,
            // Nobody waits for the answer only if the start was given up.
            Err(error) => return ready.send(Err(error)).unwrap_or_default(),
        };
        ready.send(Ok(())).unwrap_or_default();
        let worker =
            Worker::new(self.index, self.config, self.routes, self.metrics, self.log, self.engine_tls);
        let local = LocalSet::new();
        let (mut stop, certificates) = (self.stop, self.certificates);
        local.block_on(&runtime, async {
            for listener in listeners {
                spawn_local(accept(Rc::clone(&worker), listener, stop.clone()));
            }
            if let Some(listener) = scraped {
                spawn_local(scrape::serve(Rc::clone(&worker), listener));
            }
            let clock = spawn_local(keep_time(Rc::clone(&worker), certificates));
            // A sender that is gone means the same as one that says stop.
            let drain = stop.wait_for(Option::is_some).await.map_or(None, |drain| *drain).unwrap_or_default();
            drain_connections(&worker, drain).await;
            clock.abort();
        });
        // What is still under way ends with the runtime.
    }
}

async fn accept(worker: Rc<Worker>, listener: Listener, mut stop: watch::Receiver<Option<Duration>>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(Option::is_some) => return,
        };
        match accepted {
            Ok(accepted) => start(&worker, accepted),
            Err(error) => {
                tracing::warn!(%error, "connection not accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn start(worker: &Rc<Worker>, accepted: Accepted) {
    let Some(counted) = Counted::new(worker) else { return };
    let worker = Rc::clone(worker);
    spawn_local(async move {
        connection::serve(&worker, accepted).await;
        drop(counted);
    });
}

async fn keep_time(worker: Rc<Worker>, certificates: Vec<Arc<Certificate>>) {
    let start = Instant::now();
    let mut ticks = interval(TICK);
    loop {
        ticks.tick().await;
        let now = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        worker.deadlines.tick(now);
        worker.pools.prune(&worker.config.upstream, now);
        certificates.iter().for_each(|certificate| certificate.refresh());
        warm(&worker);
    }
}

/// Opens connections to engines that have fewer idle ones than they should. One that fails is tried again with the
/// next tick after its time is up.
fn warm(worker: &Rc<Worker>) {
    let wanted = worker.config.upstream.warm_connections;
    if wanted == 0 || worker.draining.get() {
        return;
    }
    for engine in worker.routes.engines().into_iter().filter(|engine| engine.takes_requests()) {
        let missing = worker.missing(&engine, wanted);
        if missing == 0 || !worker.warming.borrow_mut().insert(engine.index) {
            continue;
        }
        let worker = Rc::clone(worker);
        spawn_local(async move {
            for _ in 0..missing {
                let Ok(connection) = worker.connect(&engine).await else { break };
                worker.keep_unused(&engine, connection);
            }
            worker.warming.borrow_mut().remove(&engine.index);
        });
    }
}

/// Ends idle connections and waits for the others.
async fn drain_connections(worker: &Worker, drain: Duration) {
    worker.draining.set(true);
    let deadline = Instant::now() + drain;
    worker.deadlines.pass_idle();
    while worker.connections.get() > 0 && Instant::now() < deadline {
        sleep(TICK.min(deadline - Instant::now())).await;
        worker.deadlines.pass_idle();
    }
    worker.pools.clear();
    worker.http2.clear();
}
