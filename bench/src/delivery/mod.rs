//! Delivery of snapshots from a controller to its agents: real QUIC over loopback, the data path in memory.
pub mod fleet;
pub mod lab;
mod measure;
pub mod memory;
pub mod relay;

pub use measure::run;
