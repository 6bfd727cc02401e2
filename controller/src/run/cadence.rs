//! When a new split is worth publishing.
use std::time::{Duration, Instant};

use crate::fleet::settings::Settings;
use crate::fleet::units::Share;
use crate::weights::Cause;

/// Publishes at once after a failure or for a large saving, and otherwise at most once an interval.
#[derive(Clone, Copy, Debug)]
pub struct Cadence {
    interval: Duration,
    saving: Share,
    last: Option<Instant>,
}

impl Cadence {
    pub fn new(settings: &Settings) -> Self {
        Self { interval: settings.publish_interval, saving: settings.publish_saving, last: None }
    }

    /// Whether to publish now a split that saves this fraction of mean E2E. If so, the interval starts anew.
    pub fn is_due(&mut self, cause: Cause, saving: f64, now: Instant) -> bool {
        let due = match self.last {
            None => true,
            Some(last) => {
                cause == Cause::Failure
                    || saving >= self.saving.get()
                    || now.saturating_duration_since(last) >= self.interval
            }
        };
        if due {
            self.last = Some(now);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet;

    #[test]
    fn small_savings_wait_for_the_interval_and_failures_for_nothing() {
        let settings = fleet::parse(include_str!("../../../examples/talk.toml")).unwrap().settings;
        let (mut cadence, start) = (Cadence::new(&settings), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);

        assert!(cadence.is_due(Cause::Routine, 0.0, start));
        assert!(!cadence.is_due(Cause::Routine, 0.004, after(1)));
        assert!(cadence.is_due(Cause::Routine, 0.005, after(2)));
        assert!(!cadence.is_due(Cause::Routine, 0.004, after(11)));
        assert!(cadence.is_due(Cause::Routine, 0.004, after(12)));
        assert!(cadence.is_due(Cause::Failure, 0.0, after(13)));
    }
}
