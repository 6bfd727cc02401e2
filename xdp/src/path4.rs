//! The way of an IPv4 packet.
use penstock_abi::{Config, Engine, FORWARD_INHERIT, Method, Reason, ReplyKey, Service};

use crate::{
    frame::{Frame, Window},
    kernel::Kernel,
    key,
    parse::{ETHERNET_BYTES, Ipv4, Phase, Progress},
    path::{drop, pass, route},
    quoted,
    rewrite::{Way, destination, encapsulate, link, reply, reset, way4},
    slot::{self, Choice},
    verdict::Verdict,
};

#[inline(always)]
pub(crate) fn run<K: Kernel>(kernel: &K, frame: &Frame<'_>, ethernet: &Window<'_, 14>) -> Verdict {
    let Some(header) = frame.window::<20>(ETHERNET_BYTES) else {
        return pass(kernel, Reason::Malformed);
    };
    match header.load::<u8, 0>() {
        0x45 => match Ipv4::parse(frame, header, ETHERNET_BYTES, 20) {
            Err(Reason::OtherProtocol) => {
                kernel.config().map_or(Verdict::Pass, |config| quoted::forward4(kernel, config, frame))
            }
            packet => parsed(kernel, ethernet, packet),
        },
        first @ 0x46..=0x4f => {
            let header_bytes = u16::from(first & 0x0f) << 2;
            parsed(kernel, ethernet, Ipv4::parse(frame, header, ETHERNET_BYTES, header_bytes))
        }
        _ => pass(kernel, Reason::Malformed),
    }
}

#[inline(always)]
fn parsed<K: Kernel>(kernel: &K, ethernet: &Window<'_, 14>, packet: Result<Ipv4<'_>, Reason>) -> Verdict {
    let packet = match packet {
        Ok(packet) => packet,
        Err(reason) => return pass(kernel, reason),
    };
    let Some(config) = kernel.config() else {
        return pass(kernel, Reason::OtherTraffic);
    };
    match key::service4(kernel, config, &packet) {
        Some(service) => towards_engine(kernel, config, ethernet, &packet, service),
        None => towards_client(kernel, config, ethernet, &packet),
    }
}

#[inline(always)]
fn towards_engine<K: Kernel>(
    kernel: &K,
    config: &Config,
    ethernet: &Window<'_, 14>,
    packet: &Ipv4<'_>,
    service: &Service,
) -> Verdict {
    if packet.ttl() <= 1 {
        return pass(kernel, Reason::TtlExpired);
    }
    let key = key::key4(config, service, packet);
    let flow = || key::flow4(config, service, packet);
    let (index, engine) = match slot::choose(kernel, config, service, key, &packet.transport, flow) {
        Choice::Engine(index, engine) => (index, engine),
        Choice::Reset => {
            kernel.count(Reason::Reset);
            return reset::reset4(kernel, config, ethernet, packet);
        }
        Choice::Shed => {
            kernel.count(Reason::Shed);
            kernel.count_refused(service.index);
            return reset::reset4(kernel, config, ethernet, packet);
        }
        Choice::Nobody => return drop(kernel, Reason::NoEngine),
    };
    if engine.address4 == 0 {
        return drop(kernel, Reason::NoMethod);
    }
    kernel.count_forwarded(service.index, index, packet.total, packet.transport.phase() == Phase::New);
    forward(
        kernel,
        config,
        ethernet,
        packet,
        service,
        engine,
        key ^ u64::from(packet.transport.source_port()),
    )
}

#[inline(always)]
fn forward<K: Kernel>(
    kernel: &K,
    config: &Config,
    ethernet: &Window<'_, 14>,
    packet: &Ipv4<'_>,
    service: &Service,
    engine: &Engine,
    entropy: u64,
) -> Verdict {
    let method = if engine.method == FORWARD_INHERIT { service.forwarding } else { engine.method };
    let way = way4(kernel, engine);
    if method == Method::Dnat as u8 {
        destination::rewrite4(packet, service, engine, matches!(way, Way::Link(_)));
        return match way {
            Way::Link(link) => link::send(kernel, config, ethernet, link),
            Way::Stack | Way::Local => route(kernel),
        };
    }
    if method == Method::L2 as u8 {
        let Way::Link(link) = way else {
            return drop(kernel, Reason::NoNextHop);
        };
        link::use_hop4(&packet.header, crate::checksum::Delta::NONE);
        return link::send(kernel, config, ethernet, link);
    }
    if method == Method::Ipip as u8 {
        let inner = (packet.total, packet.header.load::<u8, 1>());
        link::use_hop4(&packet.header, crate::checksum::Delta::NONE);
        return match (encapsulate::ipip(kernel, engine, inner, entropy), way) {
            (Ok(ethernet), Way::Link(link)) => link::send(kernel, config, &ethernet, link),
            (Ok(_), Way::Stack | Way::Local) => route(kernel),
            (Err(reason), _) => drop(kernel, reason),
        };
    }
    drop(kernel, Reason::NoMethod)
}

/// A packet that is not to a VIP: the reply of an engine, or none of ours.
#[inline(always)]
fn towards_client<K: Kernel>(
    kernel: &K,
    config: &Config,
    ethernet: &Window<'_, 14>,
    packet: &Ipv4<'_>,
) -> Verdict {
    let key = ReplyKey {
        address: packet.source(),
        port: packet.transport.source_port(),
        protocol: packet.transport.protocol,
        pad: 0,
    };
    let Some(found) = kernel.reply(&key) else {
        return pass(kernel, Reason::OtherTraffic);
    };
    let way = Way::of_next_hop(kernel.next_hop4(found.vip, packet.destination()));
    if way == Way::Local {
        return pass(kernel, Reason::LocalReply);
    }
    if packet.ttl() <= 1 {
        return pass(kernel, Reason::TtlExpired);
    }
    kernel.count(Reason::Reply);
    reply::rewrite4(packet, found.vip, found.port, matches!(way, Way::Link(_)));
    match way {
        Way::Link(link) => link::send(kernel, config, ethernet, link),
        Way::Stack | Way::Local => route(kernel),
    }
}
