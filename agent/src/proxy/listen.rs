//! Sockets that wait for clients: of each TCP address one a worker, so that the kernel deals connections out.
use std::{
    io,
    net::SocketAddr,
    os::unix::net::{UnixListener as StdUnixListener, UnixStream as StdUnixStream},
    path::Path,
    sync::Arc,
};

use tokio::{
    net::{TcpListener, TcpSocket, TcpStream, UnixListener},
    task::yield_now,
};
use tokio_rustls::TlsAcceptor;

use super::{
    config::{HttpConfig, Listen, ListenAddress},
    io::Io,
    server::StartError,
    tls::{self, Certificate},
};

/// Connections that wait to be accepted, for each socket.
const BACKLOG: u32 = 4096;

/// Bound sockets of all workers.
pub(crate) struct Listeners {
    /// By worker, in the order of the configuration.
    pub(crate) workers: Vec<Vec<Bound>>,
    /// With the ports that the kernel chose.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) certificates: Vec<Arc<Certificate>>,
    pub(crate) metrics: Option<TcpSocket>,
}

/// A socket that is bound and does not listen yet: listening belongs to a worker's runtime.
pub(crate) enum Bound {
    Tcp(TcpSocket, Option<TlsAcceptor>),
    Unix(StdUnixListener),
}

/// A socket of a worker.
pub(crate) enum Listener {
    Tcp(TcpListener, Option<TlsAcceptor>),
    Unix(UnixListener),
}

/// A client that has just connected.
pub(crate) enum Accepted {
    Plain(Io),
    /// The handshake is still to come.
    Tls(TcpStream, TlsAcceptor),
}

impl Listeners {
    /// Binds everything.
    pub(crate) fn bind(config: &HttpConfig) -> Result<Self, StartError> {
        let count = config.workers.get();
        let workers = (0..count).map(|_| Vec::new()).collect();
        let mut listeners = Self { workers, addresses: Vec::new(), certificates: Vec::new(), metrics: None };
        for listen in &config.listen {
            let acceptor = match &listen.tls {
                Some(files) => {
                    let certificate =
                        Certificate::load(files).map_err(|source| StartError::Tls { source })?;
                    listeners.certificates.push(Arc::clone(&certificate));
                    Some(tls::acceptor(certificate).map_err(|source| StartError::Tls { source })?)
                }
                None => None,
            };
            let sockets = bind(listen, count, acceptor.as_ref(), &mut listeners.addresses);
            let sockets = sockets.map_err(|source| StartError::Listen {
                address: match &listen.address {
                    ListenAddress::Tcp(address) => address.to_string(),
                    ListenAddress::Unix(path) => path.display().to_string(),
                },
                source,
            })?;
            listeners.workers.iter_mut().zip(sockets).for_each(|(own, socket)| own.push(socket));
        }
        if let Some(address) = config.metrics {
            let failed = |source| StartError::Listen { address: address.to_string(), source };
            listeners.metrics = Some(bind_tcp(address).map_err(failed)?);
        }
        Ok(listeners)
    }
}

fn bind(
    listen: &Listen,
    count: usize,
    acceptor: Option<&TlsAcceptor>,
    addresses: &mut Vec<SocketAddr>,
) -> io::Result<Vec<Bound>> {
    match &listen.address {
        ListenAddress::Tcp(address) => {
            let first = bind_tcp(*address)?;
            let address = first.local_addr()?;
            addresses.push(address);
            let others = (1..count).map(|_| bind_tcp(address));
            let sockets = std::iter::once(Ok(first)).chain(others);
            sockets.map(|socket| socket.map(|socket| Bound::Tcp(socket, acceptor.cloned()))).collect()
        }
        ListenAddress::Unix(path) => {
            remove_stale(path)?;
            let listener = StdUnixListener::bind(path)?;
            listener.set_nonblocking(true)?;
            (0..count).map(|_| listener.try_clone().map(Bound::Unix)).collect()
        }
    }
}

fn bind_tcp(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// Removes the socket of a process that is gone.
fn remove_stale(path: &Path) -> io::Result<()> {
    match StdUnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        _ => Ok(()),
    }
}

impl Bound {
    /// Starts to listen, in the runtime at hand.
    pub(crate) fn listen(self) -> io::Result<Listener> {
        match self {
            Self::Tcp(socket, acceptor) => {
                socket.listen(BACKLOG).map(|listener| Listener::Tcp(listener, acceptor))
            }
            Self::Unix(listener) => UnixListener::from_std(listener).map(Listener::Unix),
        }
    }
}

impl Listener {
    pub(crate) async fn accept(&self) -> io::Result<Accepted> {
        match self {
            Self::Tcp(listener, acceptor) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok(match acceptor {
                    Some(acceptor) => Accepted::Tls(stream, acceptor.clone()),
                    None => Accepted::Plain(Io::Tcp(stream)),
                })
            }
            Self::Unix(listener) => {
                // The socket is shared by all workers: one that has just accepted lets others have a turn.
                yield_now().await;
                listener.accept().await.map(|(stream, _)| Accepted::Plain(Io::Unix(stream)))
            }
        }
    }
}
