//! The running controller: measured demand in, weights out, once a tick.
//!
//! [`tick`] decides, [`service`] moves values between it, the agents and the clock.
pub mod cadence;
mod calm;
pub mod service;
pub mod tick;
