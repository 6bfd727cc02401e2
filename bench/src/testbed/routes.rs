//! What each namespace must know to carry the fleet's packets, as lines of `ip`.
//!
//! Packets reach an engine by its own address (IPv4 `dnat`, probes) or by the prefix of (frontend, service, engine).
//! Replies must pass the frontend that sent the packet: IPv6 replies are led by their source, which lies in that
//! frontend's prefix, IPv4 replies by the client's subnet.
use std::{collections::BTreeMap, fmt::Write, net::IpAddr};

use penstock_controller::fleet::{
    Fleet,
    parts::{Engine, Frontend},
};
use penstock_tests::{HarnessError, Netns};
use penstock_wire::SiteId;

use super::addresses::{CLIENT_PREFIX4, ClientNumber, Indexes, LinkNumber, engine_addresses, top_prefix};

/// First routing table of the frontends' reply paths.
const REPLY_TABLES: usize = 100;

/// How to leave a namespace towards some place: through one link, or through one of several hosts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Ways(pub(super) Vec<Way>);

/// A link and the end at which the neighbour stands.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Way {
    pub(super) link: LinkNumber,
    pub(super) device: String,
    pub(super) far_end: u8,
}

impl Ways {
    pub(super) fn one(link: LinkNumber, device: &str, far_end: u8) -> Self {
        Self(vec![Way { link, device: device.to_owned(), far_end }])
    }

    fn text(&self, six: bool) -> String {
        let hop = |way: &Way| {
            let gateway: IpAddr =
                if six { way.link.v6(way.far_end).into() } else { way.link.v4(way.far_end).into() };
            format!("via {gateway} dev {}", way.device)
        };
        match self.0.as_slice() {
            [only] => hop(only),
            several => several.iter().map(|way| format!(" nexthop {}", hop(way))).collect(),
        }
    }
}

/// A namespace's routes in the making.
#[derive(Debug, Default)]
pub(super) struct Routes {
    lines4: String,
    lines6: String,
}

impl Routes {
    pub(super) fn apply(&self, netns: &Netns) -> Result<(), HarnessError> {
        netns.ip(&self.lines4)?;
        netns.ip6(&self.lines6)
    }

    fn line4(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.lines4, "{line}").expect("a string takes every line");
    }

    fn line6(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.lines6, "{line}").expect("a string takes every line");
    }

    /// Everything without a route of its own goes this way.
    pub(super) fn default_way(&mut self, ways: &Ways) {
        self.line4(format_args!("route add default {}", ways.text(false)));
        self.line6(format_args!("route add default {}", ways.text(true)));
    }

    /// Addresses of the namespace itself: clients connect from any of theirs.
    pub(super) fn own_clients(&mut self, clients: ClientNumber, ways: &Ways) {
        self.line4(format_args!("route add local {}/{CLIENT_PREFIX4} dev lo", clients.v4()));
        self.line6(format_args!("addr add {}/128 dev lo nodad", clients.v6()));
        self.line4(format_args!("route add default {} src {}", ways.text(false), clients.v4()));
        self.line6(format_args!("route add default {} src {}", ways.text(true), clients.v6()));
    }

    /// The clients of a frontend stand this way.
    pub(super) fn clients(&mut self, clients: ClientNumber, ways: &Ways) {
        self.line4(format_args!("route add {}/{CLIENT_PREFIX4} {}", clients.v4(), ways.text(false)));
        self.line6(format_args!("route add {}/128 {}", clients.v6(), ways.text(true)));
    }

    /// IPv6 replies in the frontend's prefix leave this way, wherever the client is.
    pub(super) fn replies(&mut self, frontend: &Frontend, position: usize, ways: &Ways) {
        let Some(prefix) = frontend.nat_prefix.map(top_prefix) else { return };
        let table = REPLY_TABLES + position;
        self.line6(format_args!("route add default {} table {table}", ways.text(true)));
        self.line6(format_args!("rule add from {prefix}/32 lookup {table}"));
    }

    /// Every address of an engine stands this way.
    pub(super) fn engine(&mut self, fleet: &Fleet, indexes: &Indexes, engine: &Engine, ways: &Ways) {
        for address in engine_addresses(engine) {
            match address {
                IpAddr::V4(address) => {
                    self.line4(format_args!("route add {address}/32 {}", ways.text(false)))
                }
                IpAddr::V6(address) => {
                    self.line6(format_args!("route add {address}/128 {}", ways.text(true)))
                }
            }
        }
        for prefix in prefixes(fleet, indexes, engine) {
            self.line6(format_args!("route add {prefix}/64 {}", ways.text(true)));
        }
    }

    /// Every address of an engine is the namespace's own.
    pub(super) fn own_engine(&mut self, fleet: &Fleet, indexes: &Indexes, engine: &Engine) {
        for address in engine_addresses(engine) {
            match address {
                IpAddr::V4(address) => self.line4(format_args!("addr add {address}/32 dev lo")),
                IpAddr::V6(address) => self.line6(format_args!("addr add {address}/128 dev lo nodad")),
            }
        }
        for prefix in prefixes(fleet, indexes, engine) {
            self.line6(format_args!("route add local {prefix}/64 dev lo"));
        }
    }

    /// A single address stands this way.
    pub(super) fn address4(&mut self, address: std::net::Ipv4Addr, ways: &Ways) {
        self.line4(format_args!("route add {address}/32 {}", ways.text(false)));
    }
}

/// The /64s at which an engine takes packets of IPv6 services, one for each (frontend, service).
pub(super) fn prefixes(fleet: &Fleet, indexes: &Indexes, engine: &Engine) -> Vec<std::net::Ipv6Addr> {
    fleet
        .frontends
        .iter()
        .flat_map(|frontend| fleet.services.iter().map(move |service| (frontend, service)))
        .filter_map(|(frontend, service)| indexes.nat_prefix(frontend, service, engine))
        .collect()
}

/// The routes of a site's router: its own hosts and engines by `local`, other sites by `wan`.
pub(super) fn router(
    fleet: &Fleet,
    indexes: &Indexes,
    site: &SiteId,
    engines: Option<&Ways>,
    hosts: &BTreeMap<usize, Ways>,
    wan: &BTreeMap<SiteId, Ways>,
) -> Routes {
    let mut routes = Routes::default();
    for engine in &fleet.engines {
        let Some(group) = fleet.group(&engine.group) else { continue };
        let ways = if group.site == *site { engines } else { wan.get(&group.site) };
        if let Some(ways) = ways {
            routes.engine(fleet, indexes, engine, ways);
        }
    }
    for (position, frontend) in fleet.frontends.iter().enumerate() {
        let ways = if frontend.site == *site { hosts.get(&position) } else { wan.get(&frontend.site) };
        if let (Some(ways), Ok(number)) = (ways, u8::try_from(position)) {
            routes.clients(ClientNumber(number), ways);
            routes.replies(frontend, position, ways);
        }
    }
    routes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::fixture;

    #[test]
    fn a_router_leads_replies_back_to_the_frontend_that_sent_the_packet() {
        let fleet = fixture::fleet();
        let host = Ways::one(LinkNumber(3), "host0", 0);
        let wan = Ways::one(LinkNumber(9), "wan1", 1);
        let engines = Ways::one(LinkNumber(5), "engines", 1);

        let routes = router(
            &fleet,
            &Indexes::of(&fleet),
            &"east".into(),
            Some(&engines),
            &BTreeMap::from([(0, host)]),
            &BTreeMap::from([("west".into(), wan)]),
        );

        let lines: Vec<_> = routes.lines4.lines().chain(routes.lines6.lines()).collect();
        for line in [
            "route add default via fdfe:0:0:3::1 dev host0 table 100",
            "rule add from fd5e:a::/32 lookup 100",
            "route add default via fdfe:0:0:9::2 dev wan1 table 101",
            "rule add from fd5e:b::/32 lookup 101",
            "route add 172.21.16.0/20 via 172.20.0.38 dev wan1",
            // Frontend B reaches near-1 (engine 1) for v6 (service 1) here, and far-1 (engine 0) over the WAN.
            "route add fd5e:b:1:1::/64 via fdfe:0:0:5::2 dev engines",
            "route add fd5e:a:1::/64 via fdfe:0:0:9::2 dev wan1",
            "route add 10.2.1.1/32 via 172.20.0.38 dev wan1",
        ] {
            assert!(lines.contains(&line), "{line} is missing in {lines:#?}");
        }
    }

    #[test]
    fn clients_of_two_hosts_use_both() {
        let ways = Ways(vec![
            Way { link: LinkNumber(0), device: "a".to_owned(), far_end: 0 },
            Way { link: LinkNumber(1), device: "b".to_owned(), far_end: 0 },
        ]);
        let mut routes = Routes::default();

        routes.default_way(&ways);

        assert_eq!(
            routes.lines4,
            "route add default  nexthop via 172.20.0.1 dev a nexthop via 172.20.0.5 dev b\n"
        );
        assert_eq!(
            routes.lines6,
            "route add default  nexthop via fdfe::1 dev a nexthop via fdfe:0:0:1::1 dev b\n"
        );
    }
}
