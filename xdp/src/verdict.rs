//! Last stage: what becomes of a packet.

/// Result for one packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub enum Verdict {
    /// To the host's own stack.
    Pass,
    Drop,
    /// Out of the port that it came in by.
    Transmit,
    /// Out of another port.
    Redirect {
        ifindex: u32,
    },
}
