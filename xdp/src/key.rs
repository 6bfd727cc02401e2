//! Second stage: which service a packet belongs to, and what its key hashes to.
use penstock_abi::{Config, KeyKind, Placement, SERVICE_RECORDS, Service, ServiceKind, Vip};

use crate::{
    kernel::Kernel,
    parse::{Ipv4, Ipv6},
};

/// The service of an IPv4 packet.
#[inline(always)]
pub fn service4<'k, K: Kernel>(kernel: &'k K, config: &Config, packet: &Ipv4<'_>) -> Option<&'k Service> {
    find(
        kernel,
        config,
        &Vip {
            vip: [u64::from(packet.destination()), 0],
            port: packet.transport.destination_port(),
            protocol: packet.transport.protocol,
            kind: ServiceKind::V4,
        },
    )
}

/// The service of an IPv6 packet: by the upper half of its destination, else by all of it.
#[inline(always)]
pub fn service6<'k, K: Kernel>(kernel: &'k K, config: &Config, packet: &Ipv6<'_>) -> Option<&'k Service> {
    let destination = packet.destination();
    let port = packet.transport.destination_port();
    let protocol = packet.transport.protocol;
    let prefix = Vip { vip: [destination[0], 0], port, protocol, kind: ServiceKind::V6Prefix };
    if let Some(service) = find(kernel, config, &prefix) {
        return Some(service);
    }
    find(kernel, config, &Vip { vip: destination, port, protocol, kind: ServiceKind::V6 })
}

#[inline(always)]
pub(crate) fn find<'k, K: Kernel>(kernel: &'k K, config: &Config, vip: &Vip) -> Option<&'k Service> {
    let placement = Placement(config.placement);
    #[expect(clippy::cast_possible_truncation, reason = "4,096 records")]
    let base = placement.half() * SERVICE_RECORDS as u32;
    let service = kernel.service_record(base + vip.position(placement))?;
    service.is(vip).then_some(service)
}

/// The hash that names an IPv4 flow in the flow cache.
#[inline(always)]
pub fn flow4(config: &Config, service: &Service, packet: &Ipv4<'_>) -> u64 {
    config.hash_key.of_flow4(packet.source(), packet.transport.source_port(), service.index)
}

/// The hash that names an IPv6 flow in the flow cache.
#[inline(always)]
pub fn flow6(config: &Config, service: &Service, packet: &Ipv6<'_>) -> u64 {
    let low = packet.destination()[1];
    config.hash_key.of_flow6(packet.source(), low, packet.transport.source_port(), service.index)
}

/// The hash that picks the slot of an IPv4 packet.
#[inline(always)]
pub fn key4(config: &Config, service: &Service, packet: &Ipv4<'_>) -> u64 {
    if service.key == KeyKind::Source as u8 {
        return source4(config, service, packet.source());
    }
    flow4(config, service, packet)
}

/// The hash that picks the slot of an IPv6 packet.
#[inline(always)]
pub fn key6(config: &Config, service: &Service, packet: &Ipv6<'_>) -> u64 {
    if service.key == KeyKind::Address as u8 {
        return config.hash_key.of_key(u64::from_be(packet.destination()[1]));
    }
    if service.key == KeyKind::Source as u8 {
        return source6(config, service, packet.source());
    }
    flow6(config, service, packet)
}

/// The hash of an IPv4 client, cut to the service's prefix.
#[inline(always)]
pub(crate) fn source4(config: &Config, service: &Service, client: u32) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "an IPv4 mask stands in the low half")]
    let mask = service.source_mask[0] as u32;
    config.hash_key.of_source4(client & mask)
}

/// The hash of an IPv6 client, cut to the service's prefix.
#[inline(always)]
pub(crate) fn source6(config: &Config, service: &Service, client: [u64; 2]) -> u64 {
    let mask = service.source_mask;
    config.hash_key.of_source6([client[0] & mask[0], client[1] & mask[1]])
}
