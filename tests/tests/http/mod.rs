//! What the suites of the HTTP door share: a door on a port of its own, engines that follow a script, and a client
//! that sends and sees raw bytes.
#![expect(dead_code, reason = "each suite uses its part")]

pub mod door;
pub mod engine;
pub mod raw;
