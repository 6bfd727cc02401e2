//! The gate in front of the solve: inputs that do not cohere hold the last result.
use super::Offered;

/// Share of stale hosts from which measured demand is not believed.
pub const STALE_LIMIT: f64 = 0.2;
/// Fall of the fleet's demand within one tick that is not believed at first.
pub const FALL_LIMIT: f64 = 0.5;
/// Ticks after which a fall that persists is believed.
pub const PATIENCE: u32 = 5;

/// Why the last result is held.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Hold {
    /// A restarted controller has not heard of every frontend yet.
    Unmeasured,
    /// Too many hosts have not reported for a while.
    Stale { share: f64 },
    /// Demand fell too fast to be real: more likely reports are missing.
    Fall { before: f64, now: f64 },
}

impl Hold {
    /// As it stands in logs and metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Unmeasured => "unmeasured",
            Self::Stale { .. } => "stale",
            Self::Fall { .. } => "demand_fell",
        }
    }
}

/// Remembers the last demand that passed.
#[derive(Debug, Default)]
pub struct Gate {
    passed: Option<f64>,
    held: u32,
}

impl Gate {
    /// Passes this tick's demand, or says why the last result holds.
    pub fn judge(&mut self, offered: &Offered, stale_share: f64) -> Option<Hold> {
        let now: f64 = offered.iter().map(|(.., rate)| rate.get()).sum();
        if stale_share >= STALE_LIMIT {
            return Some(Hold::Stale { share: stale_share });
        }
        if let Some(before) = self.passed
            && now < FALL_LIMIT * before
            && self.held < PATIENCE
        {
            self.held += 1;
            return Some(Hold::Fall { before, now });
        }
        self.passed = Some(now);
        self.held = 0;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(rate: f64) -> Offered {
        let mut offered = Offered::default();
        offered.set("A".into(), "chat".into(), rate.try_into().unwrap());
        offered
    }

    #[test]
    fn demand_that_halves_within_a_tick_is_held_until_it_persists() {
        let mut gate = Gate::default();
        assert_eq!(gate.judge(&offered(100.0), 0.0), None);

        for _ in 0..PATIENCE {
            assert_eq!(gate.judge(&offered(40.0), 0.0), Some(Hold::Fall { before: 100.0, now: 40.0 }));
        }

        assert_eq!(gate.judge(&offered(40.0), 0.0), None);
        assert_eq!(gate.judge(&offered(30.0), 0.0), None);
    }

    #[test]
    fn a_fifth_of_the_hosts_stale_holds_and_fewer_do_not() {
        let mut gate = Gate::default();

        assert_eq!(gate.judge(&offered(100.0), 0.2), Some(Hold::Stale { share: 0.2 }));
        assert_eq!(gate.judge(&offered(100.0), 0.19), None);
    }
}
