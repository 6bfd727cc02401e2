//! The suites by name.
use crate::{delivery, row::Row, table, xdp};

/// What every suite takes from the command line.
#[derive(Clone, Debug)]
pub struct Options {
    /// Fewer repetitions and smaller cases, minutes at most.
    pub quick: bool,
    /// Agents of the delivery suite.
    pub agents: Option<usize>,
}

type Run = fn(&Options) -> anyhow::Result<Vec<Row>>;

/// Name, what it measures, and its entry.
pub const SUITES: &[(&str, &str, Run)] = &[
    ("delivery", "snapshots to many agents: time, bytes, memory", delivery::run),
    ("table", "slot tables: moved slots, quotas, times, survivors", table::run),
    ("xdp", "packet door: nanoseconds a packet beside the floors", xdp::run),
];
