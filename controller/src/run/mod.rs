//! The running controller: measured demand in, weights out, once a tick.
//!
//! [`tick`] decides, [`service`] moves values between it, the agents, the clock and askers.
pub mod cadence;
mod calm;
pub mod service;
mod state;
pub mod tick;
