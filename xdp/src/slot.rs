//! Third stage: from a key to an engine, with just enough tracking.
//!
//! A flow is looked up only while its slot is in transition: it changed engine, or its engine diverts. DESIGN.md's
//! table of packet against slot is the contract.

use penstock_abi::{
    Config, Engine, EngineFlags, FLAG_RESET_LOST, MAX_SLOTS, Reason, Route, SLOTS_PER_GROUP, Service, Slot,
    Tick, UDP_ORIGIN_TICKS, shed_hash,
};

use crate::{
    flow,
    kernel::Kernel,
    parse::{Phase, Progress},
};

/// Other slots looked at while neither engine nor fallback of a slot takes new flows.
const PROBES: u32 = 4;
const NO_ENGINE: u32 = u32::MAX;
const LOST: u32 = u32::MAX - 1;

/// What becomes of a packet to a service.
#[derive(Clone, Copy, Debug)]
pub enum Choice<'k> {
    Engine(u16, &'k Engine),
    /// The flow's engine is out, and lost flows are to be reset.
    Reset,
    /// New flows of this key are refused.
    Shed,
    /// Nobody can serve it.
    Nobody,
}

/// Whether new flows of a key are refused. A UDP datagram does not tell whether it is new, so all of the key's are.
#[inline(always)]
fn is_shed(config: &Config, service: &Service, key: u64, transport: &impl Progress) -> bool {
    service.shed_below != 0
        && transport.phase() != Phase::Established
        && shed_hash(key, config.shed_salt) < service.shed_below
}

/// The engine for a packet whose key hashes to `key`, and its index. `flow` gives the hash of its flow where that has
/// to be looked up.
#[inline(always)]
pub fn choose<'k, K: Kernel>(
    kernel: &'k K,
    config: &Config,
    service: &Service,
    key: u64,
    transport: &impl Progress,
    flow: impl FnOnce() -> u64,
) -> Choice<'k> {
    if is_shed(config, service, key, transport) {
        return Choice::Shed;
    }
    #[expect(clippy::cast_possible_truncation, reason = "the slot takes the low bits")]
    let at = service.slot_base + (key as u32 & service.slot_mask);
    #[expect(clippy::cast_possible_truncation, reason = "four")]
    let Some(group) = kernel.routes(at / SLOTS_PER_GROUP as u32) else {
        return Choice::Nobody;
    };
    let route = Route::in_word(group.load(), at);
    let Some(engine) = kernel.engine(route.engine()) else {
        return Choice::Nobody;
    };
    if !route.is_changed() && EngineFlags(engine.flags).is_steady() {
        return Choice::Engine(route.engine(), engine);
    }
    let moment = Moment {
        key,
        flow: flow(),
        phase: transport.phase(),
        closes: transport.closes(),
        resets: config.flags & FLAG_RESET_LOST != 0,
        tick: Tick(config.tick),
    };
    let Some(bucket) = kernel.flow_bucket(flow::flow_bucket(moment.flow)) else {
        return Choice::Nobody;
    };
    let found = match moment.phase {
        Phase::New => None,
        Phase::Established | Phase::Datagram => flow::find(bucket, moment.flow, moment.tick.stamp()),
    };
    if let Some(found) = found
        && !moment.closes
        && let Some(engine) = kernel.engine(found.engine)
        && EngineFlags(engine.flags).keeps_flows()
    {
        if found.refreshed && found.engine != route.engine() {
            mark_diverged(kernel, at, moment.tick);
        }
        return Choice::Engine(found.engine, engine);
    }
    let index = decide(kernel, service, at | if found.is_some() { FOUND } else { 0 }, &moment);
    if index == LOST {
        return Choice::Reset;
    }
    match u16::try_from(index).ok().and_then(|index| Some((index, kernel.engine(index)?))) {
        Some((index, engine)) => Choice::Engine(index, engine),
        None => Choice::Nobody,
    }
}

/// What a packet in a transitioning slot brings along.
#[derive(Clone, Copy, Debug)]
struct Moment {
    key: u64,
    flow: u64,
    phase: Phase,
    closes: bool,
    /// Flows of engines that are out are reset, not re-slotted.
    resets: bool,
    tick: Tick,
}

/// Slots are fewer, so this bit of their number is free for a mark: the flow has a record, of an engine that may be
/// out.
const FOUND: u32 = 1 << 31;
const _: () = assert!(MAX_SLOTS < FOUND as usize);

#[inline(always)]
fn mark_diverged<K: Kernel>(kernel: &K, at: u32, tick: Tick) {
    if let Some(record) = kernel.slot(at) {
        record.diverged.store(u64::from(tick.0));
    }
}

/// The engine of a packet whose flow has no record, or ends. Out of line, so that the other packets keep their
/// registers.
#[inline(never)]
fn decide<K: Kernel>(kernel: &K, service: &Service, at_and_mark: u32, moment: &Moment) -> u32 {
    let (at, found) = (at_and_mark & !FOUND, at_and_mark & FOUND != 0);
    let (Some(record), Some(bucket)) = (kernel.slot(at), kernel.flow_bucket(flow::flow_bucket(moment.flow)))
    else {
        return NO_ENGINE;
    };
    let slot = Slot::from_word(record.slot.load());
    let stamp = moment.tick.stamp();
    let known = match moment.phase {
        Phase::New => None,
        _ if found => flow::peek(bucket, moment.flow),
        _ => Some(unrecorded(slot, moment)),
    };
    let kept = known.filter(|&engine| flags(kernel, engine).keeps_flows());
    if kept.is_none() && known.is_some() {
        if moment.resets && moment.phase == Phase::Established {
            return LOST;
        }
        kernel.count(Reason::Reslotted);
    }
    let Some(engine) = kept.or_else(|| for_new_flow(kernel, service, slot, moment.key)) else {
        return NO_ENGINE;
    };
    if found && kept.is_none() {
        flow::record_confirmed(bucket, moment.flow, engine, stamp);
    } else if !found {
        kernel.count(Reason::FlowRecorded);
        flow::record(bucket, moment.flow, engine, stamp);
    }
    if engine != slot.engine {
        record.diverged.store(u64::from(moment.tick.0));
    }
    if moment.closes
        && let Some(bucket) = kernel.affinity_bucket(flow::affinity_bucket(moment.key))
    {
        flow::record_confirmed(bucket, moment.key, engine, stamp);
    }
    u32::from(engine)
}

/// Where a flow without a record was before the transition began.
#[inline(always)]
fn unrecorded(slot: Slot, moment: &Moment) -> u16 {
    let long_ago = slot.changed_at != 0 && moment.tick.since(Tick(slot.changed_at)) >= UDP_ORIGIN_TICKS;
    if moment.phase == Phase::Datagram && long_ago { slot.engine } else { slot.origin }
}

/// The engine of a new flow: by affinity, the slot's, its fallback, another slot's, or else one that may still serve.
#[inline(always)]
fn for_new_flow<K: Kernel>(kernel: &K, service: &Service, slot: Slot, key: u64) -> Option<u16> {
    if let Some(bucket) = kernel.affinity_bucket(flow::affinity_bucket(key))
        && let Some(engine) = flow::peek(bucket, key)
        && flags(kernel, engine).takes_affinity()
    {
        kernel.count(Reason::AffinityFollowed);
        return Some(engine);
    }
    if flags(kernel, slot.engine).takes_new_flows() {
        return Some(slot.engine);
    }
    kernel.count(Reason::Diverted);
    if flags(kernel, slot.fallback).takes_new_flows() {
        return Some(slot.fallback);
    }
    for probe in 1..=PROBES {
        #[expect(clippy::cast_possible_truncation, reason = "the slot takes the low bits")]
        let hash = (key >> 24) as u32 ^ probe.wrapping_mul(0x9e37_79b9);
        let word = kernel.slot(service.slot_base + (hash & service.slot_mask))?;
        let other = Slot::from_word(word.slot.load());
        if flags(kernel, other.engine).takes_new_flows() {
            return Some(other.engine);
        }
        if flags(kernel, other.fallback).takes_new_flows() {
            return Some(other.fallback);
        }
    }
    [slot.engine, slot.fallback].into_iter().find(|&engine| flags(kernel, engine).keeps_flows())
}

#[inline(always)]
fn flags<K: Kernel>(kernel: &K, engine: u16) -> EngineFlags {
    EngineFlags(kernel.engine(engine).map_or(0, |engine| engine.flags))
}
