use bytemuck::{Pod, Zeroable};

/// Value of the `ENGINE_TRAFFIC` and `SERVICE_TRAFFIC` maps, one for each CPU.
///
/// | offset | bytes | field       | meaning                                                           |
/// |-------:|------:|-------------|-------------------------------------------------------------------|
/// |      0 |     8 | `packets`   | packets forwarded towards an engine                               |
/// |      8 |     8 | `bytes`     | their IP bytes, without encapsulation                             |
/// |     16 |     8 | `new_flows` | TCP SYNs and first QUIC packets among them                        |
/// |     24 |     8 | `refused`   | new flows shed                                                    |
///
/// The kernel writes, the agent reads. 128 KiB and 8 KiB a CPU.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Pod, Zeroable)]
pub struct Traffic {
    pub packets: u64,
    pub bytes: u64,
    pub new_flows: u64,
    pub refused: u64,
}

const _: () = assert!(size_of::<Traffic>() == 32);

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $label:literal),+ $(,)?) => {
        /// Why a packet was not simply forwarded: index into the `REASONS` map of per-CPU u64 counters.
        #[repr(u32)]
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub enum Reason {
            $($(#[$doc])* $name),+
        }

        impl Reason {
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The label of this reason in metrics.
            pub const fn label(self) -> &'static str {
                match self {
                    $(Self::$name => $label),+
                }
            }
        }
    };
}

reasons! {
    /// Neither to a VIP nor a reply of an engine: passed untouched.
    OtherTraffic = "other_traffic",
    /// A header is cut short, or a length lies: passed untouched.
    Malformed = "malformed",
    /// Not TCP or UDP, to a VIP: passed untouched.
    OtherProtocol = "other_protocol",
    /// A fragment that no rule forwards: passed untouched.
    Fragment = "fragment",
    /// TTL or hop limit at its end: passed, so that the stack answers.
    TtlExpired = "ttl_expired",
    /// A reply of an engine to a client, rewritten.
    Reply = "reply",
    /// A reply to an address of this host: passed untouched.
    LocalReply = "local_reply",
    /// Handed to the host's stack to route, because no next hop is known yet.
    Routed = "routed",
    /// The slot names no engine that can serve: dropped.
    NoEngine = "no_engine",
    /// No next hop, and the stack cannot route the packet either: dropped.
    NoNextHop = "no_next_hop",
    /// The engine lacks an address of the VIP's family, or the way of forwarding is not possible: dropped.
    NoMethod = "no_method",
    /// Too big for the way to the engine: answered with the path's MTU, or dropped.
    TooBig = "too_big",
    /// The frame could not be resized: dropped.
    NoRoom = "no_room",
    /// Refused early because capacity is short.
    Shed = "shed",
    /// A new flow that went to another engine than its slot's.
    Diverted = "diverted",
    /// A flow recorded in the flow cache.
    FlowRecorded = "flow_recorded",
    /// A new flow that followed its conversation's affinity.
    AffinityFollowed = "affinity_followed",
    /// A flow moved away from an engine that is out.
    Reslotted = "reslotted",
    /// A flow of an engine that is out, reset.
    Reset = "reset",
    /// Asked the kernel's FIB for a next hop.
    FibLookup = "fib_lookup",
    /// An ICMP error sent to the engine whose flow it quotes.
    IcmpForwarded = "icmp_forwarded",
    /// An echo request to a VIP, answered.
    EchoAnswered = "echo_answered",
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_reason_has_its_own_label_and_index() {
        let labels: HashSet<_> = Reason::ALL.iter().map(|reason| reason.label()).collect();

        assert_eq!(labels.len(), Reason::ALL.len());
        assert!(Reason::ALL.iter().enumerate().all(|(index, reason)| *reason as usize == index));
    }
}
