//! The last snapshot for a new host of the same frontend, while no controller is there to give it.
use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use penstock_wire::{
    Digests, FrontendId, MAX_AGENT_MESSAGE, Snapshot, ToAgent, ToController, Update,
    transport::{
        AgentIdentity, Close, CredentialsError, IdentityError, ReadError, SettingsError, TlsFiles,
        WriteError, identity_of, read_message, server_config, version_of, write_message,
    },
};
use quinn::{Connection, ConnectionError, Endpoint, Incoming};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{interval, timeout},
};
use tracing::{info, warn};

/// One peer is served at a time, for at most this long.
const PATIENCE: Duration = Duration::from_secs(10);
const RELOAD_EVERY: Duration = Duration::from_secs(60);

/// Why peers are not served.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    #[error("loading the certificate")]
    Credentials(#[from] CredentialsError),
    #[error("using the certificate")]
    Settings(#[from] SettingsError),
    #[error("listening on {address}")]
    Bind { address: SocketAddr, source: io::Error },
}

/// Why one peer got nothing.
#[derive(Debug, thiserror::Error)]
enum RefusedPeer {
    #[error("the connection broke")]
    Connection(#[from] ConnectionError),
    #[error("its certificate names no host")]
    Identity(#[from] IdentityError),
    #[error("it is of frontend {theirs}, the snapshot of {held}")]
    OtherFrontend { theirs: FrontendId, held: FrontendId },
    #[error("nothing is held here")]
    NothingHeld,
    #[error("it did not greet")]
    NoGreeting,
    #[error("reading from it")]
    Read(#[from] ReadError),
    #[error("writing to it")]
    Write(#[from] WriteError),
}

/// Task that serves peers.
#[derive(Debug)]
pub struct PeerServer {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl PeerServer {
    pub fn start(
        listen: SocketAddr,
        tls: TlsFiles,
        held: watch::Receiver<Option<Arc<Snapshot>>>,
    ) -> Result<Self, PeerError> {
        let bind = |source| PeerError::Bind { address: listen, source };
        let endpoint = Endpoint::server(server_config(&tls.load()?)?, listen).map_err(bind)?;
        let address = endpoint.local_addr().map_err(bind)?;
        let (stop, stopped) = watch::channel(false);
        info!(%address, "serving the snapshot to new hosts of the frontend");
        Ok(Self { address, stop, task: tokio::spawn(accept(endpoint, tls, held, stopped)) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub async fn shutdown(self) {
        self.stop.send_replace(true);
        if let Err(error) = self.task.await {
            warn!(%error, "the task for peers did not end well");
        }
    }
}

async fn accept(
    endpoint: Endpoint,
    tls: TlsFiles,
    held: watch::Receiver<Option<Arc<Snapshot>>>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut reload = interval(RELOAD_EVERY);
    loop {
        tokio::select! {
            incoming = endpoint.accept() => {
                let Some(incoming) = incoming else { break };
                let snapshot = held.borrow().clone();
                match timeout(PATIENCE, serve(incoming, snapshot)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => {
                        warn!(error = &error as &dyn std::error::Error, "a peer got no snapshot");
                    }
                    Err(_elapsed) => warn!("a peer took too long"),
                }
            }
            _ = reload.tick() => match tls.load().map_err(PeerError::from).and_then(|c| Ok(server_config(&c)?)) {
                Ok(settings) => endpoint.set_server_config(Some(settings)),
                Err(error) => warn!(error = &error as &dyn std::error::Error, "certificate not reloaded"),
            },
            () = asked_to_stop(&mut stopped) => break,
        }
    }
    endpoint.close(Close::Shutdown.code(), Close::Shutdown.reason().as_bytes());
    endpoint.wait_idle().await;
}

async fn asked_to_stop(stopped: &mut watch::Receiver<bool>) {
    // A server that is dropped stops as well.
    drop(stopped.wait_for(|stopped| *stopped).await);
}

async fn serve(incoming: Incoming, snapshot: Option<Arc<Snapshot>>) -> Result<(), RefusedPeer> {
    let connection = incoming.await?;
    let result = give(&connection, snapshot).await;
    let close = if result.is_ok() { Close::Shutdown } else { Close::Identity };
    connection.close(close.code(), close.reason().as_bytes());
    result
}

/// Answers one greeting with the whole state, and waits for the peer's word on it.
async fn give(connection: &Connection, snapshot: Option<Arc<Snapshot>>) -> Result<(), RefusedPeer> {
    let AgentIdentity { frontend, host } = identity_of(connection)?;
    let snapshot = snapshot.ok_or(RefusedPeer::NothingHeld)?;
    if frontend != snapshot.frontend {
        return Err(RefusedPeer::OtherFrontend { theirs: frontend, held: snapshot.frontend.clone() });
    }
    let version = version_of(connection).ok_or(RefusedPeer::NoGreeting)?;
    let (mut send, mut receive) = connection.accept_bi().await?;
    let greeting = read_message(&mut receive, MAX_AGENT_MESSAGE).await?.ok_or(RefusedPeer::NoGreeting)?;
    let Ok(ToController::Hello(_)) = ToController::decode(&greeting, version) else {
        return Err(RefusedPeer::NoGreeting);
    };
    let update = Update::keyframe(&snapshot, &Digests::of(&snapshot), None);
    write_message(&mut send, &ToAgent::Update(Box::new(update)).encode()).await?;
    read_message(&mut receive, MAX_AGENT_MESSAGE).await?;
    info!(%host, epoch = %snapshot.epoch, "snapshot given to a new host");
    Ok(())
}
