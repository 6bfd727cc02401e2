//! What a fleet consists of, checked.
use std::collections::BTreeSet;
use std::net::{SocketAddr, SocketAddrV6};

use penstock_wire::{
    ClassId, EngineId, Forwarding, FrontendId, GroupId, HostId, KeyMode, ModelId, Protocol, ServiceId,
    SiteId, Vip,
};

use super::units::{Factor, Milliseconds, Rate, Tokens};

/// A site's set of hosts that run the agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Frontend {
    pub id: FrontendId,
    pub site: SiteId,
    /// Top 32 bits of the prefixes through which it reaches engines for IPv6 VIPs with `dnat`.
    pub nat_prefix: Option<[u8; 4]>,
}

/// A model and constraints.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    pub id: ClassId,
    pub model: ModelId,
    pub priority: Priority,
    pub mean_prompt: Tokens,
    pub mean_output: Tokens,
    /// Labels that an engine group must carry.
    pub require: BTreeSet<String>,
    /// Network round trips before the first token: 1 on warm connections, 2 with a new TCP connection each.
    pub round_trips: Factor,
}

/// 0 to 3; 0 is shed last.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, serde::Serialize)]
pub struct Priority(u8);

impl Priority {
    pub const LOWEST: u8 = 3;

    pub fn new(level: u8) -> Option<Self> {
        (level <= Self::LOWEST).then_some(Self(level))
    }

    pub const fn level(self) -> u8 {
        self.0
    }
}

/// How one replica of some hardware serves: capacity, and latency against utilisation.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    pub id: String,
    /// Reference requests/s of one replica within its objectives; above 0.
    pub capacity: Rate,
    pub reference: Reference,
    /// Work of one prompt token over that of one output token.
    pub prefill_weight: Factor,
    /// Utilisation strictly increasing from 0 to at least 1; linear between points.
    pub points: Vec<ProfilePoint>,
}

/// The request that a profile was measured with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reference {
    pub prompt: Tokens,
    pub output: Tokens,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProfilePoint {
    pub utilisation: Factor,
    pub ttft: Milliseconds,
    pub itl: Milliseconds,
}

/// Engines alike in site, models, hardware and profile.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineGroup {
    pub id: GroupId,
    pub site: SiteId,
    /// Not empty.
    pub models: BTreeSet<ModelId>,
    /// Id of its profile.
    pub profile: String,
    pub replicas: u32,
    pub labels: BTreeSet<String>,
}

impl EngineGroup {
    /// Whether the class's filters let it be served here: model and every required label. Never relaxed.
    pub fn may_serve(&self, class: &Class) -> bool {
        self.models.contains(&class.model) && class.require.is_subset(&self.labels)
    }
}

/// Offered first attempts of a class at a frontend.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    pub frontend: FrontendId,
    pub class: ClassId,
    pub rate: Rate,
}

/// One inference server. It counts as one replica of its group.
#[derive(Clone, Debug, PartialEq)]
pub struct Engine {
    pub id: EngineId,
    pub group: GroupId,
    pub address: SocketAddr,
    pub address6: Option<SocketAddrV6>,
}

/// VIP, port and protocol that reach one class, at every frontend.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    pub id: ServiceId,
    pub class: ClassId,
    pub vip: Vip,
    pub port: u16,
    pub protocol: Protocol,
    pub key: KeyMode,
    pub forwarding: Forwarding,
}

/// One frontend host, which runs one agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    pub id: HostId,
    pub frontend: FrontendId,
}
