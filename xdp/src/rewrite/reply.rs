//! The way back of `dnat`: an engine's reply gets the VIP as its source.
use crate::{
    checksum::Delta,
    parse::{Ipv4, Ipv6, Transport},
    rewrite::link,
};

#[inline(always)]
fn patch_source(transport: &Transport<'_>, addresses: Delta, old_port: u16, port: u16) {
    transport.patch_checksum(addresses.replace16(old_port, port));
    transport.set_source_port(port);
}

/// Gives an IPv4 reply the VIP and its port, in wire order.
#[inline(always)]
pub fn rewrite4(packet: &Ipv4<'_>, vip: u32, port: u16, uses_hop: bool) {
    let delta = Delta::NONE.replace32(packet.source(), vip);
    packet.header.store::<u32, 12>(vip);
    if uses_hop {
        link::use_hop4(&packet.header, delta);
    } else {
        packet.header.store::<u16, 10>(delta.apply(packet.header.load::<u16, 10>()));
    }
    patch_source(&packet.transport, delta, packet.transport.source_port(), port);
}

/// Gives an IPv6 reply the VIP's upper half and its port, in wire order.
#[inline(always)]
pub fn rewrite6(packet: &Ipv6<'_>, half: u64, port: u16, uses_hop: bool) {
    let delta = Delta::NONE.replace64(packet.source()[0], half);
    packet.header.store::<u64, 8>(half);
    if uses_hop {
        link::use_hop6(&packet.header);
    }
    patch_source(&packet.transport, delta, packet.transport.source_port(), port);
}
