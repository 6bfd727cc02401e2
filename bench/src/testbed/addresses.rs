//! Numbers for what a fleet file leaves open: links, clients, and the IPv6 prefixes by which frontends reach engines.
use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use penstock_controller::fleet::{
    Fleet,
    parts::{Engine, Frontend, Service},
};
use penstock_wire::{ClassId, EngineId, Forwarding, ServiceId, SiteId, Vip};

/// Links, clients and the controller stand in 172.20.0.0 to 172.22.255.255 and fdfe::/16.
const LINKS4: Ipv4Addr = Ipv4Addr::new(172, 20, 0, 0);
const CLIENTS4: Ipv4Addr = Ipv4Addr::new(172, 21, 0, 0);
pub const CONTROLLER: Ipv4Addr = Ipv4Addr::new(172, 22, 0, 1);
/// Client addresses of one frontend: enough that a key made of the source alone spreads over a table.
pub const CLIENT_PREFIX4: u8 = 20;
const MAX_FRONTENDS: usize = 16;
const MAX_LINKS: usize = 1 << 14;

/// Why a fleet cannot be built on one machine.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TestbedError {
    #[error("{address} lies in a range that the testbed gives to its own links and clients")]
    Taken { address: IpAddr },
    #[error("service {service} forwards by {forwarding:?}, and the testbed has routes for dnat alone")]
    Forwarding { service: ServiceId, forwarding: Forwarding },
    #[error("frontend {frontend} needs a nat_prefix to serve {service} over IPv6")]
    NoPrefix { frontend: String, service: ServiceId },
    #[error("the fleet file has no [[{part}]], which a running fleet needs")]
    Missing { part: &'static str },
    #[error("class {class} has demand and no [[service]] by which clients could reach it")]
    NoService { class: ClassId },
    #[error("{count} {part} are more than the testbed's {most}")]
    TooMany { part: &'static str, count: usize, most: usize },
    #[error("the fleet file has no rtt_ms between {from} and {to}")]
    NoRtt { from: SiteId, to: SiteId },
}

/// Checks that the testbed can carry the fleet.
///
/// # Errors
/// The first reason why it cannot.
pub fn check(fleet: &Fleet) -> Result<(), TestbedError> {
    let parts = [
        ("host", fleet.hosts.is_empty()),
        ("service", fleet.services.is_empty()),
        ("engine", fleet.engines.is_empty()),
    ];
    if let Some((part, _)) = parts.into_iter().find(|(_, missing)| *missing) {
        return Err(TestbedError::Missing { part });
    }
    let counts = [
        ("frontends", fleet.frontends.len(), MAX_FRONTENDS),
        ("links", 4 * fleet.hosts.len() + fleet.network.sites().count().pow(2), MAX_LINKS),
    ];
    if let Some((part, count, most)) = counts.into_iter().find(|(_, count, most)| count > most) {
        return Err(TestbedError::TooMany { part, count, most });
    }
    for service in &fleet.services {
        if service.forwarding != Forwarding::Dnat {
            let (service, forwarding) = (service.id.clone(), service.forwarding);
            return Err(TestbedError::Forwarding { service, forwarding });
        }
        let six = matches!(service.vip, Vip::V6(_) | Vip::V6Prefix(_));
        if let Some(frontend) = fleet.frontends.iter().find(|frontend| six && frontend.nat_prefix.is_none()) {
            let (frontend, service) = (frontend.id.to_string(), service.id.clone());
            return Err(TestbedError::NoPrefix { frontend, service });
        }
    }
    let unreachable =
        fleet.demand.iter().find(|demand| fleet.services.iter().all(|service| service.class != demand.class));
    if let Some(demand) = unreachable {
        return Err(TestbedError::NoService { class: demand.class.clone() });
    }
    let engines = fleet.engines.iter().flat_map(engine_addresses);
    let vips = fleet.services.iter().map(|service| vip_address(service.vip));
    match engines.chain(vips).find(|address| is_taken(*address)) {
        Some(address) => Err(TestbedError::Taken { address }),
        None => Ok(()),
    }
}

fn is_taken(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[0] == 172 && (20..=22).contains(&address.octets()[1]),
        IpAddr::V6(address) => address.segments()[0] == 0xfdfe,
    }
}

pub(super) fn engine_addresses(engine: &Engine) -> impl Iterator<Item = IpAddr> {
    [Some(engine.address.ip()), engine.address6.map(|address| IpAddr::V6(*address.ip()))]
        .into_iter()
        .flatten()
}

pub(super) const fn vip_address(vip: Vip) -> IpAddr {
    match vip {
        Vip::V4(address) => IpAddr::V4(address),
        Vip::V6(address) | Vip::V6Prefix(address) => IpAddr::V6(address),
    }
}

/// The address that a frontend's /32 starts with.
pub(super) const fn top_prefix([a, b, c, d]: [u8; 4]) -> Ipv6Addr {
    Ipv6Addr::new(u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]), 0, 0, 0, 0, 0, 0)
}

/// The two ends of a point-to-point link, 0 to 16,383.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct LinkNumber(pub(super) u16);

impl LinkNumber {
    pub(super) const V4_LENGTH: u8 = 30;
    pub(super) const V6_LENGTH: u8 = 64;

    pub(super) fn v4(self, end: u8) -> Ipv4Addr {
        Ipv4Addr::from_bits(LINKS4.to_bits() + 4 * u32::from(self.0) + 1 + u32::from(end))
    }

    pub(super) const fn v6(self, end: u8) -> Ipv6Addr {
        Ipv6Addr::new(0xfdfe, 0, 0, self.0, 0, 0, 0, 1 + end as u16)
    }
}

/// Where the clients of one frontend are, by its position in the file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ClientNumber(pub u8);

impl ClientNumber {
    /// First of its [`CLIENT_PREFIX4`].
    pub fn v4(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(CLIENTS4.to_bits() + (u32::from(self.0) << (32 - CLIENT_PREFIX4)))
    }

    pub const fn v6(self) -> Ipv6Addr {
        Ipv6Addr::new(0xfdfe, 1, 0, self.0 as u16, 0, 0, 0, 1)
    }
}

/// The indexes that a controller without history gives: ids in order, from 0.
#[derive(Clone, Debug)]
pub struct Indexes {
    engines: Vec<EngineId>,
    services: Vec<ServiceId>,
}

impl Indexes {
    pub fn of(fleet: &Fleet) -> Self {
        let engines: BTreeSet<_> = fleet.engines.iter().map(|engine| engine.id.clone()).collect();
        let services: BTreeSet<_> = fleet.services.iter().map(|service| service.id.clone()).collect();
        Self { engines: engines.into_iter().collect(), services: services.into_iter().collect() }
    }

    /// The /64 at which `engine` takes packets of `service` from `frontend`; `None` for an IPv4 service.
    pub fn nat_prefix(&self, frontend: &Frontend, service: &Service, engine: &Engine) -> Option<Ipv6Addr> {
        if matches!(service.vip, Vip::V4(_)) {
            return None;
        }
        let top = top_prefix(frontend.nat_prefix?).segments();
        let service = u16::try_from(self.services.binary_search(&service.id).ok()?).ok()?;
        let engine = u16::try_from(self.engines.binary_search(&engine.id).ok()?).ok()?;
        Some(Ipv6Addr::new(top[0], top[1], service, engine, 0, 0, 0, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::fixture;

    #[test]
    fn links_and_clients_do_not_overlap() {
        assert_eq!(LinkNumber(0).v4(0), Ipv4Addr::new(172, 20, 0, 1));
        assert_eq!(LinkNumber(64).v4(1), Ipv4Addr::new(172, 20, 1, 2));
        assert_eq!(LinkNumber(7).v6(1), "fdfe:0:0:7::2".parse::<Ipv6Addr>().unwrap());
        assert_eq!(ClientNumber(2).v4(), Ipv4Addr::new(172, 21, 32, 0));
    }

    #[test]
    fn a_prefix_names_frontend_service_and_engine() {
        let fleet = fixture::fleet();
        let indexes = Indexes::of(&fleet);
        let engine = |id: &str| fleet.engine(&id.into()).unwrap();
        let service = |id: &str| fleet.services.iter().find(|service| service.id.as_str() == id).unwrap();

        let prefix = indexes.nat_prefix(&fleet.frontends[1], service("v6"), engine("near-2"));

        // Engines in order of id: far-1, near-1, near-2; services: v4, v6.
        assert_eq!(prefix, Some("fd5e:b:1:2::".parse().unwrap()));
        assert_eq!(indexes.nat_prefix(&fleet.frontends[1], service("v4"), engine("near-2")), None);
    }

    #[test]
    fn an_engine_in_the_range_of_the_links_is_refused() {
        let text = fixture::TEXT.replace("10.1.1.1:8000", "172.20.0.9:8000");

        let error = check(&penstock_controller::fleet::parse(&text).unwrap()).unwrap_err();

        assert_eq!(error, TestbedError::Taken { address: "172.20.0.9".parse().unwrap() });
    }

    #[test]
    fn demand_without_a_service_is_refused() {
        let more = "[[class]]\nid = \"batch\"\nmodel = \"m\"\npriority = 2\nmean_prompt_tokens = 600\n\
                    mean_output_tokens = 100\n[[demand]]\nfrontend = \"A\"\nclass = \"batch\"\nrps = 1.0\n";
        let fleet = penstock_controller::fleet::parse(&format!("{}{more}", fixture::TEXT)).unwrap();

        assert_eq!(check(&fleet), Err(TestbedError::NoService { class: "batch".into() }));
    }

    #[test]
    fn a_fleet_for_offline_solving_lacks_hosts() {
        let text = fixture::TEXT.split("[[host]]").next().unwrap();

        let error = check(&penstock_controller::fleet::parse(text).unwrap()).unwrap_err();

        assert_eq!(error, TestbedError::Missing { part: "host" });
    }
}
