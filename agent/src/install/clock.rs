//! The coarse clock of slots and flows.
use std::io;

use penstock_abi::Tick;

/// The tick now. It goes on through restarts of the agent, which steps of the wall clock would not.
pub(super) fn now() -> io::Result<Tick> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    #[expect(unsafe_code, reason = "std does not give the time since boot")]
    // SAFETY: the call writes one timespec.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    u64::try_from(time.tv_sec).map(Tick::at_second).map_err(|error| io::Error::other(error.to_string()))
}
