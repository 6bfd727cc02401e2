use bytemuck::{Pod, Zeroable};

use crate::{Placement, SERVICE_RECORDS};

/// Value of the `SERVICES` and `VIPS` maps: one VIP, port and protocol, in one cache line.
///
/// | offset | bytes | field            | meaning                                                             |
/// |-------:|------:|------------------|---------------------------------------------------------------------|
/// |      0 |    16 | `vip`            | address, wire order; IPv4 in the low half of the first word          |
/// |     16 |     4 | `tag`            | [`Vip::tag`]: port, protocol and kind; 0 = empty                     |
/// |     20 |     4 | `slot_base`      | first slot of its table in `SLOTS`                                   |
/// |     24 |     4 | `slot_mask`      | slots of its table less one                                         |
/// |     28 |     2 | `index`          | stable index of the service, below [`crate::MAX_SERVICES`]           |
/// |     30 |     1 | `key`            | [`KeyKind`]                                                          |
/// |     31 |     1 | `forwarding`     | [`crate::Method`]                                                    |
/// |     32 |     4 | `shed_below`     | new flows whose shed hash is below this are refused; 0 = none        |
/// |     36 |     1 | `flags`          | bits of this service, zero so far                                   |
/// |     37 |     1 | `payload_length` | bytes of the key in a UDP payload, 1 to 8                            |
/// |     38 |     2 | `payload_offset` | where the key starts, bytes                                          |
/// |     40 |    16 | `source_mask`    | of the source address, wire order; IPv4 as in `vip`                  |
/// |     56 |     8 | `class`          | hash of the class's id, by which the agent finds its table again     |
///
/// `SERVICES` has two halves of [`SERVICE_RECORDS`], indexed by [`Service::position`]; `VIPS` has the same records by
/// index. The agent writes, the kernel reads. 512 KiB and 16 KiB.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Pod, Zeroable)]
pub struct Service {
    pub vip: [u64; 2],
    pub tag: u32,
    pub slot_base: u32,
    pub slot_mask: u32,
    pub index: u16,
    pub key: u8,
    pub forwarding: u8,
    pub shed_below: u32,
    pub flags: u8,
    pub payload_length: u8,
    pub payload_offset: u16,
    pub source_mask: [u64; 2],
    pub class: u64,
}

const _: () = assert!(size_of::<Service>() == 64);
const _: () = assert!(SERVICE_RECORDS.is_power_of_two());

/// Values of `kind` in [`Service`].
#[repr(u8)]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ServiceKind {
    V4 = 1,
    V6 = 2,
    /// A /64 whose low half is the conversation's key. The low half of `vip` is zero.
    V6Prefix = 3,
}

/// Values of `key` in [`Service`].
#[repr(u8)]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum KeyKind {
    Flow = 0,
    Source = 1,
    Address = 2,
    Quic = 3,
    Payload = 4,
}

/// What a packet must have to belong to a service. Wire order.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Vip {
    pub vip: [u64; 2],
    pub port: u16,
    pub protocol: u8,
    pub kind: ServiceKind,
}

impl Vip {
    /// Port (bits 0 to 15, wire order), protocol (16 to 23) and kind (24 to 31). Never zero.
    #[inline(always)]
    pub const fn tag(&self) -> u32 {
        self.port as u32 | (self.protocol as u32) << 16 | (self.kind as u32) << 24
    }

    /// Where its record stands in a half of `SERVICES`: the top bits of a product, on which all bits of the address
    /// bear.
    #[inline(always)]
    pub const fn position(&self, placement: Placement) -> u32 {
        const FIRST: u64 = 0x9fb2_1c65_1e98_df25;
        const SECOND: u64 = 0xd6e8_feb8_6659_fd93;
        const SHIFT: u32 = u64::BITS - SERVICE_RECORDS.trailing_zeros();
        let mixed = self.vip[0] ^ (self.tag() as u64).wrapping_mul(FIRST) ^ self.vip[1].wrapping_mul(SECOND);
        (mixed.wrapping_mul(placement.0) >> SHIFT) as u32
    }
}

impl Service {
    /// Port of the VIP, wire order.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "takes the 16 bits of the field")]
    pub const fn port(&self) -> u16 {
        self.tag as u16
    }

    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.tag == 0
    }

    /// Whether a packet that has `vip` belongs here. The second word counts for whole IPv6 addresses only.
    #[inline(always)]
    pub const fn is(&self, vip: &Vip) -> bool {
        let second = !matches!(vip.kind, ServiceKind::V6) || self.vip[1] == vip.vip[1];
        self.tag == vip.tag() && self.vip[0] == vip.vip[0] && second
    }
}

/// A placement in `half` under which no two of `vips` share a position; `None` after 2^16 tries.
///
/// 256 services on 4,096 positions succeed once in about 3,000 tries, most of which end early.
pub fn place(vips: &[Vip], half: u32) -> Option<Placement> {
    (0..1 << 16).map(|tries| Placement::of(half, tries)).find(|&placement| {
        let mut taken = [0_u64; SERVICE_RECORDS / 64];
        vips.iter().all(|vip| {
            let position = vip.position(placement) as usize;
            let free = taken[position / 64] >> (position % 64) & 1 == 0;
            taken[position / 64] |= 1 << (position % 64);
            free
        })
    })
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::{collections::HashSet, vec::Vec};

    use super::*;

    #[test]
    fn the_largest_set_of_services_finds_a_place_without_collisions() {
        let vips: Vec<_> = (0..crate::MAX_SERVICES as u64)
            .map(|n| Vip {
                vip: [0x0a00_0001 + (n << 24), 0],
                port: 8000_u16.to_be(),
                protocol: if n % 2 == 0 { 6 } else { 17 },
                kind: ServiceKind::V4,
            })
            .collect();

        for half in 0..2 {
            let placement = place(&vips, half).unwrap();

            let positions: HashSet<_> = vips.iter().map(|vip| vip.position(placement)).collect();
            assert_eq!((placement.half(), positions.len()), (half, vips.len()));
        }
    }

    #[test]
    fn the_same_vip_twice_has_no_place() {
        let vip = Vip { vip: [1, 0], port: 80, protocol: 6, kind: ServiceKind::V6 };

        assert_eq!(place(&[vip, vip], 0), None);
    }

    #[test]
    fn a_record_is_not_taken_for_the_same_address_of_another_kind() {
        let whole = Vip { vip: [5, 0], port: 80, protocol: 6, kind: ServiceKind::V6 };
        let record = Service { vip: [5, 0], tag: whole.tag(), ..Service::default() };
        let prefix = Vip { vip: [5, 0], port: 80, protocol: 6, kind: ServiceKind::V6Prefix };

        assert!(!record.is(&prefix));
        assert!(record.is(&whole));
    }
}
