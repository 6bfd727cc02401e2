//! The load generator: clients that arrive by a Poisson process and do not wait for each other.
//!
//! `schedule` says when and for which conversation, `client` makes one request on a connection of its own, `record` is
//! what came of it, `summary` counts.
pub mod client;
pub mod record;
pub mod run;
pub mod schedule;
pub mod summary;
