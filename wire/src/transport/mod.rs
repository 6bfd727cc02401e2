//! QUIC under the session: certificates and identities, connection settings, messages on a stream. No policy.
mod credentials;
mod identity;
mod settings;
mod stream;

pub use credentials::{Credentials, CredentialsError, TlsFiles};
pub use identity::{AgentIdentity, CONTROLLER_NAME, IdentityError, certificate_expiry};
pub use settings::{Close, SettingsError, client_config, protocol_of, server_config};
pub use stream::{ReadError, WriteError, read_message, write_message};
