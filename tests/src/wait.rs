//! Polling a condition with a deadline.
use std::{
    thread,
    time::{Duration, Instant},
};

use crate::HarnessError;

/// Time between two looks at a condition.
const PERIOD: Duration = Duration::from_millis(10);

/// Polls `look` until it gives a value. `what` names the thing that was waited for.
///
/// # Errors
/// [`HarnessError::Deadline`] when `limit` has passed without a value.
pub fn eventually<T>(
    what: &str,
    limit: Duration,
    mut look: impl FnMut() -> Option<T>,
) -> Result<T, HarnessError> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(value) = look() {
            return Ok(value);
        }
        if Instant::now() >= deadline {
            return Err(HarnessError::Deadline { what: what.to_owned(), waited: limit });
        }
        thread::park_timeout(PERIOD);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_that_turns_true_ends_the_wait() {
        let mut looks = 0;

        let value = eventually("third look", Duration::from_secs(60), || {
            looks += 1;
            (looks == 3).then_some("seen")
        });

        assert_eq!(value.unwrap(), "seen");
        assert_eq!(looks, 3);
    }

    #[test]
    fn a_condition_that_stays_false_names_what_was_missing() {
        let error = eventually("snapshot", Duration::ZERO, || None::<()>).unwrap_err();

        assert_eq!(error.to_string(), "no snapshot within 0ns");
    }
}
