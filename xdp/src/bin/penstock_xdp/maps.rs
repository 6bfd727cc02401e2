//! The maps, as `penstock_abi::MAPS` lists them.
use penstock_xdp::shared::{SharedWord, SlotWords};

use aya_ebpf::{
    bindings::BPF_F_MMAPABLE,
    btf_maps::{Array, HashMap, PerCpuArray},
    macros::btf_map,
};
use penstock_abi::{
    AFFINITY_BUCKETS, Config, Engine, FLOW_BUCKETS, MAX_ENGINES, MAX_REPLIES, MAX_SERVICES, MAX_SLOTS,
    NEXT_HOPS, NextHop, Reason, Reply, ReplyKey, SERVICE_RECORDS, SLOTS_PER_GROUP, Service, Traffic, WAYS,
};

const MAPPED: usize = BPF_F_MMAPABLE as usize;

/// A bucket as stages see it: eight words that several CPUs may write.
pub(crate) type Ways = [SharedWord; WAYS];

#[btf_map]
pub(crate) static CONFIG: Array<Config, 1, MAPPED> = Array::new();
#[btf_map]
pub(crate) static SERVICES: Array<Service, { 2 * SERVICE_RECORDS }, MAPPED> = Array::new();
#[btf_map]
pub(crate) static VIPS: Array<Service, MAX_SERVICES, MAPPED> = Array::new();
#[btf_map]
pub(crate) static ROUTES: Array<SharedWord, { MAX_SLOTS / SLOTS_PER_GROUP }, MAPPED> = Array::new();
#[btf_map]
pub(crate) static SLOTS: Array<SlotWords, MAX_SLOTS, MAPPED> = Array::new();
#[btf_map]
pub(crate) static ENGINES: Array<Engine, MAX_ENGINES, MAPPED> = Array::new();
#[btf_map]
pub(crate) static FLOWS: Array<Ways, FLOW_BUCKETS, MAPPED> = Array::new();
#[btf_map]
pub(crate) static AFFINITY: Array<Ways, AFFINITY_BUCKETS, MAPPED> = Array::new();
#[btf_map]
pub(crate) static REPLIES: HashMap<ReplyKey, Reply, MAX_REPLIES> = HashMap::new();
#[btf_map]
pub(crate) static NEXT_HOPS_OF_CPU: PerCpuArray<NextHop, NEXT_HOPS> = PerCpuArray::new();
#[btf_map]
pub(crate) static ENGINE_TRAFFIC: PerCpuArray<Traffic, MAX_ENGINES> = PerCpuArray::new();
#[btf_map]
pub(crate) static SERVICE_TRAFFIC: PerCpuArray<Traffic, MAX_SERVICES> = PerCpuArray::new();
#[btf_map]
pub(crate) static REASONS: PerCpuArray<u64, { Reason::ALL.len() }> = PerCpuArray::new();
