//! A whole fleet on one machine: namespaces for clients, frontend hosts and engines, a WAN between the sites, and the
//! real controller and agents in it.
//!
//! `addresses` numbers everything, `routes` says what each namespace must know, `network` builds it, `fleet_file` makes
//! the running fleet's file from a person's, and `fleet` starts the processes.
pub mod addresses;
pub mod binaries;
pub mod control;
#[cfg(test)]
pub(crate) mod fixture;
pub mod fleet;
pub mod fleet_file;
pub mod network;
mod routes;
