use bytemuck::{Pod, Zeroable};

use crate::Tick;

/// The engines that serve keys hashing to one slot: first word of a [`SlotRecord`], read and written as one u64.
///
/// | offset | bytes | field        | meaning                                                   |
/// |-------:|------:|--------------|-----------------------------------------------------------|
/// |      0 |     2 | `engine`     | index into `ENGINES`, below [`crate::MAX_ENGINES`]        |
/// |      2 |     2 | `fallback`   | second choice, while `engine` diverts                     |
/// |      4 |     2 | `origin`     | engine before the first change of this transition         |
/// |      6 |     2 | `changed_at` | [`Tick`] of the last change; 0 = stable                   |
///
/// The agent writes; the kernel reads it only while the slot is in transition.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Pod, Zeroable)]
pub struct Slot {
    pub engine: u16,
    pub fallback: u16,
    pub origin: u16,
    pub changed_at: u16,
}

const _: () = assert!(size_of::<Slot>() == 8);

impl Slot {
    /// A slot that has been with `engine` for longer than any flow.
    pub const fn stable(engine: u16, fallback: u16) -> Self {
        Self { engine, fallback, origin: engine, changed_at: 0 }
    }

    /// The slot after a move: its origin stays the engine before the first change of a transition.
    #[must_use]
    pub const fn moved(self, engine: u16, fallback: u16, now: Tick) -> Self {
        Self { engine, fallback, origin: self.origin, changed_at: now.0 }
    }

    /// From the u64 that the map holds. Fields stand in the host's order, lowest offset first.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "takes 16 bits at a time")]
    pub const fn from_word(word: u64) -> Self {
        let word = word.to_le();
        Self {
            engine: u16::from_le(word as u16),
            fallback: u16::from_le((word >> 16) as u16),
            origin: u16::from_le((word >> 32) as u16),
            changed_at: u16::from_le((word >> 48) as u16),
        }
    }

    pub fn to_word(self) -> u64 {
        bytemuck::cast(self)
    }
}

/// Value of the `SLOTS` map, one for each slot.
///
/// | offset | bytes | field      | meaning                                                                  |
/// |-------:|------:|------------|--------------------------------------------------------------------------|
/// |      0 |     8 | `slot`     | [`Slot`]; the agent writes                                               |
/// |      8 |     8 | `diverged` | [`Tick`] of the last packet to another engine than the slot's; 0 = never; the kernel writes |
///
/// 16 MiB for 2^20 slots.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Pod, Zeroable)]
pub struct SlotRecord {
    pub slot: Slot,
    pub diverged: u64,
}

const _: () = assert!(size_of::<SlotRecord>() == 16);

/// Slots that share one value of `ROUTES`.
pub const SLOTS_PER_GROUP: usize = 4;

/// Value of the `ROUTES` map: what a packet needs of four slots while they are stable.
///
/// | offset | bytes | field    | meaning                                         |
/// |-------:|------:|----------|-------------------------------------------------|
/// |      0 |     8 | `routes` | [`Route`] of slots `4 i` to `4 i + 3` of `SLOTS` |
///
/// So small that the routes of a table of 2^16 slots, 128 KiB, stay in a CPU's own cache. The agent writes single
/// u16s, each after its `SLOTS` record; the kernel reads. 2 MiB for 2^20 slots.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Pod, Zeroable)]
pub struct RouteGroup {
    pub routes: [u16; SLOTS_PER_GROUP],
}

const _: () = assert!(size_of::<RouteGroup>() == 8);

/// A slot's engine in bits 0 to 14, and in bit 15 whether the slot changed and is not yet stable.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Route(pub u16);

impl Route {
    const CHANGED: u16 = 1 << 15;

    pub const fn of(slot: Slot) -> Self {
        Self(slot.engine | if slot.changed_at == 0 { 0 } else { Self::CHANGED })
    }

    /// The route of slot `at` in the word of its group.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "takes the 16 bits of the field")]
    pub const fn in_word(word: u64, at: u32) -> Self {
        Self(u16::from_le((word.to_le() >> (at % SLOTS_PER_GROUP as u32 * 16)) as u16))
    }

    #[inline(always)]
    pub const fn engine(self) -> u16 {
        self.0 & !Self::CHANGED
    }

    #[inline(always)]
    pub const fn is_changed(self) -> bool {
        self.0 & Self::CHANGED != 0
    }
}

const _: () = assert!(crate::MAX_ENGINES <= 1 << 15);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_survives_the_way_through_its_word() {
        let slot = Slot { engine: 0x0102, fallback: 0x0304, origin: 0x0506, changed_at: 0x0708 };

        assert_eq!(Slot::from_word(slot.to_word()), slot);
        assert_eq!(slot.to_word().to_ne_bytes()[..2], 0x0102_u16.to_ne_bytes());
    }

    #[test]
    fn the_origin_stays_through_a_second_and_a_returning_change() {
        let there = Slot::stable(1, 9).moved(2, 9, Tick(5));
        let back = there.moved(1, 9, Tick(6));

        assert_eq!((there.origin, back.origin, back.changed_at), (1, 1, 6));
    }

    #[test]
    fn each_slot_finds_its_route_in_the_word_of_its_group() {
        let slots = [
            Slot::stable(7, 0),
            Slot::stable(8, 0),
            Slot::stable(9, 0).moved(10, 0, Tick(3)),
            Slot::stable(0, 0),
        ];
        let group = RouteGroup { routes: slots.map(|slot| Route::of(slot).0) };
        let word = bytemuck::cast(group);

        let routes = [100, 101, 102, 103].map(|at| Route::in_word(word, at));

        assert_eq!(routes.map(Route::engine), [7, 8, 10, 0]);
        assert_eq!(routes.map(Route::is_changed), [false, false, true, false]);
    }
}
