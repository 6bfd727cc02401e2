//! Certificates of a small fleet: one authority in a folder, and what it signs.
//!
//! The folder holds `ca.pem` (the authority in use first, then those that a rotation replaced) and `ca-key.pem`. An
//! issued folder holds `ca.pem`, `cert.pem` and `key.pem`, which the `[tls]` keys of both configurations name.
mod files;

use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use penstock_wire::transport::{AgentIdentity, CONTROLLER_NAME, PEER_NAME, certificate_expiry};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType,
};
use rustls::{
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};

use files::{read_text, write_private, write_public};

const AUTHORITY: &str = "ca.pem";
const AUTHORITY_KEY: &str = "ca-key.pem";
/// Certificates are valid from before their making, for hosts whose clocks are behind.
const BACKDATE: Duration = Duration::from_secs(3600);

/// Why no certificate was made.
#[derive(Debug, thiserror::Error)]
pub enum CaError {
    /// `ca init` does not touch an authority that is in use. Take another folder, or `ca rotate`.
    #[error("{} exists", path.display())]
    Exists { path: PathBuf },
    #[error("reading {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("writing {}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    /// The folder holds no authority made by `ca init`.
    #[error("{} holds no usable authority", folder.display())]
    NoAuthority { folder: PathBuf },
    #[error("making a certificate")]
    Make(#[from] rcgen::Error),
}

/// Whom a certificate speaks for.
#[derive(Clone, Debug)]
pub enum Subject {
    /// Has the DNS names that agents may be configured with, besides the usual one.
    Controller {
        names: Vec<String>,
    },
    Agent(AgentIdentity),
}

/// Makes an authority in `folder`.
pub fn init(folder: &Path, lifetime: Duration) -> Result<(), CaError> {
    let path = folder.join(AUTHORITY);
    if path.exists() {
        return Err(CaError::Exists { path });
    }
    let (certificate, key) = make_authority(lifetime)?;
    write_private(&folder.join(AUTHORITY_KEY), &key)?;
    write_public(&path, &certificate)
}

/// Signs a new key for `subject` and writes it with the authorities to `out`. An earlier one there is replaced whole.
pub fn issue(folder: &Path, subject: &Subject, lifetime: Duration, out: &Path) -> Result<(), CaError> {
    let authorities = read_text(&folder.join(AUTHORITY))?;
    let authority_key = KeyPair::from_pem(&read_text(&folder.join(AUTHORITY_KEY))?)?;
    let in_use = authorities_in(folder, &authorities)?
        .into_iter()
        .find(|authority| belongs(authority, &authority_key))
        .ok_or_else(|| CaError::NoAuthority { folder: folder.to_owned() })?;
    let issuer = Issuer::from_ca_cert_der(&in_use, authority_key)?;

    let mut params = lasting(lifetime);
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let (name, purposes) = match subject {
        Subject::Controller { names } => {
            for name in names.iter().map(String::as_str).chain([CONTROLLER_NAME]) {
                params.subject_alt_names.push(SanType::DnsName(name.try_into()?));
            }
            ("controller".to_owned(), vec![ExtendedKeyUsagePurpose::ServerAuth])
        }
        Subject::Agent(identity) => {
            params.subject_alt_names.push(SanType::URI(identity.uri().try_into()?));
            // Other hosts of the frontend may take the snapshot from this one.
            params.subject_alt_names.push(SanType::DnsName(PEER_NAME.try_into()?));
            let purposes = vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
            (format!("{} {}", identity.frontend, identity.host), purposes)
        }
    };
    params.distinguished_name = named(&name);
    params.extended_key_usages = purposes;
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer)?;

    write_public(&out.join("ca.pem"), &authorities)?;
    write_private(&out.join("key.pem"), &key.serialize_pem())?;
    write_public(&out.join("cert.pem"), &certificate.pem())
}

/// Puts a new authority in front: what is issued from now on is signed by it, and both are trusted. Hand `ca.pem` out,
/// issue anew, then [`retire`] the old ones.
pub fn rotate(folder: &Path, lifetime: Duration) -> Result<(), CaError> {
    let path = folder.join(AUTHORITY);
    let old = read_text(&path)?;
    let now = SystemTime::now();
    let lasting = authorities_in(folder, &old)?.into_iter();
    let lasting = lasting.filter(|authority| certificate_expiry(authority).is_ok_and(|end| end > now));
    let (certificate, key) = make_authority(lifetime)?;
    let bundle = lasting.fold(certificate, |bundle, authority| bundle + &files::to_pem(&authority));
    // The key goes last: until then, `issue` still signs with the authority that everybody trusts.
    write_public(&path, &bundle)?;
    write_private(&folder.join(AUTHORITY_KEY), &key)
}

/// Ends a rotation: only the newest authority is trusted from now on. Returns how many are not any more.
pub fn retire(folder: &Path) -> Result<usize, CaError> {
    let path = folder.join(AUTHORITY);
    let mut authorities = authorities_in(folder, &read_text(&path)?)?;
    let retired = authorities.split_off(1);
    write_public(&path, &files::to_pem(&authorities[0]))?;
    Ok(retired.len())
}

fn belongs(authority: &CertificateDer<'static>, key: &KeyPair) -> bool {
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let provider = rustls::crypto::ring::default_provider();
    CertifiedKey::from_der(vec![authority.clone()], key, &provider).is_ok()
}

/// At least one.
fn authorities_in(folder: &Path, pem: &str) -> Result<Vec<CertificateDer<'static>>, CaError> {
    let found = CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<Vec<_>, _>>();
    found
        .ok()
        .filter(|found| !found.is_empty())
        .ok_or_else(|| CaError::NoAuthority { folder: folder.to_owned() })
}

/// Certificate and key in PEM.
fn make_authority(lifetime: Duration) -> Result<(String, String), CaError> {
    let key = KeyPair::generate()?;
    let mut params = lasting(lifetime);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    // Authorities of a rotation have names of their own, so that a chain leads to one of them.
    let made = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    params.distinguished_name = named(&format!("penstock authority {}", made.as_millis()));
    let certificate = params.self_signed(&key)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

fn lasting(lifetime: Duration) -> CertificateParams {
    let now = SystemTime::now();
    let mut params = CertificateParams::default();
    params.not_before = (now - BACKDATE).into();
    params.not_after = (now + lifetime).into();
    params
}

fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

#[cfg(test)]
mod tests {
    use penstock_wire::transport::TlsFiles;

    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn agent() -> Subject {
        Subject::Agent(AgentIdentity { frontend: "A".into(), host: "a-1".into() })
    }

    fn files(folder: &Path) -> TlsFiles {
        TlsFiles {
            ca: folder.join("ca.pem"),
            certificate: folder.join("cert.pem"),
            key: folder.join("key.pem"),
        }
    }

    #[test]
    fn an_issued_certificate_names_its_host_and_loads_with_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("a-1");

        init(folder.path(), DAY).unwrap();
        issue(folder.path(), &agent(), DAY, &out).unwrap();

        let credentials = files(&out).load().unwrap();
        let identity = AgentIdentity::from_certificate(credentials.leaf()).unwrap();
        assert_eq!((identity.frontend.as_str(), identity.host.as_str()), ("A", "a-1"));
    }

    #[test]
    fn an_authority_in_use_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        init(folder.path(), DAY).unwrap();
        let before = std::fs::read(folder.path().join(AUTHORITY)).unwrap();

        let again = init(folder.path(), DAY);

        assert!(matches!(again, Err(CaError::Exists { .. })));
        assert_eq!(std::fs::read(folder.path().join(AUTHORITY)).unwrap(), before);
    }

    #[test]
    fn during_a_rotation_both_authorities_are_trusted_and_the_new_one_signs() {
        let folder = tempfile::tempdir().unwrap();
        init(folder.path(), DAY).unwrap();
        let old = read_text(&folder.path().join(AUTHORITY)).unwrap();

        rotate(folder.path(), DAY).unwrap();

        let bundle = read_text(&folder.path().join(AUTHORITY)).unwrap();
        let both = authorities_in(folder.path(), &bundle).unwrap();
        assert_eq!(both.len(), 2);
        assert_eq!(both[1], authorities_in(folder.path(), &old).unwrap()[0]);
        let out = folder.path().join("a-1");
        issue(folder.path(), &agent(), DAY, &out).unwrap();
        files(&out).load().unwrap();
        assert_eq!(retire(folder.path()).unwrap(), 1);
        let left = read_text(&folder.path().join(AUTHORITY)).unwrap();
        assert_eq!(authorities_in(folder.path(), &left).unwrap(), both[..1]);
    }

    #[test]
    fn a_rotation_cut_short_before_its_key_still_signs_with_the_old_authority() {
        let folder = tempfile::tempdir().unwrap();
        init(folder.path(), DAY).unwrap();
        let old_key = read_text(&folder.path().join(AUTHORITY_KEY)).unwrap();
        let old = authorities_in(folder.path(), &read_text(&folder.path().join(AUTHORITY)).unwrap()).unwrap();
        rotate(folder.path(), DAY).unwrap();
        write_private(&folder.path().join(AUTHORITY_KEY), &old_key).unwrap();
        let out = folder.path().join("a-1");

        issue(folder.path(), &agent(), DAY, &out).unwrap();

        let issued = authorities_in(&out, &read_text(&out.join("cert.pem")).unwrap()).unwrap();
        let (_, issued) = x509_parser::parse_x509_certificate(&issued[0]).unwrap();
        let (_, old) = x509_parser::parse_x509_certificate(&old[0]).unwrap();
        assert_eq!(issued.issuer(), old.subject());
    }

    #[test]
    fn keys_are_for_their_owner_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("c");

        init(folder.path(), DAY).unwrap();
        issue(folder.path(), &Subject::Controller { names: vec![] }, DAY, &out).unwrap();

        for key in [folder.path().join(AUTHORITY_KEY), out.join("key.pem")] {
            assert_eq!(std::fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
}
