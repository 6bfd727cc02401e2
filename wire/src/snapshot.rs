//! The complete wanted routing state of one frontend at one epoch.
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use serde::{Deserialize, Serialize};

use crate::{ClassId, EngineId, Epoch, FrontendId, GroupId, ServiceId, SiteId};

/// What an agent installs. Every index used by a table or a service is described in the same snapshot.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub struct Snapshot {
    pub epoch: Epoch,
    pub frontend: FrontendId,
    /// Key of the slot hash. Set once for a fleet; another secret remaps every key.
    pub secret: [u8; 16],
    /// Top 32 bits of the prefixes of the IPv6 form of `dnat`: a packet for service `s` and engine `e` goes to
    /// `nat_prefix : s : e : low 64 bits of the VIP`.
    pub nat_prefix: Option<[u8; 4]>,
    /// Marked by the controller when the change answers a failure: exempt from the agent's limit on moved slots.
    pub failure_handling: bool,
    /// Sorted by index, which is stable for an engine's life.
    pub engines: Vec<EngineEntry>,
    pub services: Vec<ServiceEntry>,
    /// One table per class that this frontend serves.
    pub tables: Vec<TableEntry>,
}

/// One engine as a frontend reaches it.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub struct EngineEntry {
    /// Index into the `ENGINES` map.
    pub index: u16,
    pub id: EngineId,
    pub group: GroupId,
    pub site: SiteId,
    /// Where its server listens; also the address of probes and of the HTTP door.
    pub address: SocketAddr,
    /// Its IPv6 address, for engines whose `address` is IPv4 and that also serve IPv6 VIPs.
    pub address6: Option<SocketAddrV6>,
    /// How packets reach it, where that is not the service's own way.
    pub forwarding: Option<Forwarding>,
    /// Network round trip from this frontend, in microseconds.
    pub rtt_us: u32,
    pub state: EngineState,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub enum EngineState {
    Serving,
    /// Keeps its flows, takes no new ones.
    Draining,
    /// Serves nobody: its flows are re-slotted.
    Out,
}

/// How a packet travels from the frontend host to the engine.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Forwarding {
    /// Destination rewritten. IPv4: replies recognised by the engine's address. IPv6: stateless prefix form.
    Dnat,
    /// MAC addresses rewritten; the engine holds the VIP and answers directly.
    L2,
    /// IP in IP (`ipip` or `ip6ip6` by the VIP's family); the engine answers directly.
    Ipip,
    /// Generic UDP encapsulation; the engine answers directly.
    Gue,
    /// IPv4 with source port allocation and connection tracking.
    Nat,
}

/// VIP, port and protocol that reach one class.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub struct ServiceEntry {
    /// Index into the service records, stable for the service's life.
    pub index: u16,
    pub id: ServiceId,
    pub class: ClassId,
    pub vip: Vip,
    pub port: u16,
    pub protocol: Protocol,
    pub key: KeyMode,
    pub forwarding: Forwarding,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Deserialize, Serialize)]
pub enum Vip {
    V4(Ipv4Addr),
    V6(Ipv6Addr),
    /// A /64 whose low 64 bits are the conversation key; the low half of the address here is zero.
    V6Prefix(Ipv6Addr),
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    Tcp,
    Udp,
}

/// What is hashed to pick a slot.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyMode {
    /// Five-tuple.
    Flow,
    /// Source address, cut to a prefix length per family (32 and 128 take it whole).
    Source { prefix4: u8, prefix6: u8 },
    /// Low 64 bits of the destination address; only with [`Vip::V6Prefix`].
    Address,
    /// Server id in the QUIC connection id; an Initial packet falls back to the flow.
    Quic,
    /// Bytes of the UDP payload.
    Payload { offset: u16, length: u8 },
}

/// The slot table of one class at this frontend.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub struct TableEntry {
    pub class: ClassId,
    /// Every engine that may serve the class, those of weight 0 included, sorted by index.
    pub candidates: Vec<Candidate>,
    /// Engine index of each slot; the length is a power of two. Fallbacks are derived by the agent.
    pub slots: Vec<u16>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub struct Candidate {
    pub engine: u16,
    /// Fraction of the frontend's traffic of this class, in units of 2^-32; a table's weights sum to 2^32.
    /// A published table's weights are its slot counts: what is in force, exactly.
    pub weight: u64,
}
