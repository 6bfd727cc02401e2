//! The QUIC endpoint that agents connect to.
use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use penstock_wire::{
    Canonical,
    transport::{Close, CredentialsError, SettingsError, TlsFiles, server_config},
};
use tokio::{
    sync::{Semaphore, watch},
    task::{JoinHandle, JoinSet},
    time::{interval, timeout},
};
use tracing::{debug, info, warn};

use super::{credentials::Watched, roster::Roster, session};

/// Handshakes at once; further ones wait, after proving their address.
const HANDSHAKES: usize = 128;
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Sessions at once; further ones are refused.
const SESSIONS: usize = 8192;

#[derive(Clone, Debug)]
pub struct ServerConfig {
    pub listen: SocketAddr,
    pub tls: TlsFiles,
    /// How often the certificate files are looked at for a change.
    pub reload_every: Duration,
    pub canonical: Canonical,
}

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("loading the controller's certificate")]
    Credentials(#[from] CredentialsError),
    #[error("using the controller's certificate")]
    Settings(#[from] SettingsError),
    /// Another process has the port, or the address is not of this host.
    #[error("listening on {address}")]
    Bind { address: SocketAddr, source: io::Error },
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Server {
    pub(super) fn start(config: ServerConfig, roster: Arc<Roster>) -> Result<Self, ListenError> {
        let watched = Watched::load(config.tls)?;
        let settings = server_config(watched.credentials())?;
        let bind = |source| ListenError::Bind { address: config.listen, source };
        let endpoint = quinn::Endpoint::server(settings, config.listen).map_err(bind)?;
        let address = endpoint.local_addr().map_err(bind)?;
        let (stop, stopped) = watch::channel(false);
        let acceptor = Acceptor { endpoint, watched, roster, canonical: config.canonical, stopped };
        let task = tokio::spawn(acceptor.run(config.reload_every));
        info!(%address, "listening for agents");
        Ok(Self { address, stop, task })
    }

    /// Where agents connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes every session and waits for their tasks.
    pub async fn shutdown(self) {
        self.stop.send_replace(true);
        if let Err(error) = self.task.await {
            warn!(%error, "the server's task did not end well");
        }
    }
}

struct Acceptor {
    endpoint: quinn::Endpoint,
    watched: Watched,
    roster: Arc<Roster>,
    canonical: Canonical,
    stopped: watch::Receiver<bool>,
}

impl Acceptor {
    async fn run(mut self, reload_every: Duration) {
        let mut sessions = JoinSet::new();
        let handshakes = Arc::new(Semaphore::new(HANDSHAKES));
        let mut reload = interval(reload_every);
        let mut stopped = self.stopped.clone();
        let mut number = 0;
        loop {
            tokio::select! {
                incoming = self.endpoint.accept() => {
                    let Some(incoming) = incoming else { break };
                    number += 1;
                    if let Some(incoming) = admit(incoming, &handshakes, sessions.len()) {
                        let roster = Arc::clone(&self.roster);
                        let handshakes = Arc::clone(&handshakes);
                        sessions.spawn(connect(incoming, handshakes, number, roster, self.canonical));
                    }
                }
                Some(ended) = sessions.join_next() => {
                    if let Err(error) = ended {
                        warn!(%error, "a session's task did not end well");
                    }
                }
                _ = reload.tick() => self.reload(),
                _ = stopped.wait_for(|stopped| *stopped) => break,
            }
        }
        self.endpoint.close(Close::Shutdown.code(), Close::Shutdown.reason().as_bytes());
        while sessions.join_next().await.is_some() {}
        self.endpoint.wait_idle().await;
    }

    /// New sessions use the new files; those that are open go on until their own certificate ends.
    fn reload(&mut self) {
        let settings = match self.watched.reload() {
            Ok(None) => return,
            Ok(Some(credentials)) => server_config(credentials),
            Err(error) => return warn!(error = &error as &dyn std::error::Error, "certificate not reloaded"),
        };
        match settings {
            Ok(settings) => {
                self.endpoint.set_server_config(Some(settings));
                info!("certificate reloaded");
            }
            Err(error) => warn!(error = &error as &dyn std::error::Error, "certificate not reloaded"),
        }
    }
}

/// Under load, an address must prove itself before it costs a handshake.
fn admit(incoming: quinn::Incoming, handshakes: &Semaphore, sessions: usize) -> Option<quinn::Incoming> {
    if sessions >= SESSIONS {
        incoming.refuse();
        return None;
    }
    if handshakes.available_permits() > HANDSHAKES / 2 || incoming.remote_address_validated() {
        return Some(incoming);
    }
    if incoming.retry().is_err() {
        debug!("an address proved itself twice");
    }
    None
}

async fn connect(
    incoming: quinn::Incoming,
    handshakes: Arc<Semaphore>,
    number: u64,
    roster: Arc<Roster>,
    canonical: Canonical,
) {
    let address = incoming.remote_address();
    let connection = {
        let Ok(_permit) = handshakes.acquire().await else { return };
        match timeout(HANDSHAKE_TIMEOUT, incoming).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return warn!(%address, %error, "handshake failed"),
            Err(_elapsed) => return warn!(%address, "handshake took too long"),
        }
    };
    session::serve(connection, number, roster, canonical).await;
}
