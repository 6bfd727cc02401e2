//! The parts of a snapshot that are not slots.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use super::{DecodeError, Reader, Writer};
use crate::{
    ClassId, EngineEntry, EngineId, EngineState, Forwarding, FrontendId, GroupId, KeyMode, Protocol,
    ServiceEntry, ServiceId, SiteId, Vip, update::Head,
};

pub(crate) fn put_head(writer: &mut Writer, head: &Head) {
    writer.text(head.frontend.as_str());
    writer.raw(&head.secret);
    writer.flag(head.nat_prefix.is_some());
    if let Some(prefix) = head.nat_prefix {
        writer.raw(&prefix);
    }
}

pub(crate) fn get_head(reader: &mut Reader<'_>) -> Result<Head, DecodeError> {
    Ok(Head {
        frontend: FrontendId(reader.text("frontend")?),
        secret: reader.array("secret")?,
        nat_prefix: reader.flag("nat prefix")?.then(|| reader.array("nat prefix")).transpose()?,
    })
}

pub(crate) fn put_engine(writer: &mut Writer, engine: &EngineEntry) {
    writer.int(u64::from(engine.index));
    writer.text(engine.id.as_str());
    writer.text(engine.group.as_str());
    writer.text(engine.site.as_str());
    put_address(writer, engine.address);
    writer.flag(engine.address6.is_some());
    if let Some(address) = engine.address6 {
        put_address6(writer, address);
    }
    writer.u8(engine.forwarding.map_or(0, forwarding_code));
    writer.int(u64::from(engine.rtt_us));
    writer.u8(match engine.state {
        EngineState::Serving => 0,
        EngineState::Draining => 1,
        EngineState::Out => 2,
    });
}

pub(crate) fn get_engine(reader: &mut Reader<'_>) -> Result<EngineEntry, DecodeError> {
    Ok(EngineEntry {
        index: reader.u16("engine index")?,
        id: EngineId(reader.text("engine id")?),
        group: GroupId(reader.text("engine group")?),
        site: SiteId(reader.text("engine site")?),
        address: get_address(reader)?,
        address6: reader.flag("engine address6")?.then(|| get_address6(reader)).transpose()?,
        forwarding: match reader.u8("engine forwarding")? {
            0 => None,
            code => Some(get_forwarding(code)?),
        },
        rtt_us: reader.u32("engine rtt")?,
        state: match reader.u8("engine state")? {
            0 => EngineState::Serving,
            1 => EngineState::Draining,
            2 => EngineState::Out,
            found => return Err(DecodeError::Unknown { field: "engine state", found: u64::from(found) }),
        },
    })
}

pub(crate) fn put_service_list(writer: &mut Writer, services: &[ServiceEntry]) {
    writer.length(services.len());
    for service in services {
        put_service(writer, service);
    }
}

fn put_service(writer: &mut Writer, service: &ServiceEntry) {
    writer.int(u64::from(service.index));
    writer.text(service.id.as_str());
    writer.text(service.class.as_str());
    match service.vip {
        Vip::V4(address) => {
            writer.u8(0);
            writer.raw(&address.octets());
        }
        Vip::V6(address) => {
            writer.u8(1);
            writer.raw(&address.octets());
        }
        Vip::V6Prefix(address) => {
            writer.u8(2);
            writer.raw(&address.octets());
        }
    }
    writer.int(u64::from(service.port));
    writer.u8(match service.protocol {
        Protocol::Tcp => 0,
        Protocol::Udp => 1,
    });
    match service.key {
        KeyMode::Flow => writer.u8(0),
        KeyMode::Source { prefix4, prefix6 } => {
            writer.u8(1);
            writer.u8(prefix4);
            writer.u8(prefix6);
        }
        KeyMode::Address => writer.u8(2),
        KeyMode::Quic => writer.u8(3),
        KeyMode::Payload { offset, length } => {
            writer.u8(4);
            writer.int(u64::from(offset));
            writer.u8(length);
        }
    }
    writer.u8(forwarding_code(service.forwarding));
}

pub(crate) fn get_service(reader: &mut Reader<'_>) -> Result<ServiceEntry, DecodeError> {
    Ok(ServiceEntry {
        index: reader.u16("service index")?,
        id: ServiceId(reader.text("service id")?),
        class: ClassId(reader.text("service class")?),
        vip: match reader.u8("vip family")? {
            0 => Vip::V4(Ipv4Addr::from_octets(reader.array("vip")?)),
            1 => Vip::V6(Ipv6Addr::from_octets(reader.array("vip")?)),
            2 => Vip::V6Prefix(Ipv6Addr::from_octets(reader.array("vip")?)),
            found => return Err(DecodeError::Unknown { field: "vip family", found: u64::from(found) }),
        },
        port: reader.u16("service port")?,
        protocol: match reader.u8("protocol")? {
            0 => Protocol::Tcp,
            1 => Protocol::Udp,
            found => return Err(DecodeError::Unknown { field: "protocol", found: u64::from(found) }),
        },
        key: get_key_mode(reader)?,
        forwarding: get_forwarding(reader.u8("service forwarding")?)?,
    })
}

fn get_key_mode(reader: &mut Reader<'_>) -> Result<KeyMode, DecodeError> {
    Ok(match reader.u8("key mode")? {
        0 => KeyMode::Flow,
        1 => KeyMode::Source { prefix4: reader.u8("source prefix")?, prefix6: reader.u8("source prefix")? },
        2 => KeyMode::Address,
        3 => KeyMode::Quic,
        4 => KeyMode::Payload { offset: reader.u16("payload offset")?, length: reader.u8("payload length")? },
        found => return Err(DecodeError::Unknown { field: "key mode", found: u64::from(found) }),
    })
}

/// 0 is kept for "the service's own way".
fn forwarding_code(forwarding: Forwarding) -> u8 {
    match forwarding {
        Forwarding::Dnat => 1,
        Forwarding::L2 => 2,
        Forwarding::Ipip => 3,
        Forwarding::Gue => 4,
        Forwarding::Nat => 5,
    }
}

fn get_forwarding(code: u8) -> Result<Forwarding, DecodeError> {
    Ok(match code {
        1 => Forwarding::Dnat,
        2 => Forwarding::L2,
        3 => Forwarding::Ipip,
        4 => Forwarding::Gue,
        5 => Forwarding::Nat,
        found => return Err(DecodeError::Unknown { field: "forwarding", found: u64::from(found) }),
    })
}

fn put_address(writer: &mut Writer, address: SocketAddr) {
    match address {
        SocketAddr::V4(v4) => {
            writer.u8(4);
            writer.raw(&v4.ip().octets());
            writer.int(u64::from(v4.port()));
        }
        SocketAddr::V6(v6) => {
            writer.u8(6);
            put_address6(writer, v6);
        }
    }
}

/// Flow label and scope are not carried: an engine is reached by a routed address.
fn put_address6(writer: &mut Writer, address: SocketAddrV6) {
    writer.raw(&address.ip().octets());
    writer.int(u64::from(address.port()));
}

fn get_address(reader: &mut Reader<'_>) -> Result<SocketAddr, DecodeError> {
    match reader.u8("address family")? {
        4 => {
            let ip = Ipv4Addr::from_octets(reader.array("address")?);
            Ok(SocketAddr::new(IpAddr::V4(ip), reader.u16("port")?))
        }
        6 => get_address6(reader).map(SocketAddr::V6),
        found => Err(DecodeError::Unknown { field: "address family", found: u64::from(found) }),
    }
}

fn get_address6(reader: &mut Reader<'_>) -> Result<SocketAddrV6, DecodeError> {
    let ip = Ipv6Addr::from_octets(reader.array("address")?);
    Ok(SocketAddrV6::new(ip, reader.u16("port")?, 0, 0))
}
