//! Who the other side is, from its certificate.
//!
//! A controller's certificate has the DNS name [`CONTROLLER_NAME`] (or the one that agents are configured with). An
//! agent's has one URI `spiffe://TRUST-DOMAIN/penstock/frontend/FRONTEND/host/HOST`, ids percent-encoded, and the DNS name
//! [`PEER_NAME`] if other agents may take its snapshot.
use std::time::{Duration, SystemTime};

use rustls::pki_types::CertificateDer;
use x509_parser::{extensions::GeneralName, parse_x509_certificate};

use crate::{FrontendId, HostId};

/// DNS name in a controller's certificate.
pub const CONTROLLER_NAME: &str = "controller.penstock.internal";
/// DNS name in an agent's certificate, by which other agents of its frontend reach it.
pub const PEER_NAME: &str = "agent.penstock.internal";
/// Trust domain of certificates that `penstock-controller ca` makes; any is accepted.
const TRUST_DOMAIN: &str = "penstock.internal";

/// The host that a certificate speaks for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AgentIdentity {
    pub frontend: FrontendId,
    pub host: HostId,
}

/// Why a certificate names no agent.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum IdentityError {
    #[error("the certificate cannot be parsed")]
    Malformed,
    /// Issue it with `penstock-controller ca issue --host H --frontend F`, or give it this name in your own CA.
    #[error("the certificate has {found} names spiffe://*/penstock/frontend/*/host/*, one is needed")]
    NotAgent { found: usize },
}

impl AgentIdentity {
    /// The URI that names this host in a certificate.
    pub fn uri(&self) -> String {
        let (frontend, host) = (escape(self.frontend.as_str()), escape(self.host.as_str()));
        format!("spiffe://{TRUST_DOMAIN}/penstock/frontend/{frontend}/host/{host}")
    }

    /// The identity in a certificate whose chain was verified.
    pub fn from_certificate(certificate: &CertificateDer<'_>) -> Result<Self, IdentityError> {
        let (_, parsed) = parse_x509_certificate(certificate).map_err(|_error| IdentityError::Malformed)?;
        let names = parsed.subject_alternative_name().map_err(|_error| IdentityError::Malformed)?;
        let names = names.map(|extension| extension.value.general_names.as_slice()).unwrap_or_default();
        let mut identities = names.iter().filter_map(|name| match name {
            GeneralName::URI(uri) => Self::from_uri(uri),
            _ => None,
        });
        match (identities.next(), identities.count()) {
            (Some(identity), 0) => Ok(identity),
            (first, others) => Err(IdentityError::NotAgent { found: usize::from(first.is_some()) + others }),
        }
    }

    fn from_uri(uri: &str) -> Option<Self> {
        let (_, path) = uri.strip_prefix("spiffe://")?.split_once('/')?;
        let (frontend, host) = path.strip_prefix("penstock/frontend/")?.split_once("/host/")?;
        if frontend.contains('/') || host.contains('/') {
            return None;
        }
        Some(Self { frontend: FrontendId(unescape(frontend)?), host: HostId(unescape(host)?) })
    }
}

/// Who is at the other end of a connection whose handshake verified its certificate.
pub fn identity_of(connection: &quinn::Connection) -> Result<AgentIdentity, IdentityError> {
    AgentIdentity::from_certificate(&leaf_of(connection)?)
}

/// The certificate of the other end.
pub fn leaf_of(connection: &quinn::Connection) -> Result<CertificateDer<'static>, IdentityError> {
    let chain =
        connection.peer_identity().and_then(|any| any.downcast::<Vec<CertificateDer<'static>>>().ok());
    chain.and_then(|chain| chain.into_iter().next()).ok_or(IdentityError::Malformed)
}

/// When a certificate ends.
pub fn certificate_expiry(certificate: &CertificateDer<'_>) -> Result<SystemTime, IdentityError> {
    let (_, parsed) = parse_x509_certificate(certificate).map_err(|_error| IdentityError::Malformed)?;
    let seconds = u64::try_from(parsed.validity().not_after.timestamp()).unwrap_or(0);
    Ok(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

/// Percent-encodes all but what RFC 3986 leaves unreserved.
fn escape(id: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    id.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let value = digit(rest.next()?)? << 4 | digit(rest.next()?)?;
                u8::try_from(value).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok().filter(|id| !id.is_empty())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, SanType};

    use super::*;

    fn certificate(uris: &[&str]) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.subject_alt_names = uris.iter().map(|uri| SanType::URI((*uri).try_into().unwrap())).collect();
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    #[test]
    fn a_name_that_was_made_here_is_read_again_whatever_the_ids() {
        let identity = AgentIdentity { frontend: "eu/west %".into(), host: "höst-1".into() };

        let read = AgentIdentity::from_certificate(&certificate(&[&identity.uri()]));

        assert_eq!(read, Ok(identity));
    }

    #[test]
    fn another_trust_domain_and_other_names_beside_it_are_accepted() {
        let uris = ["https://example.org/", "spiffe://corp.example/penstock/frontend/A/host/a-1"];

        let read = AgentIdentity::from_certificate(&certificate(&uris)).unwrap();

        assert_eq!((read.frontend.as_str(), read.host.as_str()), ("A", "a-1"));
    }

    #[test]
    fn a_certificate_with_no_name_or_two_is_refused() {
        let two = ["spiffe://x/penstock/frontend/A/host/a", "spiffe://x/penstock/frontend/B/host/b"];
        let odd = ["spiffe://x/penstock/frontend/A/host/a/b", "spiffe://x/penstock/frontend//host/"];

        assert_eq!(
            AgentIdentity::from_certificate(&certificate(&two)),
            Err(IdentityError::NotAgent { found: 2 })
        );
        assert_eq!(
            AgentIdentity::from_certificate(&certificate(&odd)),
            Err(IdentityError::NotAgent { found: 0 })
        );
        assert_eq!(
            AgentIdentity::from_certificate(&certificate(&[])),
            Err(IdentityError::NotAgent { found: 0 })
        );
    }
}
