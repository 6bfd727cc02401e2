//! Layouts, hashes and limits that the kernel program and user space share. One definition, used by both sides.
//!
//! Multi-byte fields are in the host's order unless a field says "wire order", which means the bytes as they stand
//! in a packet, whatever the host's order is.
#![no_std]

mod clock;
mod config;
mod engine;
mod flow;
mod hash;
mod layout;
mod next_hop;
mod reply;
mod service;
mod slot;
mod stats;

pub use clock::{Tick, UDP_ORIGIN_TICKS};
pub use config::{Config, FLAG_REDIRECT_ONLY, FLAG_RESET_LOST, Placement};
pub use engine::{Engine, EngineFlags, FORWARD_INHERIT, Method, mac_words, nat_half, nat_half_parts};
pub use flow::{Bucket, CONFIRMED_WAYS, Entry, WAYS};
pub use hash::{HashKey, conversation_key, shed_hash};
pub use layout::{LAYOUT_HASH, MAPS, MapKind, MapSpec, Writer, total_bytes};
pub use next_hop::NextHop;
pub use reply::{Reply, ReplyKey};
pub use service::{KeyKind, Service, ServiceKind, Vip, place};
pub use slot::{Route, RouteGroup, SLOTS_PER_GROUP, Slot, SlotRecord};
pub use stats::{Reason, Traffic};

/// Engines that one frontend can name. A slot holds an index below this.
pub const MAX_ENGINES: usize = 4096;
/// Services of one frontend.
pub const MAX_SERVICES: usize = 256;
/// Records of one half of `SERVICES`: enough that a seed without collisions is found for [`MAX_SERVICES`].
pub const SERVICE_RECORDS: usize = 4096;
/// Slots of all tables together: sixteen tables of 2^16, or four of 2^18.
pub const MAX_SLOTS: usize = 1 << 20;
/// Buckets of the flow cache, eight flows each.
pub const FLOW_BUCKETS: usize = 1 << 17;
/// Buckets of the affinity cache, eight conversations each.
pub const AFFINITY_BUCKETS: usize = 1 << 14;
/// Next hops kept by each CPU.
pub const NEXT_HOPS: usize = 1024;
/// (engine address, port, protocol) triples whose replies are rewritten.
pub const MAX_REPLIES: usize = 8192;
