//! How long to wait before the next attempt to connect.
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);

/// The wait after `failures` failures in a row: doubling, up to five seconds, of which `jitter` (0..=255) spreads the
/// upper half, so that a fleet does not come back at one instant.
pub(super) fn backoff(failures: u32, jitter: u8) -> Duration {
    let whole = FIRST.saturating_mul(1 << failures.min(10)).min(LONGEST);
    whole / 2 + whole / 2 * u32::from(jitter) / 255
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_five_seconds() {
        let longest: Vec<_> = [0, 1, 5, 6, 40].map(|failures| backoff(failures, 255).as_millis()).to_vec();
        let shortest: Vec<_> = [0, 1, 5, 6, 40].map(|failures| backoff(failures, 0).as_millis()).to_vec();

        assert_eq!(longest, [100, 200, 3200, 5000, 5000]);
        assert_eq!(shortest, [50, 100, 1600, 2500, 2500]);
    }
}
