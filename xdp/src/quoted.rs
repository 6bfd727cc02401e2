//! ICMP errors about packets of an engine: they go to the engine whose flow they quote, so that path MTU discovery
//! works. What they quote went from a VIP to a client, so both ends change places.
use penstock_abi::{Config, Engine, FORWARD_INHERIT, KeyKind, Method, Reason, Service, ServiceKind, Vip};

use crate::{
    checksum::Delta,
    frame::{Frame, Window},
    kernel::Kernel,
    key,
    parse::{Phase, Progress, TCP, UDP},
    path::{drop, pass, route},
    rewrite::{Way, destination, encapsulate, link, way4, way6},
    slot::{self, Choice},
    verdict::Verdict,
};

const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// An error is part of a flow that began before it.
struct Quoted;

impl Progress for Quoted {
    fn phase(&self) -> Phase {
        Phase::Established
    }

    fn closes(&self) -> bool {
        false
    }
}

/// An ICMP error over IPv4 that quotes a packet of TCP or UDP; both headers without options.
struct Error4<'a> {
    ethernet: Window<'a, 14>,
    header: Window<'a, 20>,
    icmp: Window<'a, 8>,
    quote: Window<'a, 20>,
    ports: Window<'a, 8>,
}

/// An ICMPv6 error that quotes a packet of TCP or UDP; both headers without extensions.
struct Error6<'a> {
    ethernet: Window<'a, 14>,
    header: Window<'a, 40>,
    icmp: Window<'a, 8>,
    quote: Window<'a, 40>,
    ports: Window<'a, 8>,
}

#[inline(always)]
fn parse4<'a>(frame: &Frame<'a>) -> Option<Error4<'a>> {
    let header = frame.window::<20>(14)?;
    if header.load::<u8, 0>() != 0x45 || header.load::<u8, 9>() != ICMP {
        return None;
    }
    let (icmp, quote, ports) = (frame.window::<8>(34)?, frame.window::<20>(42)?, frame.window::<8>(62)?);
    let is_error = matches!(icmp.load::<u8, 0>(), 3 | 11 | 12);
    let protocol = quote.load::<u8, 9>();
    let is_whole = quote.load::<u8, 0>() == 0x45 && header.load::<u16, 6>() & 0x3fff_u16.to_be() == 0;
    let is_of_vip = quote.load::<u32, 12>() == header.load::<u32, 16>();
    (is_error && is_whole && is_of_vip && (protocol == TCP || protocol == UDP)).then_some(Error4 {
        ethernet: frame.window::<14>(0)?,
        header,
        icmp,
        quote,
        ports,
    })
}

#[inline(always)]
fn parse6<'a>(frame: &Frame<'a>) -> Option<Error6<'a>> {
    let header = frame.window::<40>(14)?;
    if header.load::<u8, 6>() != ICMPV6 {
        return None;
    }
    let (icmp, quote, ports) = (frame.window::<8>(54)?, frame.window::<40>(62)?, frame.window::<8>(102)?);
    let is_error = matches!(icmp.load::<u8, 0>(), 1..=4);
    let protocol = quote.load::<u8, 6>();
    let is_of_vip = quote.load::<u64, 8>() == header.load::<u64, 24>()
        && quote.load::<u64, 16>() == header.load::<u64, 32>();
    (is_error && is_of_vip && (protocol == TCP || protocol == UDP)).then_some(Error6 {
        ethernet: frame.window::<14>(0)?,
        header,
        icmp,
        quote,
        ports,
    })
}

/// Forwards an ICMP error over IPv4, or passes what is none.
#[inline(always)]
pub(crate) fn forward4<K: Kernel>(kernel: &K, config: &Config, frame: &Frame<'_>) -> Verdict {
    let Some(error) = parse4(frame) else {
        return pass(kernel, Reason::OtherProtocol);
    };
    let vip = Vip {
        vip: [u64::from(error.quote.load::<u32, 12>()), 0],
        port: error.ports.load::<u16, 0>(),
        protocol: error.quote.load::<u8, 9>(),
        kind: ServiceKind::V4,
    };
    let Some(service) = key::find(kernel, config, &vip) else {
        return pass(kernel, Reason::OtherProtocol);
    };
    let (client, port) = (error.quote.load::<u32, 16>(), error.ports.load::<u16, 2>());
    let flow = config.hash_key.of_flow4(client, port, service.index);
    let key = if service.key == KeyKind::Source as u8 { key::source4(config, service, client) } else { flow };
    let Choice::Engine(_, engine) = slot::choose(kernel, config, service, key, &Quoted, || flow) else {
        return drop(kernel, Reason::NoEngine);
    };
    if error.header.load::<u8, 8>() <= 1 {
        return pass(kernel, Reason::TtlExpired);
    }
    kernel.count(Reason::IcmpForwarded);
    send4(kernel, config, &error, service, engine, key)
}

#[inline(always)]
fn send4<K: Kernel>(
    kernel: &K,
    config: &Config,
    error: &Error4<'_>,
    service: &Service,
    engine: &Engine,
    key: u64,
) -> Verdict {
    let method = if engine.method == FORWARD_INHERIT { service.forwarding } else { engine.method };
    let way = way4(kernel, engine);
    if method == Method::Dnat as u8 {
        let address = Delta::NONE.replace32(error.header.load::<u32, 16>(), engine.address4);
        let before = error.quote.load::<u16, 10>();
        let after = address.apply(before);
        error.quote.store::<u32, 12>(engine.address4);
        error.quote.store::<u16, 10>(after);
        error.ports.store::<u16, 0>(engine.port);
        let quoted = address.replace16(before, after).replace16(service.port(), engine.port);
        error.icmp.store::<u16, 2>(quoted.apply(error.icmp.load::<u16, 2>()));
        error.header.store::<u32, 16>(engine.address4);
        link::use_hop4(&error.header, address);
        return leave(kernel, config, &error.ethernet, way);
    }
    link::use_hop4(&error.header, Delta::NONE);
    if method == Method::L2 as u8 {
        return leave(kernel, config, &error.ethernet, way);
    }
    if method == Method::Ipip as u8 {
        let inner = (u16::from_be(error.header.load::<u16, 2>()), error.header.load::<u8, 1>());
        return match encapsulate::ipip(kernel, engine, inner, key) {
            Ok(ethernet) => leave(kernel, config, &ethernet, way),
            Err(reason) => drop(kernel, reason),
        };
    }
    drop(kernel, Reason::NoMethod)
}

/// Forwards an ICMPv6 error, or passes what is none.
#[inline(always)]
pub(crate) fn forward6<K: Kernel>(kernel: &K, config: &Config, frame: &Frame<'_>) -> Verdict {
    let Some(error) = parse6(frame) else {
        return pass(kernel, Reason::OtherProtocol);
    };
    let vip = [error.quote.load::<u64, 8>(), error.quote.load::<u64, 16>()];
    let (port, protocol) = (error.ports.load::<u16, 0>(), error.quote.load::<u8, 6>());
    let prefix = Vip { vip: [vip[0], 0], port, protocol, kind: ServiceKind::V6Prefix };
    let whole = Vip { vip, port, protocol, kind: ServiceKind::V6 };
    let Some(service) = key::find(kernel, config, &prefix).or_else(|| key::find(kernel, config, &whole))
    else {
        return pass(kernel, Reason::OtherProtocol);
    };
    let client = [error.quote.load::<u64, 24>(), error.quote.load::<u64, 32>()];
    let flow = config.hash_key.of_flow6(client, vip[1], error.ports.load::<u16, 2>(), service.index);
    let key = if service.key == KeyKind::Address as u8 {
        config.hash_key.of_key(u64::from_be(vip[1]))
    } else if service.key == KeyKind::Source as u8 {
        key::source6(config, service, client)
    } else {
        flow
    };
    let Choice::Engine(index, engine) = slot::choose(kernel, config, service, key, &Quoted, || flow) else {
        return drop(kernel, Reason::NoEngine);
    };
    if error.header.load::<u8, 7>() <= 1 {
        return pass(kernel, Reason::TtlExpired);
    }
    kernel.count(Reason::IcmpForwarded);
    send6(kernel, config, &error, (service, engine, index), key)
}

#[inline(always)]
fn send6<K: Kernel>(
    kernel: &K,
    config: &Config,
    error: &Error6<'_>,
    (service, engine, index): (&Service, &Engine, u16),
    key: u64,
) -> Verdict {
    let method = if engine.method == FORWARD_INHERIT { service.forwarding } else { engine.method };
    let vip = error.header.load::<u64, 24>();
    if method == Method::Dnat as u8 {
        let Ok(half) = destination::prefix_half(config, service, index) else {
            return drop(kernel, Reason::NoMethod);
        };
        let way = way6(kernel, engine, [half, error.header.load::<u64, 32>()]);
        // Once in the pseudo header, once in the quote.
        let delta =
            Delta::NONE.replace64(vip, half).replace64(vip, half).replace16(service.port(), engine.port);
        error.icmp.store::<u16, 2>(delta.apply(error.icmp.load::<u16, 2>()));
        error.quote.store::<u64, 8>(half);
        error.ports.store::<u16, 0>(engine.port);
        error.header.store::<u64, 24>(half);
        link::use_hop6(&error.header);
        return leave(kernel, config, &error.ethernet, way);
    }
    let way = way6(kernel, engine, engine.address6);
    link::use_hop6(&error.header);
    if method == Method::L2 as u8 {
        return leave(kernel, config, &error.ethernet, way);
    }
    if method == Method::Ipip as u8 {
        let payload = u16::from_be(error.header.load::<u16, 4>()).saturating_add(40);
        return match encapsulate::ip6ip6(kernel, engine, (payload, error.header.load::<u32, 0>()), key) {
            Ok(ethernet) => leave(kernel, config, &ethernet, way),
            Err(reason) => drop(kernel, reason),
        };
    }
    drop(kernel, Reason::NoMethod)
}

#[inline(always)]
fn leave<K: Kernel>(kernel: &K, config: &Config, ethernet: &Window<'_, 14>, way: Way) -> Verdict {
    match way {
        Way::Link(link) => link::send(kernel, config, ethernet, link),
        Way::Stack | Way::Local => route(kernel),
    }
}
