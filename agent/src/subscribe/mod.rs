//! Weight path at the host: the last good snapshot on disk, and the line to a controller.
//!
//! [`Store`] keeps what is in force across restarts. [`Uplink`] keeps a connection to one of the controllers and
//! carries messages; what they mean is decided by the owner of the session.
mod backoff;
mod peer;
mod store;
mod uplink;

pub use peer::{PeerError, PeerServer};
pub use store::{LoadError, Loaded, SaveError, Store, Writer};
pub use uplink::{ConnectError, Line, Uplink, UplinkConfig, UplinkEvent, with_causes};
