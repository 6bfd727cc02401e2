//! `dnat`: the destination becomes the engine's, without any state.
use penstock_abi::{Config, Engine, Reason, Service, nat_half};

use super::{Refusal, link};
use crate::{
    checksum::Delta,
    parse::{Ipv4, Ipv6, Transport},
};

/// Applies a change of addresses, and writes the destination port.
#[inline(always)]
fn patch_destination(transport: &Transport<'_>, addresses: Delta, old_port: u16, port: u16) {
    transport.patch_checksum(addresses.replace16(old_port, port));
    transport.set_destination_port(port);
}

/// Rewrites an IPv4 packet to the engine's address and port, without its TTL if the stack routes it.
#[inline(always)]
pub fn rewrite4(packet: &Ipv4<'_>, service: &Service, engine: &Engine, uses_hop: bool) {
    let old = packet.destination();
    let delta = Delta::NONE.replace32(old, engine.address4);
    packet.header.store::<u32, 16>(engine.address4);
    if uses_hop {
        link::use_hop4(&packet.header, delta);
    } else {
        packet.header.store::<u16, 10>(delta.apply(packet.header.load::<u16, 10>()));
    }
    patch_destination(&packet.transport, delta, service.port(), engine.port);
}

/// The upper half of the prefix form's destination: `nat_prefix : service : engine`.
///
/// # Errors
///
/// `NoMethod` while the fleet has no prefix.
#[inline(always)]
pub fn prefix_half(config: &Config, service: &Service, engine: u16) -> Result<u64, Refusal> {
    if config.nat_prefix == 0 {
        return Err(Reason::NoMethod);
    }
    Ok(nat_half(config.nat_prefix, service.index, engine))
}

/// Rewrites the upper half of an IPv6 packet's destination and its port.
#[inline(always)]
pub fn rewrite6(packet: &Ipv6<'_>, half: u64, service: &Service, engine: &Engine, uses_hop: bool) {
    let delta = Delta::NONE.replace64(packet.destination()[0], half);
    packet.header.store::<u64, 24>(half);
    if uses_hop {
        link::use_hop6(&packet.header);
    }
    patch_destination(&packet.transport, delta, service.port(), engine.port);
}
