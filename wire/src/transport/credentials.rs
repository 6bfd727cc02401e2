//! Certificates and key of one side, from PEM files.
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    RootCertStore,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
    sign::CertifiedKey,
};

/// PEM files of one side of mutual TLS.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TlsFiles {
    /// Authorities that sign the other side's certificate; several during a rotation.
    pub ca: PathBuf,
    /// Own certificate, then intermediate ones.
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// What the files say, checked against each other.
#[derive(Clone, Debug)]
pub struct Credentials {
    pub(super) roots: Arc<RootCertStore>,
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: Arc<PrivateKeyDer<'static>>,
}

/// Why the files do not serve. What was loaded before stays in use.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    #[error("reading {}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    /// The file is not PEM of the expected kind.
    #[error("{} holds no {expected} in PEM", path.display())]
    NotPem { path: PathBuf, expected: &'static str, source: pem::Error },
    #[error("{} holds no certificate", path.display())]
    Empty { path: PathBuf },
    #[error("{} holds a certificate that cannot be an authority", path.display())]
    Authority { path: PathBuf, source: rustls::Error },
    /// The key is of another kind, or of another certificate.
    #[error("{} does not belong to {}", key.display(), certificate.display())]
    Mismatch { key: PathBuf, certificate: PathBuf, source: rustls::Error },
}

impl TlsFiles {
    pub fn load(&self) -> Result<Credentials, CredentialsError> {
        let mut roots = RootCertStore::empty();
        for authority in certificates(&self.ca)? {
            roots
                .add(authority)
                .map_err(|source| CredentialsError::Authority { path: self.ca.clone(), source })?;
        }
        let chain = certificates(&self.certificate)?;
        let pem = read(&self.key)?;
        let key = PrivateKeyDer::from_pem_slice(&pem).map_err(|source| CredentialsError::NotPem {
            path: self.key.clone(),
            expected: "private key",
            source,
        })?;
        CertifiedKey::from_der(chain.clone(), key.clone_key(), &rustls::crypto::ring::default_provider())
            .map_err(|source| CredentialsError::Mismatch {
                key: self.key.clone(),
                certificate: self.certificate.clone(),
                source,
            })?;
        Ok(Credentials { roots: Arc::new(roots), chain, key: Arc::new(key) })
    }
}

impl Credentials {
    /// The own certificate.
    pub fn leaf(&self) -> &CertificateDer<'static> {
        // `load` refuses an empty chain.
        &self.chain[0]
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, CredentialsError> {
    let pem = read(path)?;
    let found = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>().map_err(|source| {
        CredentialsError::NotPem { path: path.to_owned(), expected: "certificate", source }
    })?;
    if found.is_empty() { Err(CredentialsError::Empty { path: path.to_owned() }) } else { Ok(found) }
}

fn read(path: &Path) -> Result<Vec<u8>, CredentialsError> {
    std::fs::read(path).map_err(|source| CredentialsError::Unreadable { path: path.to_owned(), source })
}
