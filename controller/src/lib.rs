//! The global process: takes demand, capacity and network distance, solves one assignment and publishes it.
pub mod fleet;
pub mod solve;
pub mod weights;
