//! The running controller: measured demand in, weights out, once a tick.
pub mod cadence;
mod calm;
pub mod tick;
