//! The way of an IPv6 packet.
use penstock_abi::{Config, Engine, FORWARD_INHERIT, Method, Reason, Service, nat_half_parts};

use crate::{
    frame::{Frame, Window},
    kernel::Kernel,
    key,
    parse::{ETHERNET_BYTES, Ipv6, Phase, Progress},
    path::{drop, pass, route},
    quoted,
    rewrite::{Way, destination, encapsulate, link, reply, reset, way6},
    slot::{self, Choice},
    verdict::Verdict,
};

#[inline(always)]
pub(crate) fn run<K: Kernel>(kernel: &K, frame: &Frame<'_>, ethernet: &Window<'_, 14>) -> Verdict {
    let packet = match Ipv6::parse(frame, ETHERNET_BYTES) {
        Ok(packet) => packet,
        Err(Reason::OtherProtocol) => {
            return kernel.config().map_or(Verdict::Pass, |config| quoted::forward6(kernel, config, frame));
        }
        Err(reason) => return pass(kernel, reason),
    };
    let Some(config) = kernel.config() else {
        return pass(kernel, Reason::OtherTraffic);
    };
    match key::service6(kernel, config, &packet) {
        Some(service) => towards_engine(kernel, config, ethernet, &packet, service),
        None => towards_client(kernel, config, ethernet, &packet),
    }
}

#[inline(always)]
fn towards_engine<K: Kernel>(
    kernel: &K,
    config: &Config,
    ethernet: &Window<'_, 14>,
    packet: &Ipv6<'_>,
    service: &Service,
) -> Verdict {
    if packet.hop_limit() <= 1 {
        return pass(kernel, Reason::TtlExpired);
    }
    let key = key::key6(config, service, packet);
    let flow = || key::flow6(config, service, packet);
    let (index, engine) = match slot::choose(kernel, config, service, key, &packet.transport, flow) {
        Choice::Engine(index, engine) => (index, engine),
        Choice::Reset => {
            kernel.count(Reason::Reset);
            return reset::reset6(kernel, config, ethernet, packet);
        }
        Choice::Shed => {
            kernel.count(Reason::Shed);
            kernel.count_refused(service.index);
            return reset::reset6(kernel, config, ethernet, packet);
        }
        Choice::Nobody => return drop(kernel, Reason::NoEngine),
    };
    kernel.count_forwarded(
        service.index,
        index,
        packet.payload.wrapping_add(40),
        packet.transport.phase() == Phase::New,
    );
    let method = if engine.method == FORWARD_INHERIT { service.forwarding } else { engine.method };
    if method == Method::Dnat as u8 {
        return by_prefix(kernel, config, ethernet, packet, (service, engine, index));
    }
    if engine.address6 == [0, 0] {
        return drop(kernel, Reason::NoMethod);
    }
    let way = way6(kernel, engine, engine.address6);
    if method == Method::L2 as u8 {
        let Way::Link(link) = way else {
            return drop(kernel, Reason::NoNextHop);
        };
        link::use_hop6(&packet.header);
        return link::send(kernel, config, ethernet, link);
    }
    if method == Method::Ipip as u8 {
        let inner = (packet.payload.saturating_add(40), packet.header.load::<u32, 0>());
        link::use_hop6(&packet.header);
        return match (
            encapsulate::ip6ip6(kernel, engine, inner, key ^ u64::from(packet.transport.source_port())),
            way,
        ) {
            (Ok(ethernet), Way::Link(link)) => link::send(kernel, config, &ethernet, link),
            (Ok(_), Way::Stack | Way::Local) => route(kernel),
            (Err(reason), _) => drop(kernel, reason),
        };
    }
    drop(kernel, Reason::NoMethod)
}

#[inline(always)]
fn by_prefix<K: Kernel>(
    kernel: &K,
    config: &Config,
    ethernet: &Window<'_, 14>,
    packet: &Ipv6<'_>,
    (service, engine, index): (&Service, &Engine, u16),
) -> Verdict {
    let half = match destination::prefix_half(config, service, index) {
        Ok(half) => half,
        Err(reason) => return drop(kernel, reason),
    };
    let way = way6(kernel, engine, [half, packet.destination()[1]]);
    destination::rewrite6(packet, half, service, engine, matches!(way, Way::Link(_)));
    match way {
        Way::Link(link) => link::send(kernel, config, ethernet, link),
        Way::Stack | Way::Local => route(kernel),
    }
}

/// A packet that is not to a VIP: the reply of an engine, or none of ours.
#[inline(always)]
fn towards_client<K: Kernel>(
    kernel: &K,
    config: &Config,
    ethernet: &Window<'_, 14>,
    packet: &Ipv6<'_>,
) -> Verdict {
    if config.nat_prefix == 0 {
        return pass(kernel, Reason::OtherTraffic);
    }
    let Some((service, _)) = nat_half_parts(config.nat_prefix, packet.source()[0]) else {
        return pass(kernel, Reason::OtherTraffic);
    };
    let Some(vip) = kernel.vip(service).filter(|vip| !vip.is_empty()) else {
        return pass(kernel, Reason::OtherTraffic);
    };
    let destination = packet.destination();
    let way = Way::of_next_hop(kernel.next_hop6([vip.vip[0], packet.source()[1]], destination));
    if way == Way::Local {
        return pass(kernel, Reason::LocalReply);
    }
    if packet.hop_limit() <= 1 {
        return pass(kernel, Reason::TtlExpired);
    }
    kernel.count(Reason::Reply);
    reply::rewrite6(packet, vip.vip[0], vip.port(), matches!(way, Way::Link(_)));
    match way {
        Way::Link(link) => link::send(kernel, config, ethernet, link),
        Way::Stack | Way::Local => route(kernel),
    }
}
