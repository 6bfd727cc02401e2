//! The suites by name.
use crate::{churn, delivery, pps, proxy, row::Row, solver, table, xdp};

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
    ("churn", "the assignment over time: traffic moved, cost of moving less", churn::run),
    ("pps", "packet door: live frames a second and CPU", pps::run),
    ("delivery", "snapshots to many agents: time, bytes, memory", delivery::run),
    ("proxy", "HTTP door beside HAProxy and nginx: CPU, latency, memory", proxy::run),
    ("solver", "the assignment: seconds, gap and memory beside HiGHS", solver::run),
    ("table", "slot tables: moved slots, quotas, times, survivors", table::run),
    ("xdp", "packet door: nanoseconds a packet beside the floors", xdp::run),
];
