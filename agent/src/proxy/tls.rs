//! TLS on either side: certificates that are read again when they change, ALPN, one crypto provider.
use std::{
    io,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use arc_swap::ArcSwap;
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::{
    config::{CertificateFiles, UpstreamProtocol, UpstreamTls},
    io::Io,
};

const HTTP1: &[u8] = b"http/1.1";
const HTTP2: &[u8] = b"h2";

/// Why TLS cannot be offered or used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file is missing, not readable, or not PEM.
    #[error("cannot read {path}")]
    File { path: String, source: rustls::pki_types::pem::Error },
    #[error("{path} holds no certificate")]
    Empty { path: String },
    /// Key and certificate are not of one pair, or of a kind that is not supported.
    #[error("certificate and key are not usable")]
    Pair { source: rustls::Error },
    #[error("{name:?} is not a server's name")]
    Name { name: String },
}

/// The certificate of a listener.
#[derive(Debug)]
pub(crate) struct Certificate {
    files: CertificateFiles,
    current: ArcSwap<CertifiedKey>,
    read_at: Mutex<Option<(SystemTime, SystemTime)>>,
}

impl Certificate {
    pub(crate) fn load(files: &CertificateFiles) -> Result<Arc<Self>, TlsError> {
        let read_at = modified(files);
        let current = ArcSwap::from_pointee(read(files)?);
        Ok(Arc::new(Self { files: files.clone(), current, read_at: Mutex::new(read_at) }))
    }

    /// Reads the files again if they changed. The certificate in force stays while the new one is not usable.
    pub(crate) fn refresh(&self) {
        let found = modified(&self.files);
        let mut read_at = self.read_at.lock().unwrap_or_else(PoisonError::into_inner);
        if found.is_none() || found == *read_at {
            return;
        }
        match read(&self.files) {
            Ok(key) => {
                self.current.store(Arc::new(key));
                *read_at = found;
                tracing::info!(certificate = %self.files.certificate.display(), "certificate reloaded");
            }
            // Most likely only one of the two files is new so far.
            Err(error) => tracing::warn!(%error, "certificate not reloaded"),
        }
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

fn modified(files: &CertificateFiles) -> Option<(SystemTime, SystemTime)> {
    let time = |path: &Path| std::fs::metadata(path).and_then(|data| data.modified()).ok();
    Some((time(&files.certificate)?, time(&files.key)?))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let name = || path.display().to_string();
    let read = CertificateDer::pem_file_iter(path).and_then(|all| all.collect::<Result<Vec<_>, _>>());
    let read = read.map_err(|source| TlsError::File { path: name(), source })?;
    if read.is_empty() { Err(TlsError::Empty { path: name() }) } else { Ok(read) }
}

fn read(files: &CertificateFiles) -> Result<CertifiedKey, TlsError> {
    let chain = certificates(&files.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|source| TlsError::File { path: files.key.display().to_string(), source })?;
    let pair = CertifiedKey::from_der(chain, key, &ring::default_provider());
    pair.map_err(|source| TlsError::Pair { source })
}

/// Accepts TLS with a certificate. Clients choose between HTTP/2 and HTTP/1.1.
pub(crate) fn acceptor(certificate: Arc<Certificate>) -> Result<TlsAcceptor, TlsError> {
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|source| TlsError::Pair { source })?;
    let mut config = builder.with_no_client_auth().with_cert_resolver(certificate);
    config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// A client's connection after the handshake, and whether HTTP/2 was chosen.
pub(crate) async fn accept(acceptor: &TlsAcceptor, stream: TcpStream) -> io::Result<(Io, bool)> {
    let stream = acceptor.accept(stream).await?;
    let http2 = stream.get_ref().1.alpn_protocol() == Some(HTTP2);
    Ok((Io::Other(Box::new(stream)), http2))
}

/// TLS towards engines.
#[derive(Clone)]
pub(crate) struct EngineTls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl std::fmt::Debug for EngineTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineTls").field("name", &self.name).finish_non_exhaustive()
    }
}

impl EngineTls {
    pub(crate) fn new(config: &UpstreamTls, protocol: UpstreamProtocol) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&config.ca)? {
            roots.add(certificate).map_err(|source| TlsError::Pair { source })?;
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|source| TlsError::Pair { source })?;
        let mut client = builder.with_root_certificates(roots).with_no_client_auth();
        let spoken = if protocol == UpstreamProtocol::Http2 { HTTP2 } else { HTTP1 };
        client.alpn_protocols = vec![spoken.to_vec()];
        let name = ServerName::try_from(config.server_name.clone());
        let name = name.map_err(|_invalid| TlsError::Name { name: config.server_name.clone() })?;
        Ok(Self { connector: TlsConnector::from(Arc::new(client)), name })
    }

    pub(crate) async fn connect(&self, stream: TcpStream) -> io::Result<Io> {
        Ok(Io::Other(Box::new(self.connector.connect(self.name.clone(), stream).await?)))
    }
}
