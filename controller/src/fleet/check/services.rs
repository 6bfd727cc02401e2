//! Services: VIP, key and forwarding, and whether each engine of the class can be reached so.
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;

use penstock_wire::{ClassId, Forwarding, KeyMode, Protocol, ServiceId, Vip};
use toml::Spanned;

use super::{Checker, Places};
use crate::fleet::fault::FaultKind;
use crate::fleet::parts::{Class, Engine, EngineGroup, Frontend, Service};
use crate::fleet::raw::{Given, RawFleet, RawService};

const PROTOCOLS: (&[(&str, Protocol)], &str) =
    (&[("tcp", Protocol::Tcp), ("udp", Protocol::Udp)], "tcp, udp");
const FORWARDINGS: (&[(&str, Forwarding)], &str) = (
    &[
        ("dnat", Forwarding::Dnat),
        ("l2", Forwarding::L2),
        ("ipip", Forwarding::Ipip),
        ("gue", Forwarding::Gue),
        ("nat", Forwarding::Nat),
    ],
    "dnat, l2, ipip, gue, nat",
);

/// A service and where it stands.
struct Placed {
    service: Service,
    owner: Range<usize>,
    key: String,
}

impl Checker {
    pub(super) fn services(
        &mut self,
        raw: &RawFleet,
        engines: &[Engine],
        frontends: &[Frontend],
        classes: &[Class],
        groups: &[EngineGroup],
    ) -> Vec<Service> {
        let mut seen = Places::new();
        let mut placed: Vec<Placed> = Vec::new();
        for (at, service) in raw.service.iter().enumerate() {
            let (owner, key) = (service.span(), format!("service[{at}]"));
            if let Some(service) = self.service(service.get_ref(), &owner, &key, &mut seen) {
                placed.push(Placed { service, owner, key });
            }
        }
        let mut dnat: HashMap<SocketAddr, ServiceId> = HashMap::new();
        for (at, here) in placed.iter().enumerate() {
            self.overlaps(here, &placed[..at]);
            self.stands_apart(here, engines, frontends);
            let Some(class) = classes.iter().find(|class| class.id == here.service.class) else { continue };
            let serving = engines.iter().filter(|engine| {
                groups.iter().any(|group| group.id == engine.group && group.may_serve(class))
            });
            for engine in serving {
                self.reaches(here, engine, &mut dnat);
            }
        }
        placed.into_iter().map(|placed| placed.service).collect()
    }

    fn service(
        &mut self,
        part: &RawService,
        owner: &Range<usize>,
        key: &str,
        seen: &mut Places,
    ) -> Option<Service> {
        let id = self.id(&part.id, owner, &format!("{key}.id"), seen);
        let class =
            self.reference(&part.class, owner, &format!("{key}.class"), ("class", |ids| &ids.classes));
        let vip = self
            .required(&part.vip, owner, &format!("{key}.vip"))
            .and_then(|given| self.vip(given, &format!("{key}.vip")));
        let port = self
            .required(&part.port, owner, &format!("{key}.port"))
            .map(|given| (given.span(), *given.get_ref()));
        let port = port.filter(|(place, port)| {
            if *port == 0 {
                self.fault(place, format!("{key}.port"), FaultKind::NotPositive);
            }
            *port != 0
        });
        let protocol = self.word(&part.protocol, &format!("{key}.protocol"), Protocol::Tcp, PROTOCOLS);
        let forwarding =
            self.word(&part.forwarding, &format!("{key}.forwarding"), Forwarding::Dnat, FORWARDINGS);
        let key_mode = vip.and_then(|vip| self.key_mode(part, vip, owner, key));
        Some(Service {
            id: ServiceId(id?),
            class: ClassId(class?),
            vip: vip?,
            port: port?.1,
            protocol: protocol?,
            key: key_mode?,
            forwarding: forwarding?,
        })
    }

    fn vip(&mut self, given: &Spanned<String>, key: &str) -> Option<Vip> {
        let text = given.get_ref();
        let vip = match text.strip_suffix("/64") {
            Some(prefix) => prefix
                .parse::<Ipv6Addr>()
                .ok()
                .filter(|address| address.to_bits() << 64 == 0)
                .map(Vip::V6Prefix),
            None => text.parse::<IpAddr>().ok().map(|address| match address {
                IpAddr::V4(address) => Vip::V4(address),
                IpAddr::V6(address) => Vip::V6(address),
            }),
        };
        if vip.is_none() {
            let form = "an address, or an IPv6 /64 with a low half of zero";
            self.fault(&given.span(), key, FaultKind::Form { given: text.clone(), form });
        }
        vip
    }

    fn key_mode(&mut self, part: &RawService, vip: Vip, owner: &Range<usize>, key: &str) -> Option<KeyMode> {
        let is_prefix = matches!(vip, Vip::V6Prefix(_));
        let word =
            part.key.as_ref().map_or(if is_prefix { "address" } else { "flow" }, |given| given.get_ref());
        let place = part.key.as_ref().map_or_else(|| owner.clone(), Spanned::span);
        self.options_belong(part, word, key);
        match word {
            "flow" => Some(KeyMode::Flow),
            "quic" => Some(KeyMode::Quic),
            "address" if is_prefix => Some(KeyMode::Address),
            "address" => {
                self.fault(&place, format!("{key}.key"), FaultKind::AddressKey);
                None
            }
            "source" => {
                let prefix4 =
                    self.bounded(&part.source_prefix4, &format!("{key}.source_prefix4"), 32, 0..=32);
                let prefix6 =
                    self.bounded(&part.source_prefix6, &format!("{key}.source_prefix6"), 128, 0..=128);
                Some(KeyMode::Source { prefix4: prefix4?, prefix6: prefix6? })
            }
            "payload" => {
                let offset = self.bounded(
                    &part.payload_offset_bytes,
                    &format!("{key}.payload_offset_bytes"),
                    0,
                    0..=128,
                );
                let length = self.bounded(
                    &part.payload_length_bytes,
                    &format!("{key}.payload_length_bytes"),
                    8,
                    1..=16,
                );
                Some(KeyMode::Payload { offset: offset?.into(), length: length? })
            }
            _ => {
                let known = "flow, source, address, quic, payload";
                self.fault(
                    &place,
                    format!("{key}.key"),
                    FaultKind::NotOneOf { given: word.to_owned(), known },
                );
                None
            }
        }
    }

    /// Keys that only one kind of key uses are refused beside another kind.
    fn options_belong(&mut self, part: &RawService, word: &str, key: &str) {
        let options = [
            ("source_prefix4", &part.source_prefix4, "source"),
            ("source_prefix6", &part.source_prefix6, "source"),
            ("payload_offset_bytes", &part.payload_offset_bytes, "payload"),
            ("payload_length_bytes", &part.payload_length_bytes, "payload"),
        ];
        for (name, given, kind) in options {
            if let (Some(given), true) = (given, word != kind) {
                self.fault(&given.span(), format!("{key}.{name}"), FaultKind::KeyOption(kind));
            }
        }
    }

    fn bounded(
        &mut self,
        given: &Given<u8>,
        key: &str,
        default: u8,
        range: std::ops::RangeInclusive<u8>,
    ) -> Option<u8> {
        let Some(given) = given else { return Some(default) };
        let value = *given.get_ref();
        if range.contains(&value) {
            return Some(value);
        }
        let kind = FaultKind::Outside {
            value: value.into(),
            least: (*range.start()).into(),
            most: (*range.end()).into(),
        };
        self.fault(&given.span(), key, kind);
        None
    }

    fn overlaps(&mut self, here: &Placed, earlier: &[Placed]) {
        let clash = earlier.iter().map(|placed| &placed.service).find(|other| {
            other.port == here.service.port
                && other.protocol == here.service.protocol
                && overlap(other.vip, here.service.vip)
        });
        if let Some(other) = clash {
            let kind = FaultKind::VipOverlap { service: other.id.to_string(), vip: spelled(other.vip) };
            self.fault(&here.owner, format!("{}.vip", here.key), kind);
        }
    }

    /// A VIP is no engine's address and lies in no prefix of the IPv6 form of `dnat`.
    fn stands_apart(&mut self, here: &Placed, engines: &[Engine], frontends: &[Frontend]) {
        let key = format!("{}.vip", here.key);
        let taken = engines
            .iter()
            .find(|engine| addresses(engine).any(|address| contains(here.service.vip, address.ip())));
        if let Some(engine) = taken {
            self.fault(&here.owner, key.as_str(), FaultKind::VipIsEngine(engine.id.to_string()));
        }
        let (Vip::V6(address) | Vip::V6Prefix(address)) = here.service.vip else { return };
        let inside = frontends
            .iter()
            .find(|frontend| frontend.nat_prefix.is_some_and(|prefix| address.octets().starts_with(&prefix)));
        if let Some(frontend) = inside {
            self.fault(&here.owner, key, FaultKind::InsideNatPrefix(frontend.id.to_string()));
        }
        if here.service.forwarding == Forwarding::Dnat {
            let missing: Vec<String> = frontends
                .iter()
                .filter(|frontend| frontend.nat_prefix.is_none())
                .map(|frontend| frontend.id.to_string())
                .collect();
            for frontend in missing {
                self.fault(&here.owner, format!("{}.forwarding", here.key), FaultKind::NoNatPrefix(frontend));
            }
        }
    }

    /// Whether the service's forwarding can bring a packet to the engine and its reply back.
    fn reaches(&mut self, here: &Placed, engine: &Engine, dnat: &mut HashMap<SocketAddr, ServiceId>) {
        let service = &here.service;
        let is_v4 = matches!(service.vip, Vip::V4(_));
        let of_family = addresses(engine).find(|address| address.is_ipv4() == is_v4);
        // The IPv6 form of `dnat` reaches engines through a prefix, not through their address.
        let by_prefix = !is_v4 && service.forwarding == Forwarding::Dnat;
        let Some(address) = of_family else {
            if !by_prefix {
                let family = if is_v4 { "IPv4" } else { "IPv6" };
                let kind = FaultKind::NoAddress { engine: engine.id.to_string(), family };
                self.fault(&here.owner, format!("{}.vip", here.key), kind);
            }
            return;
        };
        let rewrites_port = matches!(service.forwarding, Forwarding::Dnat | Forwarding::Nat);
        if !rewrites_port && address.port() != service.port {
            let kind = FaultKind::PortDiffers {
                port: service.port,
                engine: engine.id.to_string(),
                listens: address.port(),
            };
            self.fault(&here.owner, format!("{}.port", here.key), kind);
        }
        if is_v4
            && service.forwarding == Forwarding::Dnat
            && let Some(other) = dnat.insert(address, service.id.clone())
            && other != service.id
        {
            let kind = FaultKind::SharedDnat { service: other.to_string(), engine: engine.id.to_string() };
            self.fault(&here.owner, format!("{}.forwarding", here.key), kind);
        }
    }
}

fn addresses(engine: &Engine) -> impl Iterator<Item = SocketAddr> {
    std::iter::once(engine.address).chain(engine.address6.map(SocketAddr::V6))
}

fn overlap(a: Vip, b: Vip) -> bool {
    match (a, b) {
        (Vip::V4(a), Vip::V4(b)) => a == b,
        (Vip::V4(_), _) | (_, Vip::V4(_)) => false,
        (Vip::V6(a), Vip::V6(b)) => a == b,
        (Vip::V6Prefix(a), Vip::V6(b) | Vip::V6Prefix(b)) | (Vip::V6(b), Vip::V6Prefix(a)) => {
            a.to_bits() >> 64 == b.to_bits() >> 64
        }
    }
}

fn contains(vip: Vip, address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => overlap(vip, Vip::V4(address)),
        IpAddr::V6(address) => overlap(vip, Vip::V6(address)),
    }
}

fn spelled(vip: Vip) -> String {
    match vip {
        Vip::V4(address) => Ipv4Addr::to_string(&address),
        Vip::V6(address) => address.to_string(),
        Vip::V6Prefix(address) => format!("{address}/64"),
    }
}
