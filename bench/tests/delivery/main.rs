//! A controller and its agents over real QUIC on loopback: what must hold when something fails.
mod faults;
mod identity;
mod orders;
mod peers;
mod wait;
mod waves;
