//! Builds the namespaces and links of a fleet.
//!
//! ```text
//! clients -- host -- router ==(WAN)== router of another site
//!              |        |
//!         controller  engines
//! ```
//! The frontend's program runs on both ports of a host: towards its clients and towards the router.
use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use penstock_controller::fleet::Fleet;
use penstock_tests::{End, HarnessError, Netns, Run, WanLink};
use penstock_wire::{EngineId, FrontendId, HostId, SiteId};

use super::{
    addresses::{self, CONTROLLER, ClientNumber, Indexes, LinkNumber, TestbedError, engine_addresses},
    routes::{Routes, Way, Ways, prefixes, router},
};
use crate::engine::config::Prefix;

/// Ports of a frontend host, with XDP on both.
pub const HOST_DEVICES: [&str; 2] = ["clients", "router"];

/// A frontend host.
#[derive(Clone, Debug)]
pub struct HostNode {
    pub id: HostId,
    pub frontend: FrontendId,
    pub netns: Netns,
}

/// The clients beside a frontend.
#[derive(Clone, Debug)]
pub struct ClientNode {
    pub frontend: FrontendId,
    pub number: ClientNumber,
    pub netns: Netns,
}

/// All engines of a site.
#[derive(Clone, Debug)]
pub struct EngineNode {
    pub site: SiteId,
    pub netns: Netns,
    pub engines: Vec<PlacedEngine>,
}

/// An engine and every address at which requests are its own.
#[derive(Clone, Debug)]
pub struct PlacedEngine {
    pub id: EngineId,
    pub addresses: Vec<Prefix>,
}

/// A built network.
#[derive(Clone, Debug)]
pub struct Network {
    pub hosts: Vec<HostNode>,
    pub clients: Vec<ClientNode>,
    pub engines: Vec<EngineNode>,
    pub controller: Netns,
}

/// Why a network was not built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error(transparent)]
    Fleet(#[from] TestbedError),
    #[error(transparent)]
    Harness(#[from] HarnessError),
}

/// Builds the network of `fleet` in `run`.
///
/// # Errors
/// The testbed cannot carry the fleet, or the kernel refuses a part of it.
pub fn build(run: &mut Run, fleet: &Fleet) -> Result<Network, BuildError> {
    addresses::check(fleet)?;
    Builder::new(run, fleet)?.build()
}

struct Builder<'a> {
    run: &'a mut Run,
    fleet: &'a Fleet,
    indexes: Indexes,
    next_link: u16,
    controller: Netns,
    /// Sites with a frontend or an engine.
    routers: BTreeMap<SiteId, Netns>,
    /// From each site's router to the hosts of a frontend, by the frontend's position.
    to_hosts: BTreeMap<SiteId, BTreeMap<usize, Ways>>,
    to_engines: BTreeMap<SiteId, Ways>,
    across: BTreeMap<SiteId, BTreeMap<SiteId, Ways>>,
}

impl<'a> Builder<'a> {
    fn new(run: &'a mut Run, fleet: &'a Fleet) -> Result<Self, BuildError> {
        let controller = run.namespace("control")?;
        controller.ip(&format!("addr add {CONTROLLER}/32 dev lo"))?;
        Ok(Self {
            run,
            fleet,
            indexes: Indexes::of(fleet),
            next_link: 0,
            controller,
            routers: BTreeMap::new(),
            to_hosts: BTreeMap::new(),
            to_engines: BTreeMap::new(),
            across: BTreeMap::new(),
        })
    }

    fn build(mut self) -> Result<Network, BuildError> {
        let frontends = self.fleet.frontends.iter().map(|frontend| &frontend.site);
        let groups = self.fleet.groups.iter().map(|group| &group.site);
        let sites: BTreeSet<SiteId> = frontends.chain(groups).cloned().collect();
        for (position, site) in sites.into_iter().enumerate() {
            let router = self.run.namespace(&format!("router{position}"))?;
            router.forward()?;
            // Flows, not packets, are spread over the hosts of a frontend.
            router.sysctl("ipv4/fib_multipath_hash_policy", "1")?;
            router.sysctl("ipv6/fib_multipath_hash_policy", "1")?;
            self.routers.insert(site, router);
        }
        let engines = self.engines()?;
        let (hosts, clients) = self.frontends()?;
        self.wan()?;
        for (site, netns) in &self.routers {
            let none = BTreeMap::new();
            let routes = router(
                self.fleet,
                &self.indexes,
                site,
                self.to_engines.get(site),
                self.to_hosts.get(site).unwrap_or(&none),
                self.across.get(site).unwrap_or(&BTreeMap::new()),
            );
            routes.apply(netns)?;
        }
        Ok(Network { hosts, clients, engines, controller: self.controller })
    }

    fn engines(&mut self) -> Result<Vec<EngineNode>, BuildError> {
        let mut nodes = Vec::new();
        for (position, (site, router)) in self.routers.clone().into_iter().enumerate() {
            let here: Vec<_> = self
                .fleet
                .engines
                .iter()
                .filter(|engine| self.fleet.group(&engine.group).is_some_and(|group| group.site == site))
                .collect();
            if here.is_empty() {
                continue;
            }
            let netns = self.run.namespace(&format!("engines{position}"))?;
            let link = self.link(&End::new(&netns, "router"), &End::new(&router, "engines"))?;
            self.to_engines.insert(site.clone(), Ways::one(link, "engines", 0));
            let mut routes = Routes::default();
            routes.default_way(&Ways::one(link, "router", 1));
            let mut engines = Vec::new();
            for engine in here {
                routes.own_engine(self.fleet, &self.indexes, engine);
                let own = engine_addresses(engine).map(|address| match address {
                    IpAddr::V4(_) => Prefix::new(address, 32),
                    IpAddr::V6(_) => Prefix::new(address, 128),
                });
                let prefixes = prefixes(self.fleet, &self.indexes, engine);
                let prefixes = prefixes.into_iter().map(|prefix| Prefix::new(IpAddr::V6(prefix), 64));
                engines
                    .push(PlacedEngine { id: engine.id.clone(), addresses: own.chain(prefixes).collect() });
            }
            routes.apply(&netns)?;
            nodes.push(EngineNode { site, netns, engines });
        }
        Ok(nodes)
    }

    fn frontends(&mut self) -> Result<(Vec<HostNode>, Vec<ClientNode>), BuildError> {
        let (mut hosts, mut clients) = (Vec::new(), Vec::new());
        for (position, frontend) in self.fleet.frontends.iter().enumerate() {
            let router = self.routers[&frontend.site].clone();
            let number = ClientNumber(u8::try_from(position).expect("`check` bounds the frontends"));
            let netns = self.run.namespace(&format!("clients{position}"))?;
            netns.sysctl("ipv4/fib_multipath_hash_policy", "1")?;
            netns.sysctl("ipv6/fib_multipath_hash_policy", "1")?;
            let mut from_clients = Vec::new();
            let mut from_router = Vec::new();
            for host in self.fleet.hosts.iter().filter(|host| host.frontend == frontend.id) {
                let at = hosts.len();
                let node = HostNode {
                    id: host.id.clone(),
                    frontend: frontend.id.clone(),
                    netns: self.run.namespace(&format!("host{at}"))?,
                };
                let (client_link, router_link) = self.host(&node.netns, &netns, &router, at, number)?;
                from_clients.push(Way { link: client_link, device: format!("host{at}"), far_end: 0 });
                from_router.push(Way { link: router_link, device: format!("host{at}"), far_end: 0 });
                hosts.push(node);
            }
            let mut routes = Routes::default();
            routes.own_clients(number, &Ways(from_clients));
            routes.apply(&netns)?;
            self.to_hosts.entry(frontend.site.clone()).or_default().insert(position, Ways(from_router));
            clients.push(ClientNode { frontend: frontend.id.clone(), number, netns });
        }
        Ok((hosts, clients))
    }

    /// A host's links: to the clients, to the site's router, to the controller. Gives the first two.
    fn host(
        &mut self,
        host: &Netns,
        clients: &Netns,
        router: &Netns,
        at: usize,
        number: ClientNumber,
    ) -> Result<(LinkNumber, LinkNumber), BuildError> {
        host.forward()?;
        let near = format!("host{at}");
        let client_link =
            self.link(&End::new(host, HOST_DEVICES[0]), &End::new(clients, &near).faces_xdp())?;
        let router_link =
            self.link(&End::new(host, HOST_DEVICES[1]), &End::new(router, &near).faces_xdp())?;
        let controller = self.controller.clone();
        let control_link = self.link(&End::new(host, "control"), &End::new(&controller, &near))?;
        let mut routes = Routes::default();
        routes.clients(number, &Ways::one(client_link, HOST_DEVICES[0], 1));
        routes.default_way(&Ways::one(router_link, HOST_DEVICES[1], 1));
        routes.address4(CONTROLLER, &Ways::one(control_link, "control", 1));
        routes.apply(host)?;
        Ok((client_link, router_link))
    }

    fn wan(&mut self) -> Result<(), BuildError> {
        let sites: Vec<_> = self.routers.clone().into_iter().collect();
        let mut links = Vec::new();
        for (first, (from, near)) in sites.iter().enumerate() {
            for (second, (to, far)) in sites.iter().enumerate().skip(first + 1) {
                let missing = || TestbedError::NoRtt { from: from.clone(), to: to.clone() };
                let rtt = self.fleet.rtt(from, to).ok_or_else(missing)?;
                let (here, there) = (format!("wan{second}"), format!("wan{first}"));
                let (link, ends) = self.ends(&End::new(near, &here), &End::new(far, &there));
                links.push(WanLink { ends, one_way: Duration::from_secs_f64(rtt.get() / 2_000.0) });
                let ways = Ways::one(link, &here, 1);
                self.across.entry(from.clone()).or_default().insert(to.clone(), ways);
                let ways = Ways::one(link, &there, 0);
                self.across.entry(to.clone()).or_default().insert(from.clone(), ways);
            }
        }
        self.run.wan(&links)?;
        Ok(())
    }

    /// Joins two ends by a veth pair and numbers it.
    fn link(&mut self, a: &End, b: &End) -> Result<LinkNumber, HarnessError> {
        let (link, [a, b]) = self.ends(a, b);
        self.run.link(&a, &b)?;
        Ok(link)
    }

    fn ends(&mut self, a: &End, b: &End) -> (LinkNumber, [End; 2]) {
        let link = LinkNumber(self.next_link);
        self.next_link += 1;
        let numbered = |end: &End, side: u8| {
            end.clone().v4(link.v4(side), LinkNumber::V4_LENGTH).v6(link.v6(side), LinkNumber::V6_LENGTH)
        };
        (link, [numbered(a, 0), numbered(b, 1)])
    }
}
