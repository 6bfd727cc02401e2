use bytemuck::{Pod, Zeroable};

use crate::Tick;

/// Value of the `SLOTS` map: the engines that serve keys hashing to this slot. Read and written as one u64.
///
/// | offset | bytes | field        | meaning                                                   |
/// |-------:|------:|--------------|-----------------------------------------------------------|
/// |      0 |     2 | `engine`     | index into `ENGINES`, below [`crate::MAX_ENGINES`]        |
/// |      2 |     2 | `fallback`   | second choice, while `engine` diverts                     |
/// |      4 |     2 | `origin`     | engine before the first change of this transition         |
/// |      6 |     2 | `changed_at` | [`Tick`] of the last change; 0 = stable                   |
///
/// The agent writes, the kernel reads. A table of 2^16 slots takes 512 KiB.
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

/// Slots whose times of last divergence share one value of `DIVERGED`.
pub const SLOTS_PER_GROUP: usize = 4;

/// Value of the `DIVERGED` map: when a packet of each of four slots last went to another engine than the slot's.
///
/// | offset | bytes | field | meaning                                                       |
/// |-------:|------:|-------|---------------------------------------------------------------|
/// |      0 |     8 | `at`  | [`Tick`] for slots `4 i` to `4 i + 3` of `SLOTS`; 0 = never    |
///
/// The kernel writes single u16s, the agent reads. 2 MiB for 2^20 slots.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Pod, Zeroable)]
pub struct DivergedGroup {
    pub at: [u16; SLOTS_PER_GROUP],
}

const _: () = assert!(size_of::<DivergedGroup>() == 8);

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
}
