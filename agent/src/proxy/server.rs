//! The door's threads: one a core, each with its own listeners and runtime, so that a connection never changes core.
use std::{
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, mpsc::channel},
    thread::JoinHandle,
    time::Duration,
};

use tokio::sync::watch;

use super::{
    access_log::AccessLog,
    config::HttpConfig,
    listen::Listeners,
    metrics::Metrics,
    route::Routes,
    seat::Seat,
    tls::{EngineTls, TlsError},
};

/// Why the door did not open.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address is in use, not local, or needs another user.
    #[error("cannot listen on {address}")]
    Listen { address: String, source: io::Error },
    #[error("cannot open the access log {}", path.display())]
    AccessLog { path: PathBuf, source: io::Error },
    #[error("TLS is not possible")]
    Tls { source: TlsError },
    #[error("cannot start a worker")]
    Worker { source: io::Error },
}

/// A door that is open. Dropping it ends it at once.
#[derive(Debug)]
pub struct Server {
    stop: watch::Sender<Option<Duration>>,
    workers: Vec<JoinHandle<()>>,
    log: Option<JoinHandle<()>>,
    addresses: Vec<SocketAddr>,
}

impl Server {
    /// Opens the listeners and starts the workers.
    ///
    /// # Errors
    /// A listener or the access log cannot be opened, or a thread cannot be started; nothing is left open then.
    #[expect(clippy::needless_pass_by_value, reason = "the workers share them from here on")]
    pub fn start(config: HttpConfig, routes: Arc<Routes>, metrics: Arc<Metrics>) -> Result<Self, StartError> {
        let config = Arc::new(config);
        let (log, log_thread) = match &config.access_log {
            Some(path) => {
                let opened = AccessLog::open(path, Arc::clone(&metrics));
                let failed = |source| StartError::AccessLog { path: path.clone(), source };
                let (log, thread) = opened.map_err(failed)?;
                (Some(log), Some(thread))
            }
            None => (None, None),
        };
        let (stop, stopped) = watch::channel(None);
        let mut server = Self { stop, workers: Vec::new(), log: log_thread, addresses: Vec::new() };
        let tls = config.upstream.tls.as_ref().map(|tls| EngineTls::new(tls, config.upstream.protocol));
        let engine_tls = tls.transpose().map_err(|source| StartError::Tls { source })?;
        let Listeners { workers, addresses, mut certificates, metrics: mut scraped } =
            Listeners::bind(&config)?;
        server.addresses = addresses;
        for (index, listeners) in workers.into_iter().enumerate() {
            let seat = Seat {
                index,
                config: Arc::clone(&config),
                routes: Arc::clone(&routes),
                metrics: Arc::clone(&metrics),
                log: log.clone(),
                engine_tls: engine_tls.clone(),
                listeners,
                // The first worker looks after them all.
                certificates: std::mem::take(&mut certificates),
                metrics_socket: scraped.take(),
                stop: stopped.clone(),
            };
            let (ready, started) = channel();
            let thread = std::thread::Builder::new().name(format!("http-{index}"));
            let thread =
                thread.spawn(move || seat.run(&ready)).map_err(|source| StartError::Worker { source })?;
            server.workers.push(thread);
            let outcome = started.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()));
            outcome.map_err(|source| StartError::Worker { source })?;
        }
        Ok(server)
    }

    /// Where it listens over TCP, in the order of the configuration.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Accepts nothing more, ends idle connections, and waits for requests under way up to `drain`; returns when all
    /// threads have ended.
    pub fn shutdown(mut self, drain: Duration) {
        self.stop.send_replace(Some(drain));
        self.join();
    }

    fn join(&mut self) {
        for thread in self.workers.drain(..).chain(self.log.take()) {
            if thread.join().is_err() {
                tracing::error!("an HTTP worker panicked");
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.send_if_modified(|stop| stop.is_none() && stop.replace(Duration::ZERO).is_none());
        self.join();
    }
}
