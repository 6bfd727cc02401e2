//! A small fleet for tests.
use std::net::{Ipv6Addr, SocketAddr};

use crate::{
    EngineEntry, EngineId, EngineState, Epoch, Forwarding, KeyMode, Protocol, ServiceEntry, Snapshot,
    TableEntry, Vip,
};

/// Deals slots round the engines in turn, as often as their counts allow.
pub(crate) fn canonical(engines: &[(&EngineId, u32)], slots: usize) -> Option<Vec<u16>> {
    let mut left: Vec<u32> = engines.iter().map(|(_, count)| *count).collect();
    let mut turn = 0;
    let dealt = (0..slots)
        .map(|_| {
            while left[turn % left.len()] == 0 {
                turn += 1;
            }
            let engine = turn % left.len();
            left[engine] -= 1;
            turn += 1;
            u16::try_from(engine).unwrap()
        })
        .collect();
    Some(dealt)
}

pub(crate) fn engine(index: u16) -> EngineEntry {
    EngineEntry {
        index,
        id: EngineId(format!("engine-{index}")),
        group: "engine-a".into(),
        site: "region-1".into(),
        address: SocketAddr::from(([10, 0, 0, 1], 8000 + index)),
        address6: Some("[2001:db8::1]:8000".parse().unwrap()),
        forwarding: None,
        rtt_us: 500,
        state: EngineState::Serving,
    }
}

pub(crate) fn service() -> ServiceEntry {
    ServiceEntry {
        index: 0,
        id: "chat".into(),
        class: "chat".into(),
        vip: Vip::V6Prefix(Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0)),
        port: 8000,
        protocol: Protocol::Tcp,
        key: KeyMode::Address,
        forwarding: Forwarding::Dnat,
    }
}

/// Epoch 1.1: three engines (indexes 0, 2, 5), one of them without weight, 64 slots.
pub(crate) fn snapshot() -> Snapshot {
    let slots = (0..64).map(|slot| if slot % 4 == 3 { 2 } else { 0 }).collect();
    Snapshot {
        epoch: Epoch::start_of(1).next().unwrap(),
        frontend: "A".into(),
        secret: *b"0123456789abcdef",
        nat_prefix: Some([0xfd, 0, 0, 1]),
        failure_handling: false,
        engines: [0, 2, 5].map(engine).to_vec(),
        services: vec![service()],
        tables: vec![TableEntry::from_slots("chat".into(), &[0, 2, 5], slots)],
    }
}

/// The state after `snapshot`: `count` slots from `first` on moved to engine 5.
pub(crate) fn moved(snapshot: &Snapshot, first: usize, count: usize) -> Snapshot {
    let mut next = snapshot.clone();
    next.epoch = snapshot.epoch.next().unwrap();
    let mut slots = next.tables[0].slots.clone();
    slots[first..first + count].fill(5);
    next.tables[0] = TableEntry::from_slots("chat".into(), &[0, 2, 5], slots);
    next
}
