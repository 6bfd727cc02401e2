use crate::{
    AFFINITY_BUCKETS, Bucket, Config, Engine, FLOW_BUCKETS, MAX_ENGINES, MAX_REPLIES, MAX_SERVICES,
    MAX_SLOTS, NEXT_HOPS, NextHop, Reason, Reply, ReplyKey, RouteGroup, SERVICE_RECORDS, SLOTS_PER_GROUP,
    Service, SlotRecord, Traffic,
};

/// Raised whenever a field moves or changes its meaning without a change of size.
const LAYOUT_VERSION: u64 = 1;

/// How the kernel stores a map.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MapKind {
    /// An array that user space maps into its memory.
    Array,
    /// An array with a value for each CPU.
    PerCpuArray,
    Hash,
}

/// Who writes a map; the other side reads.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Writer {
    Agent,
    Kernel,
}

/// One map of the kernel program.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MapSpec {
    pub name: &'static str,
    pub kind: MapKind,
    pub key_bytes: usize,
    pub value_bytes: usize,
    pub capacity: usize,
    pub writer: Writer,
    pub holds: &'static str,
}

impl MapSpec {
    /// Memory of the map on a machine with `cpus` CPUs, the hash map's own part estimated.
    pub const fn bytes(&self, cpus: usize) -> usize {
        let stride = self.value_bytes.next_multiple_of(8);
        match self.kind {
            MapKind::Array => self.capacity * stride,
            MapKind::PerCpuArray => self.capacity * stride * cpus,
            MapKind::Hash => self.capacity * (self.key_bytes.next_multiple_of(8) + stride + 48),
        }
    }
}

const fn array<T>(name: &'static str, capacity: usize, writer: Writer, holds: &'static str) -> MapSpec {
    MapSpec { name, kind: MapKind::Array, key_bytes: 4, value_bytes: size_of::<T>(), capacity, writer, holds }
}

const fn per_cpu<T>(name: &'static str, capacity: usize, holds: &'static str) -> MapSpec {
    let kind = MapKind::PerCpuArray;
    MapSpec { name, kind, key_bytes: 4, value_bytes: size_of::<T>(), capacity, writer: Writer::Kernel, holds }
}

/// Every map that the agent pins.
pub const MAPS: &[MapSpec] = &[
    array::<Config>("CONFIG", 1, Writer::Agent, "secret, epoch, clock"),
    array::<Service>(
        "SERVICES",
        2 * SERVICE_RECORDS,
        Writer::Agent,
        "services, by hash of VIP, port and protocol",
    ),
    array::<Service>("VIPS", MAX_SERVICES, Writer::Agent, "services, by index"),
    array::<RouteGroup>("ROUTES", MAX_SLOTS / SLOTS_PER_GROUP, Writer::Agent, "slot tables: key to engine"),
    array::<SlotRecord>("SLOTS", MAX_SLOTS, Writer::Agent, "fallback, origin and times of each slot"),
    array::<Engine>("ENGINES", MAX_ENGINES, Writer::Agent, "how to reach each engine"),
    array::<Bucket>("FLOWS", FLOW_BUCKETS, Writer::Kernel, "flows of slots in transition"),
    array::<Bucket>("AFFINITY", AFFINITY_BUCKETS, Writer::Kernel, "engines of conversations in transition"),
    MapSpec {
        name: "REPLIES",
        kind: MapKind::Hash,
        key_bytes: size_of::<ReplyKey>(),
        value_bytes: size_of::<Reply>(),
        capacity: MAX_REPLIES,
        writer: Writer::Agent,
        holds: "VIP of each engine's IPv4 replies",
    },
    per_cpu::<NextHop>("NEXT_HOPS_OF_CPU", NEXT_HOPS, "answers of the FIB"),
    per_cpu::<Traffic>("ENGINE_TRAFFIC", MAX_ENGINES, "packets and bytes of each engine"),
    per_cpu::<Traffic>("SERVICE_TRAFFIC", MAX_SERVICES, "packets and bytes of each service"),
    per_cpu::<u64>("REASONS", Reason::ALL.len(), "packets by reason"),
];

/// Memory of all maps on a machine with `cpus` CPUs, in bytes.
pub const fn total_bytes(cpus: usize) -> usize {
    let mut total = 0;
    let mut at = 0;
    while at < MAPS.len() {
        total += MAPS[at].bytes(cpus);
        at += 1;
    }
    total
}

/// Changes with every change of a map's name, sizes or fields. Part of the pin path, so that a build never opens the
/// maps of another layout.
pub const LAYOUT_HASH: u64 = {
    let mut hash = hash_word(0xcbf2_9ce4_8422_2325, LAYOUT_VERSION);
    let mut at = 0;
    while at < MAPS.len() {
        let map = &MAPS[at];
        let name = map.name.as_bytes();
        let mut letter = 0;
        while letter < name.len() {
            hash = hash_word(hash, name[letter] as u64);
            letter += 1;
        }
        hash = hash_word(hash, map.kind as u64);
        hash = hash_word(hash, map.key_bytes as u64);
        hash = hash_word(hash, map.value_bytes as u64);
        hash = hash_word(hash, map.capacity as u64);
        at += 1;
    }
    hash
};

const fn hash_word(hash: u64, word: u64) -> u64 {
    let mixed = (hash ^ word).wrapping_mul(0x0100_0000_01b3);
    mixed ^ mixed >> 29
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_maps_together_stay_within_64_mib_on_a_machine_of_64_cpus() {
        assert!(total_bytes(64) <= 64 << 20, "{} KiB", total_bytes(64) >> 10);
    }
}
