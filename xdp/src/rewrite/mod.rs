//! Fourth stage: the packet as the engine, or the client, must see it.
pub mod decapsulate;
pub mod destination;
pub mod encapsulate;
pub mod link;
pub mod reply;
pub mod reset;

use penstock_abi::{Engine, EngineFlags, NextHop, Reason};

use crate::kernel::Kernel;

/// The link towards the next hop.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Link {
    pub mac_head: u64,
    pub mac_tail: u32,
    pub ifindex: u32,
}

/// Whether the next hop of a packet is known.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    Link(Link),
    /// The host's stack must route it.
    Stack,
    /// To this host itself.
    Local,
}

impl Way {
    #[inline(always)]
    pub(crate) fn of_next_hop(next_hop: Option<&NextHop>) -> Self {
        match next_hop {
            Some(next) if next.way == NextHop::FORWARD => {
                Self::Link(Link { mac_head: next.mac_head, mac_tail: next.mac_tail, ifindex: next.ifindex })
            }
            Some(next) if next.way == NextHop::LOCAL => Self::Local,
            _ => Self::Stack,
        }
    }
}

#[inline(always)]
fn resolved(engine: &Engine, family: u32) -> Option<Link> {
    (engine.flags & family != 0).then_some(Link {
        mac_head: engine.mac_head,
        mac_tail: engine.mac_tail,
        ifindex: engine.ifindex,
    })
}

/// The way to an engine by its IPv4 address: resolved by the agent, else asked of the FIB.
#[inline(always)]
pub fn way4<K: Kernel>(kernel: &K, engine: &Engine) -> Way {
    match resolved(engine, EngineFlags::RESOLVED4) {
        Some(link) => Way::Link(link),
        None => Way::of_next_hop(kernel.next_hop4(0, engine.address4)),
    }
}

/// The way to an engine by IPv6, towards `destination`: resolved by the agent, else asked of the FIB.
#[inline(always)]
pub fn way6<K: Kernel>(kernel: &K, engine: &Engine, destination: [u64; 2]) -> Way {
    match resolved(engine, EngineFlags::RESOLVED6) {
        Some(link) => Way::Link(link),
        None => Way::of_next_hop(kernel.next_hop6([0, 0], destination)),
    }
}

/// Why a rewrite did not happen; the packet is dropped.
pub type Refusal = Reason;
