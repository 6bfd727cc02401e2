//! What stages need from the kernel. The programs implement this with maps and helpers, unit tests with memory.

use penstock_abi::{Config, Engine, NextHop, Reason, Reply, ReplyKey, Service, WAYS};

use crate::{
    frame::Frame,
    shared::{SharedWord, SlotWords},
};

/// What taking off an outer header needs.
pub trait Shrink {
    /// Moves the start of the packet back by `BYTES`.
    fn shrink<const BYTES: i32>(&self) -> Option<Frame<'_>>;
}

/// Maps, helpers and the packet's context. Every index may be out of range, which gives `None`.
pub trait Kernel {
    fn config(&self) -> Option<&Config>;
    /// A record of `SERVICES`.
    fn service_record(&self, position: u32) -> Option<&Service>;
    /// A record of `VIPS`.
    fn vip(&self, service: u16) -> Option<&Service>;
    /// The word of `ROUTES` for a group of slots.
    fn routes(&self, group: u32) -> Option<&SharedWord>;
    fn slot(&self, at: u32) -> Option<&SlotWords>;
    fn engine(&self, index: u16) -> Option<&Engine>;
    fn flow_bucket(&self, index: u32) -> Option<&[SharedWord; WAYS]>;
    fn affinity_bucket(&self, index: u32) -> Option<&[SharedWord; WAYS]>;
    fn reply(&self, key: &ReplyKey) -> Option<Reply>;
    /// The next hop towards an IPv4 address, remembered or asked of the FIB. Wire order.
    fn next_hop4(&self, source: u32, destination: u32) -> Option<&NextHop>;
    /// The next hop towards an IPv6 address, remembered or asked of the FIB. Wire order.
    fn next_hop6(&self, source: [u64; 2], destination: [u64; 2]) -> Option<&NextHop>;
    /// Index of the port that the packet came in by.
    fn ingress(&self) -> u32;
    /// Moves the start of the packet forward by `BYTES`, to make room for outer headers.
    fn grow<const BYTES: i32>(&self) -> Option<Frame<'_>>;
    /// Cuts the packet down to `BYTES`, or gives none where it is shorter.
    fn resize<const BYTES: u32>(&self) -> Option<Frame<'_>>;
    fn count(&self, reason: Reason);
    /// Counts a packet of `bytes` IP bytes that goes from a service to an engine.
    fn count_forwarded(&self, service: u16, engine: u16, bytes: u16, new_flow: bool);
    /// Counts a new flow of a service that was refused.
    fn count_refused(&self, service: u16);
}
