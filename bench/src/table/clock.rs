//! Processor time of this thread: what a table costs, whatever else the machine is doing.
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};

#[derive(Debug)]
pub(super) struct Clock {
    nanoseconds: i64,
}

impl Clock {
    pub(super) fn start() -> anyhow::Result<Self> {
        Ok(Self { nanoseconds: clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.num_nanoseconds() })
    }

    #[expect(clippy::cast_precision_loss, reason = "far below 2^52 ns")]
    pub(super) fn milliseconds(&self) -> anyhow::Result<f64> {
        Ok((Self::start()?.nanoseconds - self.nanoseconds) as f64 / 1e6)
    }
}
