//! Connection settings of both sides: TLS 1.3 with certificates both ways, no resumption and hence no 0-RTT.
use std::{sync::Arc, time::Duration};

use quinn::{
    IdleTimeout, TransportConfig, VarInt,
    crypto::rustls::{HandshakeData, NoInitialCipherSuite, QuicClientConfig, QuicServerConfig},
};
use rustls::{
    client::Resumption,
    server::{NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier},
    version::TLS13,
};

use super::Credentials;
use crate::{PROTOCOLS, Version};

/// The connection is given up when nothing is heard for this many milliseconds.
const IDLE_MS: u32 = 15_000;
/// Agents keep the path open; controllers only answer.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// What a controller buffers for one agent in each direction.
const WINDOW: u32 = 64 << 10;
/// An agent takes a keyframe as fast as it comes.
const AGENT_WINDOW: u32 = 1 << 20;

/// Why a connection is closed, as the other side sees it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Close {
    /// The process ends; come back.
    Shutdown,
    /// A message that this side does not understand.
    Protocol,
    /// The certificate speaks for another host or frontend.
    Identity,
    /// More messages than allowed.
    Rate,
    /// A newer session of the same host took over.
    Replaced,
    /// The certificate that opened the session has ended.
    Expired,
}

impl Close {
    pub fn code(self) -> VarInt {
        VarInt::from_u32(match self {
            Self::Shutdown => 0,
            Self::Protocol => 1,
            Self::Identity => 2,
            Self::Rate => 3,
            Self::Replaced => 4,
            Self::Expired => 5,
        })
    }

    pub fn reason(self) -> &'static str {
        match self {
            Self::Shutdown => "the process ends",
            Self::Protocol => "message not understood",
            Self::Identity => "the certificate speaks for another host or frontend",
            Self::Rate => "too many messages",
            Self::Replaced => "a newer session of this host took over",
            Self::Expired => "the certificate has ended",
        }
    }
}

/// Why credentials make no connection settings.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("the TLS settings are refused")]
    Tls(#[from] rustls::Error),
    #[error("the authorities are refused")]
    Authorities(#[from] VerifierBuilderError),
    #[error("the TLS settings do not serve QUIC")]
    Quic(#[from] NoInitialCipherSuite),
}

/// A controller's side. Agents without a certificate of the authorities do not get in.
pub fn server_config(credentials: &Credentials) -> Result<quinn::ServerConfig, SettingsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::clone(&credentials.roots), Arc::clone(&provider))
            .build()?;
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(credentials.chain.clone(), credentials.key.clone_key())?;
    tls.alpn_protocols = PROTOCOLS.iter().map(|name| name.to_vec()).collect();
    tls.session_storage = Arc::new(NoServerSessionStorage {});
    tls.send_tls13_tickets = 0;
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    let mut transport = transport(WINDOW);
    transport.max_concurrent_bidi_streams(VarInt::from_u32(1));
    transport.send_window(u64::from(WINDOW));
    config.transport_config(Arc::new(transport));
    Ok(config)
}

/// An agent's side.
pub fn client_config(credentials: &Credentials) -> Result<quinn::ClientConfig, SettingsError> {
    client_config_offering(credentials, PROTOCOLS)
}

/// An agent's side that offers other protocol versions than this build's.
pub fn client_config_offering(
    credentials: &Credentials,
    protocols: &[&[u8]],
) -> Result<quinn::ClientConfig, SettingsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(Arc::clone(&credentials.roots))
        .with_client_auth_cert(credentials.chain.clone(), credentials.key.clone_key())?;
    tls.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    tls.resumption = Resumption::disabled();
    tls.enable_early_data = false;
    let mut config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    let mut transport = transport(AGENT_WINDOW);
    transport.keep_alive_interval(Some(KEEP_ALIVE));
    config.transport_config(Arc::new(transport));
    Ok(config)
}

/// The version that the two sides agreed on; `None` before that.
pub fn version_of(connection: &quinn::Connection) -> Option<Version> {
    let agreed = connection.handshake_data()?.downcast::<HandshakeData>().ok()?;
    Version::of_protocol(&agreed.protocol?)
}

fn transport(window: u32) -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(IDLE_MS))))
        .stream_receive_window(VarInt::from_u32(window))
        .receive_window(VarInt::from_u32(window))
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None);
    transport
}
