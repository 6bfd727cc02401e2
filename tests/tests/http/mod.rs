//! What the suites of the HTTP door share: a door on a port of its own, engines that follow a script, and a client
//! that sends and sees raw bytes.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a suite stops at its first failure")]
#![expect(dead_code, reason = "each suite uses its part")]

pub(crate) mod door;
pub(crate) mod engine;
pub(crate) mod raw;
