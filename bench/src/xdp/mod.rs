//! The packet door per packet, beside the floors of the same run (`BPF_PROG_TEST_RUN`, one CPU).
//!
//! A harness in the kernel restores each packet and varies its flow, then goes on to the program under test; its own
//! cost is in every figure and in every floor. Rounds measure floors and cases in turn, and the median of each is
//! taken, so that a busy machine slows both alike.
pub(crate) mod case;
mod packet;
pub(crate) mod rig;

use anyhow::Context;
use case::{Case, Floor, Traffic};
use rig::Rig;

use crate::{row::Row, suite::Options};

const SUITE: &str = "xdp";
const METRIC: &str = "ns_per_packet";

/// Measures every floor and case.
pub fn run(options: &Options) -> anyhow::Result<Vec<Row>> {
    let (rounds, packets) = if options.quick { (9, 200_000) } else { (15, 1_000_000) };
    pin_to_one_cpu()?;
    let mut rig = Rig::new()?;
    let mut floors: Vec<(Floor, Vec<f64>)> = Floor::ALL.iter().map(|&floor| (floor, Vec::new())).collect();
    let mut cases: Vec<(Case, Vec<f64>)> = Case::all().into_iter().map(|case| (case, Vec::new())).collect();
    for _ in 0..rounds {
        for (floor, figures) in &mut floors {
            figures.push(rig.floor(*floor, packets)?);
        }
        for (case, figures) in &mut cases {
            figures.push(rig.case(*case, packets).with_context(|| format!("case {}", case.name()))?);
        }
    }
    let mut rows = Vec::new();
    for (floor, figures) in &mut floors {
        rows.push(Row::new(SUITE, format!("floor/{}", floor.name()), METRIC, median(figures), "ns"));
    }
    for (case, figures) in &mut cases {
        let floor = case.floor();
        let base = floors.iter_mut().find(|(other, _)| *other == floor).map(|(_, figures)| median(figures));
        let row = Row::new(SUITE, case.name(), METRIC, median(figures), "ns");
        rows.push(match base {
            Some(base) => row.against(format!("floor/{}", floor.name()), base),
            None => row,
        });
    }
    Ok(rows)
}

pub(crate) fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// The last CPU that this process may use.
pub(crate) fn pin_to_one_cpu() -> anyhow::Result<()> {
    use nix::{
        sched::{CpuSet, sched_getaffinity, sched_setaffinity},
        unistd::Pid,
    };

    let own = Pid::from_raw(0);
    let allowed = sched_getaffinity(own).context("reading the CPUs of this process")?;
    let last = (0..CpuSet::count()).rev().find(|&cpu| allowed.is_set(cpu).unwrap_or(false));
    let mut one = CpuSet::new();
    one.set(last.context("this process has no CPU")?).context("choosing a CPU")?;
    sched_setaffinity(own, &one).context("pinning to a CPU")
}

/// Whether a case's packets need flows recorded before they are measured.
const fn needs_records(traffic: Traffic) -> bool {
    matches!(traffic, Traffic::TcpTransition)
}
