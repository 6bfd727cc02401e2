//! Weight path, last stage: snapshots to agents over QUIC, and their reports back.
//!
//! [`Publisher`] owns the ledger and the server. Its loop-side API takes weights and gives reports; one task per agent
//! keeps the session of `wire` in step and holds no policy.
mod adopt;
mod credentials;
mod publisher;
mod rollout;
mod roster;
mod server;
mod session;
mod waves;

pub use publisher::{PublishConfig, PublishError, Publisher, StartError};
pub use roster::{AgentStatus, HostDemand, Lag, LastRefusal};
pub use server::{ListenError, Server, ServerConfig};
