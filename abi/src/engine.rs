use bytemuck::{Pod, Zeroable};

/// Value of the `ENGINES` map: how packets reach one engine, in one cache line.
///
/// | offset | bytes | field          | meaning                                                                |
/// |-------:|------:|----------------|------------------------------------------------------------------------|
/// |      0 |     8 | `mac_head`     | MAC of the next hop, first two bytes of the MAC of the port towards it   |
/// |      8 |     4 | `mac_tail`     | the other four bytes; wire order, as they start an Ethernet header      |
/// |     12 |     4 | `flags`        | [`EngineFlags`]                                                         |
/// |     16 |     4 | `ifindex`      | port towards it                                                         |
/// |     20 |     2 | `pad0`         | zero                                                                    |
/// |     22 |     1 | `method`       | [`Method`], or [`FORWARD_INHERIT`] for the service's own                |
/// |     23 |     1 | `pad1`         | zero                                                                    |
/// |     24 |     4 | `address4`     | IPv4 address, wire order; 0 = none                                      |
/// |     28 |     2 | `port`         | where its server listens, wire order                                    |
/// |     30 |     2 | `outer_sum`    | partial sum of the outer IPv4 header, folded, as u16s of the wire order |
/// |     32 |    16 | `address6`     | IPv6 address, wire order; 0 = none                                      |
/// |     48 |     4 | `outer4`       | outer IPv4 source, wire order; the flow varies its last 16 bits         |
/// |     52 |     2 | `mtu`          | largest IP packet towards it, bytes                                     |
/// |     54 |     2 | `pad2`         | zero                                                                    |
/// |     56 |     8 | `outer6`       | outer IPv6 source's upper half, wire order; the flow gives the lower    |
///
/// The agent writes, the kernel reads. 256 KiB.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Pod, Zeroable)]
pub struct Engine {
    pub mac_head: u64,
    pub mac_tail: u32,
    pub flags: u32,
    pub ifindex: u32,
    pub pad0: u16,
    pub method: u8,
    pub pad1: u8,
    pub address4: u32,
    pub port: u16,
    pub outer_sum: u16,
    pub address6: [u64; 2],
    pub outer4: u32,
    pub mtu: u16,
    pub pad2: u16,
    pub outer6: u64,
}

const _: () = assert!(size_of::<Engine>() == 64);

/// `method` of an engine that is reached in the service's own way.
pub const FORWARD_INHERIT: u8 = 0;

/// How a packet travels to an engine. Values of `method` in [`Engine`] and `forwarding` in [`crate::Service`].
#[repr(u8)]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Method {
    /// Destination rewritten, both ways through this host, without state.
    Dnat = 1,
    /// MAC addresses rewritten; the engine holds the VIP.
    L2 = 2,
    /// IP in IP, by the VIP's family.
    Ipip = 3,
    /// Generic UDP encapsulation.
    Gue = 4,
    /// IPv4 with a source port of this host and tracking.
    Nat = 5,
}

/// Bits of `flags` in [`Engine`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct EngineFlags(pub u32);

impl EngineFlags {
    /// The record describes an engine.
    pub const PRESENT: u32 = 1;
    /// `mac_head`, `mac_tail` and `ifindex` are known and lead to `address4`.
    pub const RESOLVED4: u32 = 1 << 1;
    /// New flows go to the fallbacks: draining, ejected or over its bound.
    pub const DIVERTS: u32 = 1 << 2;
    /// Serves nobody: its flows are re-slotted.
    pub const OUT: u32 = 1 << 3;
    /// Over 1.25 times its weight: takes no conversation by affinity.
    pub const OVER_AFFINITY_BOUND: u32 = 1 << 4;
    /// Takes no new conversations, ever: the difference between draining and over its bound.
    pub const DRAINS: u32 = 1 << 5;
    /// `mac_head`, `mac_tail` and `ifindex` are known and lead to its IPv6 addresses.
    pub const RESOLVED6: u32 = 1 << 6;
    /// Found dead by this host's guard: as [`Self::OUT`], which is the controller's word.
    pub const EJECTED: u32 = 1 << 7;
    const SERVES_NOBODY: u32 = Self::OUT | Self::EJECTED;

    /// Whether every flow of a slot that did not change goes there, without a look at the flow cache.
    #[inline(always)]
    pub const fn is_steady(self) -> bool {
        self.takes_new_flows()
    }

    /// Whether a new flow may go there.
    #[inline(always)]
    pub const fn takes_new_flows(self) -> bool {
        self.0 & (Self::PRESENT | Self::DIVERTS | Self::SERVES_NOBODY | Self::DRAINS) == Self::PRESENT
    }

    /// Whether a flow that is already there may stay.
    #[inline(always)]
    pub const fn keeps_flows(self) -> bool {
        self.0 & (Self::PRESENT | Self::SERVES_NOBODY) == Self::PRESENT
    }

    /// Whether a conversation may return there by affinity.
    #[inline(always)]
    pub const fn takes_affinity(self) -> bool {
        self.takes_new_flows() && self.0 & Self::OVER_AFFINITY_BOUND == 0
    }
}

/// Two MAC addresses as an Ethernet header starts: destination, then source.
pub fn mac_words(next: [u8; 6], own: [u8; 6]) -> (u64, u32) {
    let [n0, n1, n2, n3, n4, n5] = next;
    let [o0, o1, o2, o3, o4, o5] = own;
    (u64::from_ne_bytes([n0, n1, n2, n3, n4, n5, o0, o1]), u32::from_ne_bytes([o2, o3, o4, o5]))
}

/// The upper half of the destination by which IPv6 `dnat` reaches `engine` for `service`: the prefix's 32 bits, then
/// both indexes in 16 bits each. `nat_prefix` and the result in wire order.
#[inline(always)]
pub const fn nat_half(nat_prefix: u32, service: u16, engine: u16) -> u64 {
    ((u32::from_be(nat_prefix) as u64) << 32 | (service as u64) << 16 | engine as u64).to_be()
}

/// Service and engine of such a half; `None` if its prefix is another.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "takes the fields' own bits")]
pub const fn nat_half_parts(nat_prefix: u32, half: u64) -> Option<(u16, u16)> {
    let half = u64::from_be(half);
    if (half >> 32) as u32 != u32::from_be(nat_prefix) {
        return None;
    }
    Some(((half >> 16) as u16, half as u16))
}

impl Engine {
    /// The constant words of an outer IPv4 header, so that the kernel adds only length, TOS and source bits.
    ///
    /// Version 4, five words, no identification, TTL 64, protocol 4; words as u16s of the wire order.
    pub fn outer_sum_of(outer4: u32, address4: u32) -> u16 {
        let source = outer4.to_ne_bytes();
        let destination = address4.to_ne_bytes();
        let word = |high: u8, low: u8| u32::from(u16::from_ne_bytes([high, low]));
        let sum = word(0x45, 0)
            + word(64, 4)
            + word(source[0], source[1])
            + word(destination[0], destination[1])
            + word(destination[2], destination[3]);
        let folded = (sum & 0xffff) + (sum >> 16);
        let [low, high] =
            ((folded & 0xffff) + (folded >> 16)).to_le_bytes().first_chunk::<2>().copied().unwrap_or([0; 2]);
        u16::from_le_bytes([low, high])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_over_its_bound_keeps_flows_and_takes_no_new_ones() {
        let over = EngineFlags(EngineFlags::PRESENT | EngineFlags::DIVERTS);

        assert!(over.keeps_flows() && !over.is_steady() && !over.takes_new_flows());
    }

    #[test]
    fn a_record_that_was_never_written_serves_nobody() {
        let empty = EngineFlags(Engine::default().flags);

        assert!(!empty.takes_new_flows() && !empty.keeps_flows());
    }

    #[test]
    fn a_nat_half_is_prefix_service_engine_in_wire_order_and_back() {
        let prefix = u32::from_ne_bytes([0xfd, 0x77, 0x00, 0x01]);

        let half = nat_half(prefix, 0x0203, 0x0405);

        assert_eq!(half.to_ne_bytes(), [0xfd, 0x77, 0, 1, 2, 3, 4, 5]);
        assert_eq!(nat_half_parts(prefix, half), Some((0x0203, 0x0405)));
        assert_eq!(nat_half_parts(!prefix, half), None);
    }

    #[test]
    fn the_outer_sum_is_the_ones_complement_sum_of_the_constant_words() {
        // 10.1.0.0 -> 10.2.3.4: 0x4500 + 0x4004 + 0x0a01 + 0x0a02 + 0x0304 = 0x9c0b.
        let source = u32::from_ne_bytes([10, 1, 0, 0]);
        let destination = u32::from_ne_bytes([10, 2, 3, 4]);

        assert_eq!(Engine::outer_sum_of(source, destination).to_ne_bytes(), [0x9c, 0x0b]);
    }
}
