//! A controller and its agents over real QUIC on loopback: what must hold when something fails.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what fails here fails a test")]

mod faults;
mod identity;
mod orders;
mod peers;
mod wait;
mod waves;
