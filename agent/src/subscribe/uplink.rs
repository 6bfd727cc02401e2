//! A connection to one of the controllers, made anew whenever it ends.
use std::{
    hash::{BuildHasher as _, RandomState},
    io,
    net::{Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use penstock_wire::{
    FrontendId, HostId, MAX_MESSAGE, Snapshot, ToAgent, ToController, Version,
    transport::{
        AgentIdentity, Close, CredentialsError, IdentityError, PEER_NAME, ReadError, SettingsError, TlsFiles,
        client_config, identity_of, read_message, version_of, write_message,
    },
};
use quinn::{Connection, Endpoint, RecvStream, SendStream};
use tokio::{
    net::lookup_host,
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{sleep, timeout},
};
use tracing::{debug, warn};

use super::backoff::backoff;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Messages on their way to the controller. When full, demand reports are dropped: the next one is a second away.
const OUTGOING: usize = 64;
/// A connection that lasted this long was a success.
const LASTING: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub struct UplinkConfig {
    pub host: HostId,
    pub controllers: Vec<String>,
    /// Hosts of the frontend that have the snapshot, asked in turn while this one has none.
    pub peers: Vec<String>,
    /// Read anew for every connection.
    pub tls: TlsFiles,
    pub controller_name: String,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("loading the certificate")]
    Credentials(#[from] CredentialsError),
    #[error("using the certificate")]
    Settings(#[from] SettingsError),
    #[error("the certificate names no host")]
    Identity(#[from] IdentityError),
    /// Issue a certificate for the configured host.
    #[error("the certificate is for host {certified}, the configuration for host {configured}")]
    OtherHost { certified: HostId, configured: HostId },
    #[error("{address} is a host of frontend {theirs}")]
    OtherFrontend { address: SocketAddr, theirs: FrontendId },
    #[error("looking up {controller}")]
    Lookup { controller: String, source: io::Error },
    #[error("{controller} has no address")]
    NoAddress { controller: String },
    #[error("opening a socket")]
    Socket(#[source] io::Error),
    #[error("connecting to {address}")]
    Refused { address: SocketAddr, source: quinn::ConnectError },
    #[error("connecting to {address}")]
    Failed { address: SocketAddr, source: quinn::ConnectionError },
    #[error("no answer from {address} within {CONNECT_TIMEOUT:?}")]
    NoAnswer { address: SocketAddr },
}

/// What the connection tells its owner.
#[derive(Debug)]
pub enum UplinkEvent {
    /// Greet, then talk.
    Connected {
        line: Line,
        identity: AgentIdentity,
        controller: SocketAddr,
    },
    Message(ToAgent),
    Disconnected {
        reason: String,
    },
}

/// The sending side of a connection.
#[derive(Clone, Debug)]
pub struct Line(mpsc::Sender<ToController>);

impl Line {
    /// `false` if the message was dropped: the connection has ended or is far behind.
    #[must_use]
    pub fn send(&self, message: ToController) -> bool {
        self.0.try_send(message).is_ok()
    }
}

/// Task that keeps the connection.
#[derive(Debug)]
pub struct Uplink {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Uplink {
    /// Events wait in a bounded channel; while it is full, nothing is read from the connection.
    pub fn start(
        config: UplinkConfig,
        held: watch::Receiver<Option<Arc<Snapshot>>>,
        events: mpsc::Sender<UplinkEvent>,
    ) -> Self {
        let (stop, stopped) = watch::channel(false);
        Self { stop, task: tokio::spawn(keep(config, held, events, stopped)) }
    }

    pub async fn shutdown(self) {
        self.stop.send_replace(true);
        if let Err(error) = self.task.await {
            warn!(%error, "the connection's task did not end well");
        }
    }
}

async fn keep(
    config: UplinkConfig,
    held: watch::Receiver<Option<Arc<Snapshot>>>,
    events: mpsc::Sender<UplinkEvent>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut failures = 0;
    let controllers = config.controllers.iter().map(|address| (address, config.controller_name.as_str()));
    let peers = config.peers.iter().map(|address| (address, PEER_NAME));
    for (controller, name) in controllers.chain(peers).cycle() {
        if name == PEER_NAME && held.borrow().is_some() {
            continue;
        }
        let session = async {
            let started = std::time::Instant::now();
            let reason = match connect(&config, controller, name).await {
                Ok(connected) => connected.carry(&events).await,
                Err(error) => with_causes(&error),
            };
            failures = if started.elapsed() >= LASTING { 0 } else { failures + 1 };
            debug!(controller, reason, "no connection");
            events.send(UplinkEvent::Disconnected { reason }).await.is_ok()
        };
        tokio::select! {
            alive = session => if !alive { return },
            _ = stopped.wait_for(|stopped| *stopped) => return,
        }
        let [jitter, ..] = RandomState::new().hash_one(failures).to_ne_bytes();
        tokio::select! {
            () = sleep(backoff(failures, jitter)) => {}
            _ = stopped.wait_for(|stopped| *stopped) => return,
        }
    }
}

struct Connected {
    endpoint: Endpoint,
    connection: Connection,
    identity: AgentIdentity,
}

async fn connect(config: &UplinkConfig, controller: &str, name: &str) -> Result<Connected, ConnectError> {
    let credentials = config.tls.load()?;
    let identity = AgentIdentity::from_certificate(credentials.leaf())?;
    if identity.host != config.host {
        let configured = config.host.clone();
        return Err(ConnectError::OtherHost { certified: identity.host, configured });
    }
    let settings = client_config(&credentials)?;
    let lookup = |source| ConnectError::Lookup { controller: controller.to_owned(), source };
    let address = lookup_host(controller)
        .await
        .map_err(lookup)?
        .next()
        .ok_or_else(|| ConnectError::NoAddress { controller: controller.to_owned() })?;
    let local: SocketAddr =
        if address.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
    let endpoint = Endpoint::client(local).map_err(ConnectError::Socket)?;
    let connecting = endpoint
        .connect_with(settings, address, name)
        .map_err(|source| ConnectError::Refused { address, source })?;
    let connection = timeout(CONNECT_TIMEOUT, connecting)
        .await
        .map_err(|_elapsed| ConnectError::NoAnswer { address })?
        .map_err(|source| ConnectError::Failed { address, source })?;
    if name == PEER_NAME {
        let theirs = identity_of(&connection)?;
        if theirs.frontend != identity.frontend {
            return Err(ConnectError::OtherFrontend { address, theirs: theirs.frontend });
        }
    }
    Ok(Connected { endpoint, connection, identity })
}

impl Connected {
    /// Carries messages until the connection ends; says why it did.
    async fn carry(self, events: &mpsc::Sender<UplinkEvent>) -> String {
        let _guard = CloseOnDrop(&self.connection);
        let Some(version) = version_of(&self.connection) else {
            return "no protocol version was agreed on".to_owned();
        };
        let (send, receive) = match self.connection.open_bi().await {
            Ok(streams) => streams,
            Err(error) => return error.to_string(),
        };
        let (line, outgoing) = mpsc::channel(OUTGOING);
        let controller = self.connection.remote_address();
        let connected =
            UplinkEvent::Connected { line: Line(line), identity: self.identity.clone(), controller };
        if events.send(connected).await.is_err() {
            return "the agent ends".to_owned();
        }
        let reason = tokio::select! {
            reason = write_all(send, outgoing, version) => reason,
            reason = read_all(receive, events) => reason,
        };
        let reason = self.connection.close_reason().map_or(reason, |error| error.to_string());
        self.connection.close(Close::Shutdown.code(), Close::Shutdown.reason().as_bytes());
        self.endpoint.wait_idle().await;
        reason
    }
}

/// A task that is stopped midway still says goodbye.
struct CloseOnDrop<'a>(&'a Connection);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.close(Close::Shutdown.code(), Close::Shutdown.reason().as_bytes());
    }
}

async fn write_all(
    mut stream: SendStream,
    mut outgoing: mpsc::Receiver<ToController>,
    version: Version,
) -> String {
    while let Some(message) = outgoing.recv().await {
        if let Err(error) = write_message(&mut stream, &message.encode(version)).await {
            return with_causes(&error);
        }
    }
    "the agent closed the line".to_owned()
}

async fn read_all(mut stream: RecvStream, events: &mpsc::Sender<UplinkEvent>) -> String {
    loop {
        let bytes = match read_message(&mut stream, MAX_MESSAGE).await {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return "the controller closed the stream".to_owned(),
            Err(error @ ReadError::TooLong { .. }) => return with_causes(&error),
            Err(error) => return with_causes(&error),
        };
        let message = match ToAgent::decode(&bytes) {
            Ok(message) => message,
            Err(error) => return with_causes(&error),
        };
        if events.send(UplinkEvent::Message(message)).await.is_err() {
            return "the agent ends".to_owned();
        }
    }
}

/// The error and its causes in one line.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
