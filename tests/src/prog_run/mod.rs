//! One packet in; verdict and bytes out, in the real kernel (`BPF_PROG_TEST_RUN`).
//!
//! A [`Lab`] moves its thread into a network namespace of its own, with a device towards clients and one towards
//! engines, and installs a snapshot through the agent's own code. Expected bytes come from [`packet`], which computes
//! every checksum from the whole packet and shares nothing with the kernel program.
mod fleet;
mod lab;
pub mod packet;

pub use fleet::Fleet;
pub use lab::{Lab, LabError, Outcome, Verdict};
