/// Coarse time: units of 4 s that the agent writes into `CONFIG`, from 1 up, wrapping past zero after three days.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Tick(pub u16);

/// For this long after a change, UDP flows without a record stay with the slot's origin: 30 s, in ticks.
pub const UDP_ORIGIN_TICKS: u16 = 8;

impl Tick {
    pub const SECONDS: u64 = 4;
    const PERIOD: u64 = 0xffff;

    /// The tick of a monotonic time. Never 0, which marks a stable slot.
    #[expect(clippy::cast_possible_truncation, reason = "the remainder is below 65,535")]
    pub const fn at_second(monotonic: u64) -> Self {
        Self(((monotonic / Self::SECONDS) % Self::PERIOD + 1) as u16)
    }

    /// Ticks from `earlier` to this one; 0 where `earlier` is not in the half period before, but just ahead.
    #[inline(always)]
    pub const fn since(self, earlier: Self) -> u16 {
        let wrapped = if self.0 < earlier.0 { 1 } else { 0 };
        let ticks = self.0.wrapping_sub(earlier.0).wrapping_sub(wrapped);
        if ticks > 0x7fff { 0 } else { ticks }
    }

    /// The age stamp of flow and affinity entries: units of 16 s, modulo 256.
    #[inline(always)]
    pub const fn stamp(self) -> u8 {
        (self.0 >> 2).to_le_bytes()[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_gives_the_mark_of_a_stable_slot() {
        let ticks = [0, 3, 4, 4 * 65_534, 4 * 65_535, 4 * 65_536].map(|second| Tick::at_second(second).0);

        assert_eq!(ticks, [1, 1, 2, 65_535, 1, 2]);
    }

    #[test]
    fn an_interval_across_the_wrap_leaves_zero_out() {
        assert_eq!(Tick(2).since(Tick(65_535)), 2);
        assert_eq!(Tick(9).since(Tick(4)), 5);
        assert_eq!(Tick(9).since(Tick(10)), 0);
    }
}
