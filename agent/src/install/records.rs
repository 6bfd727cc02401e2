//! From a snapshot to the records of the kernel's maps. Pure: nothing is written here.
use std::{
    collections::{BTreeMap, BTreeSet},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4},
};

use penstock_abi::{
    Engine, EngineFlags, FORWARD_INHERIT, KeyKind, MAX_ENGINES, MAX_REPLIES, MAX_SERVICES, Method, Reply,
    ReplyKey, Service, ServiceKind, Vip, conversation_key,
};
use penstock_wire::{
    ClassId, EngineEntry, EngineState, Forwarding, KeyMode, Protocol, ServiceEntry, Snapshot, Vip as WireVip,
};

use super::error::InstallError;

/// Sources of outer headers, so that the parts that vary by flow are free.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct OuterSources {
    pub(super) v4: Ipv4Addr,
    pub(super) v6: Ipv6Addr,
}

/// An IPv4 address as it is loaded from a packet.
pub(super) fn wire4(address: Ipv4Addr) -> u32 {
    u32::from_ne_bytes(address.octets())
}

/// The halves of an IPv6 address as they are loaded from a packet.
pub(super) fn wire6(address: Ipv6Addr) -> [u64; 2] {
    let bits = address.to_bits().to_be_bytes();
    let (high, low) = bits.split_at(8);
    [high, low].map(|half| u64::from_ne_bytes(half.try_into().expect("half of sixteen bytes is eight")))
}

pub(super) const fn protocol_number(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Tcp => 6,
        Protocol::Udp => 17,
    }
}

pub(super) const fn method(forwarding: Forwarding) -> Method {
    match forwarding {
        Forwarding::Dnat => Method::Dnat,
        Forwarding::L2 => Method::L2,
        Forwarding::Ipip => Method::Ipip,
        Forwarding::Gue => Method::Gue,
        Forwarding::Nat => Method::Nat,
    }
}

/// Class ids as maps hold them.
pub(super) fn class_hash(class: &ClassId) -> u64 {
    conversation_key(class.as_str()) | 1
}

/// What a packet must have to belong to a service.
pub(super) fn vip_of(vip: WireVip, port: u16, protocol: Protocol) -> Vip {
    let (vip, kind) = match vip {
        WireVip::V4(address) => ([u64::from(wire4(address)), 0], ServiceKind::V4),
        WireVip::V6(address) => (wire6(address), ServiceKind::V6),
        WireVip::V6Prefix(prefix) => (wire6(prefix), ServiceKind::V6Prefix),
    };
    Vip { vip, port: port.to_be(), protocol: protocol_number(protocol), kind }
}

/// The record of a service whose table stands at `base` with `slots` slots.
pub(super) fn service(entry: &ServiceEntry, base: u32, slots: u32) -> Service {
    let vip = vip_of(entry.vip, entry.port, entry.protocol);
    let (key, source_mask, payload) = match entry.key {
        KeyMode::Flow => (KeyKind::Flow, [0; 2], (0, 0)),
        KeyMode::Source { prefix4, prefix6 } => {
            (KeyKind::Source, source_mask(vip.kind, prefix4, prefix6), (0, 0))
        }
        KeyMode::Address => (KeyKind::Address, [0; 2], (0, 0)),
        KeyMode::Quic => (KeyKind::Quic, [0; 2], (0, 0)),
        KeyMode::Payload { offset, length } => (KeyKind::Payload, [0; 2], (offset, length)),
    };
    Service {
        vip: vip.vip,
        tag: vip.tag(),
        slot_base: base,
        slot_mask: slots - 1,
        index: entry.index,
        key: key as u8,
        forwarding: method(entry.forwarding) as u8,
        payload_offset: payload.0,
        payload_length: payload.1,
        source_mask,
        class: class_hash(&entry.class),
        ..Service::default()
    }
}

fn source_mask(kind: ServiceKind, prefix4: u8, prefix6: u8) -> [u64; 2] {
    if kind == ServiceKind::V4 {
        let mask = u32::MAX.checked_shl(32 - u32::from(prefix4)).unwrap_or(0);
        return [u64::from(wire4(mask.into())), 0];
    }
    wire6(u128::MAX.checked_shl(128 - u32::from(prefix6)).unwrap_or(0).into())
}

/// The record of an engine, its next hop left to the kernel's FIB. Bits of `kept` that the guard owns stay.
pub(super) fn engine(entry: &EngineEntry, outer: OuterSources, kept: EngineFlags) -> Engine {
    let state = match entry.state {
        EngineState::Serving => 0,
        EngineState::Draining => EngineFlags::DRAINS,
        EngineState::Out => EngineFlags::OUT,
    };
    let guarded = kept.0 & (EngineFlags::DIVERTS | EngineFlags::EJECTED | EngineFlags::OVER_AFFINITY_BOUND);
    let (address4, address6) = addresses(entry);
    let outer4 = wire4(outer.v4) & u32::from_ne_bytes([0xff, 0xff, 0, 0]);
    let address4 = address4.map_or(0, wire4);
    Engine {
        flags: EngineFlags::PRESENT | state | guarded,
        method: entry.forwarding.map_or(FORWARD_INHERIT, |forwarding| method(forwarding) as u8),
        address4,
        port: entry.address.port().to_be(),
        outer_sum: Engine::outer_sum_of(outer4, address4),
        address6: address6.map_or([0, 0], wire6),
        outer4,
        outer6: wire6(outer.v6)[0],
        ..Engine::default()
    }
}

pub(super) fn addresses(entry: &EngineEntry) -> (Option<Ipv4Addr>, Option<Ipv6Addr>) {
    match entry.address {
        SocketAddr::V4(address) => (Some(*address.ip()), entry.address6.map(|address| *address.ip())),
        SocketAddr::V6(address) => (None, Some(*address.ip())),
    }
}

/// All limits that the kernel's maps set beyond [`Snapshot::check`], and VIPs that collide.
pub(super) fn check(snapshot: &Snapshot) -> Result<(), InstallError> {
    snapshot.check()?;
    let too_large = |what, index, limit| InstallError::IndexTooLarge { what, index, limit };
    if let Some(engine) = snapshot.engines.iter().find(|engine| usize::from(engine.index) >= MAX_ENGINES) {
        return Err(too_large("an engine", engine.index, MAX_ENGINES));
    }
    if let Some(service) = snapshot.services.iter().find(|service| usize::from(service.index) >= MAX_SERVICES)
    {
        return Err(too_large("a service", service.index, MAX_SERVICES));
    }
    let mut vips = BTreeSet::new();
    for service in &snapshot.services {
        let vip = vip_of(service.vip, service.port, service.protocol);
        if !vips.insert((vip.vip, vip.tag())) {
            return Err(InstallError::SameVip { service: service.id.clone() });
        }
    }
    Ok(())
}

/// The VIP behind each engine address from which replies to IPv4 `dnat` services come.
pub(super) fn replies(snapshot: &Snapshot) -> Result<BTreeMap<[u8; 8], Reply>, InstallError> {
    let engines: BTreeMap<u16, &EngineEntry> =
        snapshot.engines.iter().map(|engine| (engine.index, engine)).collect();
    let mut replies: BTreeMap<[u8; 8], Reply> = BTreeMap::new();
    for service in &snapshot.services {
        let WireVip::V4(vip) = service.vip else { continue };
        let reply = Reply { vip: wire4(vip), port: service.port.to_be(), service: service.index };
        let table = snapshot.tables.iter().find(|table| table.class == service.class);
        for candidate in table.into_iter().flat_map(|table| &table.candidates) {
            let Some(engine) = engines.get(&candidate.engine) else { continue };
            if engine.forwarding.unwrap_or(service.forwarding) != Forwarding::Dnat {
                continue;
            }
            let Some(address) = addresses(engine).0 else { continue };
            let port = engine.address.port();
            let protocol = protocol_number(service.protocol);
            let key = ReplyKey { address: wire4(address), port: port.to_be(), protocol, pad: 0 };
            let earlier = replies.insert(bytemuck::cast(key), reply);
            if earlier.is_some_and(|earlier| earlier != reply) {
                let address = SocketAddrV4::new(address, port);
                return Err(InstallError::SharedEngine { service: service.id.clone(), address });
            }
        }
    }
    if replies.len() > MAX_REPLIES {
        return Err(InstallError::TooLarge {
            what: "engine addresses",
            count: replies.len(),
            limit: MAX_REPLIES,
        });
    }
    Ok(replies)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_stand_as_in_a_packet() {
        assert_eq!(wire4(Ipv4Addr::new(10, 1, 2, 3)).to_ne_bytes(), [10, 1, 2, 3]);
        let halves = wire6("2001:db8:1:2:3:4:5:6".parse().unwrap());
        assert_eq!(halves[0].to_ne_bytes(), [0x20, 1, 0x0d, 0xb8, 0, 1, 0, 2]);
        assert_eq!(halves[1].to_ne_bytes(), [0, 3, 0, 4, 0, 5, 0, 6]);
    }

    #[test]
    fn a_source_prefix_keeps_the_leading_bits_of_the_packet() {
        let mask = source_mask(ServiceKind::V4, 20, 0);
        assert_eq!(mask[0].to_le().to_le_bytes()[..4], [255, 255, 0xf0, 0]);

        let mask = source_mask(ServiceKind::V6, 0, 56);
        assert_eq!(mask[0].to_ne_bytes(), [255, 255, 255, 255, 255, 255, 255, 0]);
        assert_eq!(mask[1], 0);
        assert_eq!(source_mask(ServiceKind::V6, 0, 0), [0, 0]);
    }
}
