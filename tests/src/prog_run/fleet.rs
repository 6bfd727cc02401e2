//! Snapshots of a small fleet for one packet at a time.
use std::{
    net::{IpAddr, SocketAddr, SocketAddrV6},
    ops::Range,
};

use penstock_wire::{
    Candidate, EngineEntry, EngineState, Epoch, Forwarding, KeyMode, Protocol, ServiceEntry, Snapshot,
    TableEntry, Vip,
};

/// A frontend's snapshot, changed step by step.
#[derive(Clone, Debug)]
pub struct Fleet {
    pub snapshot: Snapshot,
}

impl Fleet {
    /// One class `chat` with engines 0 to 2 at 10.2.0.1 to 10.2.0.3 and fd02::1 to fd02::3, port 8000, and a table of
    /// 16 slots, all with engine 0.
    pub fn new() -> Self {
        let engines = (0..3).map(engine).collect();
        let candidate = |engine: u16| Candidate { engine, weight: if engine == 0 { 1 << 32 } else { 0 } };
        let table = TableEntry {
            class: "chat".into(),
            candidates: (0..3).map(candidate).collect(),
            slots: vec![0; 16],
        };
        Self {
            snapshot: Snapshot {
                epoch: Epoch::start_of(1),
                frontend: "f".into(),
                secret: *b"secret for tests",
                nat_prefix: Some([0xfd, 0x77, 0, 1]),
                failure_handling: false,
                engines,
                services: Vec::new(),
                tables: vec![table],
            },
        }
    }

    /// Two classes, `chat` and `other`, with `engines` engines each at 10.3.x.y and fd03::xxyy, spread evenly over
    /// `slots` slots; those of `other` are `turned` engines further on.
    pub fn large(engines: u16, slots: usize, turned: usize) -> Self {
        let mut fleet = Self::new();
        fleet.snapshot.engines = (0..2 * engines).map(routed_engine).collect();
        fleet.snapshot.tables = vec![
            even_table("chat", 0..engines, slots, 0),
            even_table("other", engines..2 * engines, slots, turned),
        ];
        fleet
    }

    /// Puts the last service into another class.
    #[must_use]
    pub fn in_class(mut self, class: &str) -> Self {
        if let Some(service) = self.snapshot.services.last_mut() {
            service.class = class.into();
        }
        self
    }

    /// Adds a service of class `chat`; its index is the number of services so far.
    #[must_use]
    pub fn service(
        mut self,
        vip: Vip,
        port: u16,
        protocol: Protocol,
        key: KeyMode,
        forwarding: Forwarding,
    ) -> Self {
        let index = u16::try_from(self.snapshot.services.len()).expect("few services");
        let id = format!("service-{index}").as_str().into();
        let class = "chat".into();
        self.snapshot.services.push(ServiceEntry { index, id, class, vip, port, protocol, key, forwarding });
        self
    }

    /// A TCP service at 198.51.100.1:80, keyed by flow.
    #[must_use]
    pub fn v4(self, forwarding: Forwarding) -> Self {
        self.service(Vip::V4([198, 51, 100, 1].into()), 80, Protocol::Tcp, KeyMode::Flow, forwarding)
    }

    /// A TCP service at 2001:db8:1::/64, port 80, keyed by address.
    #[must_use]
    pub fn v6(self, forwarding: Forwarding) -> Self {
        let prefix = Vip::V6Prefix("2001:db8:1::".parse().expect("an IPv6 address"));
        self.service(prefix, 80, Protocol::Tcp, KeyMode::Address, forwarding)
    }

    /// All slots to one engine, which gets all weight. The epoch advances.
    #[must_use]
    pub fn all_to(mut self, engine: u16) -> Self {
        let table = &mut self.snapshot.tables[0];
        table.slots.fill(engine);
        for candidate in &mut table.candidates {
            candidate.weight = if candidate.engine == engine { 1 << 32 } else { 0 };
        }
        self.next()
    }

    #[must_use]
    pub fn state(mut self, engine: u16, state: EngineState) -> Self {
        self.snapshot.engines[usize::from(engine)].state = state;
        self.next()
    }

    #[must_use]
    pub fn next(mut self) -> Self {
        self.snapshot.epoch = self.snapshot.epoch.next().expect("few epochs");
        self
    }
}

impl Default for Fleet {
    fn default() -> Self {
        Self::new()
    }
}

fn even_table(class: &str, engines: Range<u16>, slots: usize, turned: usize) -> TableEntry {
    let part = (1_u64 << 32) / engines.len() as u64;
    let first = (1 << 32) - part * (engines.len() as u64 - 1);
    let weight = |engine: u16| if engine == engines.start { first } else { part };
    let candidates = engines.clone().map(|engine| Candidate { engine, weight: weight(engine) }).collect();
    let list: Vec<u16> = engines.clone().collect();
    let owner = |slot: usize| list[(slot + turned) % list.len()];
    TableEntry { class: class.into(), candidates, slots: (0..slots).map(owner).collect() }
}

fn routed_engine(index: u16) -> EngineEntry {
    let [high, low] = (index + 1).to_be_bytes();
    let address = format!("10.3.{high}.{low}").parse().expect("an IPv4 address");
    let address6 = format!("fd03::{high:x}{low:02x}").parse().expect("an IPv6 address");
    engine_at(index, address, address6)
}

fn engine(index: u16) -> EngineEntry {
    let last = index + 1;
    let address = format!("10.2.0.{last}").parse().expect("an IPv4 address");
    let address6 = format!("fd02::{last}").parse().expect("an IPv6 address");
    engine_at(index, address, address6)
}

fn engine_at(index: u16, address: IpAddr, address6: std::net::Ipv6Addr) -> EngineEntry {
    EngineEntry {
        index,
        id: format!("engine-{index}").as_str().into(),
        group: "group".into(),
        site: "site".into(),
        address: SocketAddr::new(address, 8000),
        address6: Some(SocketAddrV6::new(address6, 8000, 0, 0)),
        forwarding: None,
        rtt_us: 500,
        state: EngineState::Serving,
    }
}
