//! The global process: takes demand, capacity and network distance, solves one assignment and publishes it.
pub mod admin;
pub mod assignment;
pub mod ca;
pub mod capacity;
pub mod demand;
pub mod diff;
pub mod explain;
pub mod fleet;
pub mod policy;
pub mod publish;
pub mod record;
pub mod reserve;
pub mod run;
pub mod snapshot;
pub mod solve;
pub mod weights;
