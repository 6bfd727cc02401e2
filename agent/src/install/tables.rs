//! Slot tables: where they stand in `SLOTS`, how they change, and when a slot is stable again.
use std::{collections::BTreeMap, mem::offset_of};

use penstock_abi::{EngineFlags, MAX_SERVICES, MAX_SLOTS, Route, SLOTS_PER_GROUP, Slot, SlotRecord, Tick};
use penstock_table::{
    Candidate, Candidates, EngineKey, SlotTable, carry_fallbacks, even_fallbacks, fallbacks,
};
use penstock_wire::{EngineEntry, TableEntry};

use super::{error::InstallError, maps::Maps, records::class_hash};

/// The place of a table in `SLOTS`.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Region {
    pub(super) base: u32,
    pub(super) slots: u32,
}

impl Region {
    pub(super) fn range(self) -> std::ops::Range<usize> {
        let base = self.base as usize;
        base..base + self.slots as usize
    }
}

/// Regions in use, by hash of the class.
pub(super) type Regions = BTreeMap<u64, Region>;

/// The regions that an earlier agent on the same maps gave out.
pub(super) fn recover(maps: &Maps) -> Regions {
    (0..MAX_SERVICES)
        .map(|index| maps.vips.get(index))
        .filter(|service| !service.is_empty())
        .map(|service| (service.class, Region { base: service.slot_base, slots: service.slot_mask + 1 }))
        .collect()
}

/// A free region of `slots` slots, a power of two, aligned to its size.
pub(super) fn allocate(regions: &Regions, slots: u32) -> Option<Region> {
    let limit = u32::try_from(MAX_SLOTS).ok()?;
    (0..limit / slots).map(|place| Region { base: place * slots, slots }).find(|free| {
        regions
            .values()
            .all(|used| free.range().end <= used.range().start || used.range().end <= free.range().start)
    })
}

/// A table as it will be written.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) class: u64,
    pub(super) region: Region,
    pub(super) slots: Vec<Slot>,
    /// Slots that change their engine.
    pub(super) moved: usize,
}

/// What `entry` makes of the slots in force, if there are any of the same number.
pub(super) fn plan(
    entry: &TableEntry,
    engines: &BTreeMap<u16, &EngineEntry>,
    current: Option<&[Slot]>,
    region: Region,
    now: Tick,
) -> Result<Plan, InstallError> {
    let candidates = candidates(entry, engines)?;
    let invalid = || InstallError::NoSlots { class: entry.class.clone(), slots: entry.slots.len() };
    let next = SlotTable::new(entry.slots.clone()).map_err(|_error| invalid())?;
    let class = class_hash(&entry.class);
    let Some(current) = current else {
        let fallbacks = fallbacks(&next, &candidates);
        let slots =
            entry.slots.iter().zip(fallbacks).map(|(&engine, fallback)| Slot::stable(engine, fallback));
        return Ok(Plan { class, region, slots: slots.collect(), moved: 0 });
    };
    let table =
        SlotTable::new(current.iter().map(|slot| slot.engine).collect()).map_err(|_error| invalid())?;
    let earlier: Vec<u16> = current.iter().map(|slot| slot.fallback).collect();
    let carried = carry_fallbacks(&table, &earlier, &next, &candidates).map_err(|_error| invalid())?;
    // Without this, weights that drift for long overload some survivors of a failure by more than 2 %.
    let fallbacks = even_fallbacks(&next, &carried, &candidates).map_err(|_error| invalid())?;
    let mut moved = 0;
    let slots = current
        .iter()
        .zip(entry.slots.iter().zip(fallbacks))
        .map(|(slot, (&engine, fallback))| {
            if slot.engine == engine {
                return Slot { fallback, ..*slot };
            }
            moved += 1;
            slot.moved(engine, fallback, now)
        })
        .collect();
    Ok(Plan { class, region, slots, moved })
}

fn candidates(entry: &TableEntry, engines: &BTreeMap<u16, &EngineEntry>) -> Result<Candidates, InstallError> {
    let list: Vec<Candidate> = entry
        .candidates
        .iter()
        .filter_map(|candidate| {
            let engine = engines.get(&candidate.engine)?;
            Some(Candidate {
                engine: candidate.engine,
                key: EngineKey::of(engine.id.as_str()),
                weight: candidate.weight,
            })
        })
        .collect();
    Candidates::new(&list).map_err(|_error| InstallError::Candidates { class: entry.class.clone() })
}

/// The slots of a region as they stand.
pub(super) fn read(maps: &Maps, region: Region) -> Vec<Slot> {
    region.range().map(|at| maps.slots.get(at).slot).collect()
}

/// Writes a plan's slots that differ, each at once, and gives their number.
pub(super) fn write(maps: &Maps, plan: &Plan) -> usize {
    let changed =
        plan.region.range().zip(&plan.slots).filter(|(at, slot)| maps.slots.get(*at).slot != **slot);
    changed.map(|(at, slot)| put(maps, at, *slot)).count()
}

/// Writes a slot, then its route: a packet that still sees the old route goes where it went before.
fn put(maps: &Maps, at: usize, slot: Slot) {
    maps.slots.publish(at, offset_of!(SlotRecord, slot), slot.to_word());
    maps.routes.publish_half_word(at / SLOTS_PER_GROUP, at % SLOTS_PER_GROUP * 2, Route::of(slot).0);
}

/// Puts the stable slots of an engine into transition, before it stops to divert: the flows that went to fallbacks
/// meanwhile stay there.
pub(super) fn hold(maps: &Maps, regions: &Regions, engine: u16, now: Tick) {
    for at in regions.values().flat_map(|region| region.range()) {
        let slot = maps.slots.get(at).slot;
        if slot.engine == engine && slot.changed_at == 0 {
            put(maps, at, Slot { changed_at: now.0, ..slot });
        }
    }
}

/// Slots in all regions, and those in transition.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Transition {
    pub slots: usize,
    /// They changed engine, or their engine diverts.
    pub in_transition: usize,
    /// They were in transition until now.
    pub settled: usize,
}

/// Makes slots stable from which no packet diverged for `idle`, and whose engine takes all flows.
pub(super) fn settle(maps: &Maps, regions: &Regions, now: Tick, idle: u16) -> Transition {
    let mut found = Transition::default();
    for at in regions.values().flat_map(|region| region.range()) {
        let SlotRecord { slot, diverged } = maps.slots.get(at);
        let steady = EngineFlags(maps.engines.get(usize::from(slot.engine)).flags).is_steady();
        found.slots += 1;
        if slot.changed_at == 0 && steady {
            continue;
        }
        let diverged = u16::try_from(diverged).unwrap_or(0);
        if steady && is_idle(slot, diverged, now, idle) {
            put(maps, at, Slot::stable(slot.engine, slot.fallback));
            found.settled += 1;
        } else {
            found.in_transition += 1;
        }
    }
    found
}

fn is_idle(slot: Slot, diverged: u16, now: Tick, idle: u16) -> bool {
    let quiet_since_change = now.since(Tick(slot.changed_at)) >= idle;
    let quiet = diverged == 0 || now.since(Tick(diverged)) >= idle;
    quiet_since_change && quiet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_aligned_and_overlaps_none() {
        let regions = Regions::from([
            (1, Region { base: 0, slots: 1 << 16 }),
            (3, Region { base: 1 << 17, slots: 4096 }),
        ]);

        assert_eq!(allocate(&regions, 1 << 16), Some(Region { base: 1 << 16, slots: 1 << 16 }));
        assert_eq!(allocate(&regions, 1 << 17), Some(Region { base: 1 << 18, slots: 1 << 17 }));
        assert_eq!(allocate(&regions, 4096).unwrap().base, 1 << 16);
    }

    #[test]
    fn a_full_map_has_no_region_left() {
        let regions = (0..4).map(|n| (u64::from(n), Region { base: n << 18, slots: 1 << 18 })).collect();

        assert_eq!(allocate(&regions, 2), None);
    }

    #[test]
    fn a_slot_is_idle_only_after_both_its_change_and_its_last_divergence() {
        let slot = Slot::stable(1, 2).moved(3, 2, Tick(100));

        assert!(!is_idle(slot, 0, Tick(324), 225));
        assert!(is_idle(slot, 0, Tick(325), 225));
        assert!(!is_idle(slot, 200, Tick(325), 225));
        assert!(is_idle(slot, 200, Tick(425), 225));
    }
}
