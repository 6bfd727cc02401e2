//! How many retries successes have earned.
use std::time::Duration;

use super::config::RetryConfig;

/// Retries saved up at most, in seconds of the floor and in successes.
const SAVED_SECONDS: f64 = 10.0;
const SAVED_SUCCESSES: f64 = 100.0;

/// One worker's part of the budget.
#[derive(Debug)]
pub(crate) struct Budget {
    config: RetryConfig,
    floor_per_second: f64,
    earned: f64,
    floor: f64,
    refilled: Duration,
}

impl Budget {
    pub(crate) fn new(config: RetryConfig, workers: usize) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "a number of threads")]
        let floor_per_second = config.floor_per_second / workers as f64;
        Self { config, floor_per_second, earned: 0.0, floor: floor_per_second, refilled: Duration::ZERO }
    }

    /// A response's first body byte arrived.
    pub(crate) fn success(&mut self) {
        self.earned = (self.earned + self.config.ratio).min(self.config.ratio * SAVED_SUCCESSES);
    }

    /// Whether one more attempt may be made; takes it from the budget. `now` counts from any start.
    #[must_use]
    pub(crate) fn take(&mut self, now: Duration) -> bool {
        let passed = now.saturating_sub(self.refilled).as_secs_f64();
        self.refilled = now;
        self.floor = (self.floor + passed * self.floor_per_second).min(self.floor_per_second * SAVED_SECONDS);
        for saved in [&mut self.floor, &mut self.earned] {
            if *saved >= 1.0 {
                *saved -= 1.0;
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(ratio: f64, floor_per_second: f64) -> Budget {
        Budget::new(RetryConfig { attempts: 3, ratio, floor_per_second }, 1)
    }

    #[test]
    fn five_successes_earn_one_retry_at_a_ratio_of_a_fifth() {
        let mut budget = budget(0.2, 0.0);

        for _ in 0..4 {
            budget.success();
        }
        assert!(!budget.take(Duration::ZERO));
        budget.success();

        assert!(budget.take(Duration::ZERO));
        assert!(!budget.take(Duration::ZERO));
    }

    #[test]
    fn the_floor_grants_retries_without_successes_and_saves_ten_seconds_of_them() {
        let mut budget = budget(0.0, 2.0);

        let granted = |budget: &mut Budget, second| {
            let mut count = 0;
            while budget.take(Duration::from_secs(second)) {
                count += 1;
            }
            count
        };

        assert_eq!(granted(&mut budget, 0), 2);
        assert_eq!(granted(&mut budget, 3), 6);
        assert_eq!(granted(&mut budget, 1000), 20);
    }
}
