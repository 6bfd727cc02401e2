//! Engine records: next hops, and writes that no packet sees half done.
use std::{
    collections::{BTreeMap, BTreeSet},
    mem::offset_of,
    net::{IpAddr, Ipv6Addr},
};

use penstock_abi::{Engine, EngineFlags, mac_words, nat_half};
use penstock_wire::{Forwarding, Snapshot, Vip};

use super::{maps::Maps, next_hop::Hop, records};

/// Above this many IPv6 `dnat` services, next hops of their prefixes are left to the kernel's FIB: each service and
/// engine may have a route of its own.
const MAX_PREFIX_SERVICES: usize = 8;

/// Addresses that packets for one engine are routed by.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Targets {
    v4: Option<IpAddr>,
    /// All must share a next hop; none when they are too many.
    v6: Vec<IpAddr>,
}

impl Targets {
    pub(super) fn all(&self) -> impl Iterator<Item = IpAddr> {
        self.v4.into_iter().chain(self.v6.iter().copied())
    }
}

/// What each engine of a snapshot is routed by.
pub(super) fn targets(snapshot: &Snapshot) -> BTreeMap<u16, Targets> {
    let prefixed: BTreeSet<u16> = snapshot
        .services
        .iter()
        .filter(|service| !matches!(service.vip, Vip::V4(_)) && service.forwarding == Forwarding::Dnat)
        .map(|service| service.index)
        .collect();
    let prefix = snapshot.nat_prefix.map(u32::from_ne_bytes);
    let of_engine = |engine: &penstock_wire::EngineEntry| {
        let (v4, v6) = records::addresses(engine);
        let halves = prefix.into_iter().flat_map(|prefix| {
            prefixed.iter().map(move |&service| nat_half(prefix, service, engine.index).to_ne_bytes())
        });
        let prefixes = halves.map(|half| Ipv6Addr::from(u128::from(u64::from_be_bytes(half)) << 64 | 1));
        let v6 = if prefixed.len() > MAX_PREFIX_SERVICES {
            Vec::new()
        } else {
            v6.into_iter().chain(prefixes).map(IpAddr::V6).collect()
        };
        (engine.index, Targets { v4: v4.map(IpAddr::V4), v6 })
    };
    snapshot.engines.iter().map(of_engine).collect()
}

/// The record with its next hop, as far as one hop serves. IPv4 comes first where the families differ.
pub(super) fn with_hop(record: Engine, targets: &Targets, hops: &BTreeMap<IpAddr, Hop>) -> Engine {
    let v4 = targets.v4.and_then(|target| hops.get(&target));
    let mut v6 = targets.v6.iter().map(|target| hops.get(target));
    let first = v6.next().flatten();
    let v6 = first.filter(|hop| v6.all(|other| other == Some(*hop)));
    let unresolved = record.flags & !(EngineFlags::RESOLVED4 | EngineFlags::RESOLVED6);
    let Some(hop) = v4.or(v6) else {
        return Engine { flags: unresolved, mac_head: 0, mac_tail: 0, ifindex: 0, mtu: 0, ..record };
    };
    let bit = |family: Option<&Hop>, bit| if family == Some(hop) { bit } else { 0 };
    let (mac_head, mac_tail) = mac_words(hop.next, hop.own);
    let flags = unresolved | bit(v4, EngineFlags::RESOLVED4) | bit(v6, EngineFlags::RESOLVED6);
    Engine { flags, mac_head, mac_tail, ifindex: hop.ifindex, mtu: hop.mtu, ..record }
}

/// Writes a record. Where more than its flags changes, the kernel's FIB finds the way meanwhile.
pub(super) fn write(maps: &Maps, index: usize, record: Engine) {
    const FLAGS_AT: usize = offset_of!(Engine, mac_tail);
    const { assert!(offset_of!(Engine, flags) == FLAGS_AT + 4) };
    let current = maps.engines.get(index);
    if current == record {
        return;
    }
    let word = |mac_tail: u32, flags: u32| bytemuck::cast::<[u32; 2], u64>([mac_tail, flags]);
    if (Engine { flags: current.flags, ..record }) != current {
        let unresolved = current.flags & !(EngineFlags::RESOLVED4 | EngineFlags::RESOLVED6);
        maps.engines.publish(index, FLAGS_AT, word(current.mac_tail, unresolved));
        maps.engines.set(index, Engine { flags: unresolved, ..record });
    }
    maps.engines.publish(index, FLAGS_AT, word(record.mac_tail, record.flags));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(last: u8) -> Hop {
        Hop { next: [2, 0, 0, 0, 0, last], own: [2, 0, 0, 0, 1, 0], ifindex: 3, mtu: 1500 }
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn both_families_are_resolved_only_where_they_share_the_hop() {
        let targets =
            Targets { v4: Some(address("10.0.0.1")), v6: vec![address("fd02::1"), address("fd77::1")] };
        let alike = [("10.0.0.1", 1), ("fd02::1", 1), ("fd77::1", 1)];
        let prefix_differs = [("10.0.0.1", 1), ("fd02::1", 1), ("fd77::1", 2)];
        let only_v6 = [("fd02::1", 2), ("fd77::1", 2)];

        let resolved = |hops: &[(&str, u8)]| {
            let hops = hops.iter().map(|(target, last)| (address(target), hop(*last))).collect();
            with_hop(Engine::default(), &targets, &hops).flags
        };

        assert_eq!(resolved(&alike), EngineFlags::RESOLVED4 | EngineFlags::RESOLVED6);
        assert_eq!(resolved(&prefix_differs), EngineFlags::RESOLVED4);
        assert_eq!(resolved(&only_v6), EngineFlags::RESOLVED6);
        assert_eq!(resolved(&[]), 0);
    }
}
