//! The global process: takes demand, capacity and network distance, solves one assignment and publishes it.
pub mod solve;
pub mod weights;
