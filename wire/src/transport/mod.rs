//! QUIC under the session: certificates and identities, connection settings, messages on a stream. No policy.
mod credentials;
mod identity;
mod settings;
mod stream;

pub use credentials::{Credentials, CredentialsError, TlsFiles};
pub use identity::{
    AgentIdentity, CONTROLLER_NAME, IdentityError, PEER_NAME, certificate_expiry, identity_of, leaf_of,
};
pub use settings::{Close, SettingsError, client_config, client_config_offering, server_config, version_of};
pub use stream::{ReadError, WriteError, read_message, write_message};
