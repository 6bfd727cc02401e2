use bytemuck::{Pod, Zeroable};

/// Entries of a bucket.
pub const WAYS: usize = 8;
/// The last ways of a bucket hold flows confirmed by a second packet; a flood fills only the others.
pub const CONFIRMED_WAYS: usize = 6;

/// Value of the `FLOWS` and `AFFINITY` maps: eight entries in one cache line.
///
/// | offset | bytes | field     | meaning                                                        |
/// |-------:|------:|-----------|----------------------------------------------------------------|
/// |      0 |    16 | `entries` | ways 0 and 1: seen once; `FLOWS` only                           |
/// |     16 |    48 |           | ways 2 to 7: confirmed by a second packet                      |
///
/// Each entry is one u64, see [`Entry`]. The kernel writes; the agent reads. 8 MiB of flows, 1 MiB of affinity.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Pod, Zeroable)]
pub struct Bucket {
    pub entries: [u64; WAYS],
}

const _: () = assert!(size_of::<Bucket>() == 64);

/// One entry of a bucket.
///
/// | bits     | field    | meaning                                        |
/// |---------:|----------|------------------------------------------------|
/// | 24 to 63 | `tag`    | upper 40 bits of the hash                       |
/// |  8 to 23 | `engine` | index into `ENGINES`                            |
/// |   0 to 7 | `stamp`  | [`crate::Tick::stamp`] of the last packet       |
///
/// Zero is an empty entry: the lowest bit of a tag is always set.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Entry(pub u64);

impl Entry {
    const TAG_ONE: u64 = 1 << 24;

    #[inline(always)]
    pub const fn new(hash: u64, engine: u16, stamp: u8) -> Self {
        Self(Self::tagged(hash) & !(Self::TAG_ONE - 1) | (engine as u64) << 8 | stamp as u64)
    }

    /// The hash with the bit set that every tag has.
    #[inline(always)]
    const fn tagged(hash: u64) -> u64 {
        hash | Self::TAG_ONE
    }

    #[inline(always)]
    pub const fn is_of(self, hash: u64) -> bool {
        self.0 ^ Self::tagged(hash) < Self::TAG_ONE
    }

    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "takes the 16 bits of the field")]
    pub const fn engine(self) -> u16 {
        (self.0 >> 8) as u16
    }

    #[inline(always)]
    pub const fn stamp(self) -> u8 {
        self.0.to_le_bytes()[0]
    }

    /// Stamps since the last packet, modulo 256.
    #[inline(always)]
    pub const fn age(self, now: u8) -> u8 {
        now.wrapping_sub(self.stamp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_gives_back_its_engine_and_age_and_knows_its_hash() {
        let entry = Entry::new(0x1234_5678_9bbc_def0, 0x0fff, 250);

        assert_eq!((entry.engine(), entry.stamp(), entry.age(3)), (0x0fff, 250, 9));
        assert!(entry.is_of(0x1234_5678_9b00_0000) && !entry.is_of(0x1234_5678_9d00_0000));
    }

    #[test]
    fn a_hash_of_zero_is_not_an_empty_entry() {
        assert!(!Entry::new(0, 0, 0).is_empty());
        assert!(Entry::new(0, 0, 0).is_of(0));
    }
}
