//! `penstock-controller replay FOLDER|FILE`: solves recorded ticks again and compares every bit.
use std::io::Write;
use std::path::PathBuf;

use penstock_controller::record::{replay, ring};

#[derive(Debug, clap::Args)]
pub(crate) struct Replay {
    /// The `records` folder of a controller's state folder, or one of its files.
    records: PathBuf,
}

/// Some ticks came out differently: another build, or a solver that is not deterministic.
#[derive(Debug, thiserror::Error)]
#[error("{count} solves came out differently")]
struct Differs {
    count: usize,
}

impl Replay {
    pub(crate) fn run(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let (mut identical, mut skipped, mut differing) = (0, 0, 0);
        for segment in ring::read(&self.records)? {
            let replayed = replay::replay(&segment)?;
            identical += replayed.identical;
            skipped += replayed.skipped;
            differing += replayed.differences.len();
            for difference in &replayed.differences {
                writeln!(out, "{}: {difference}", segment.path.display())?;
            }
            if segment.is_torn {
                writeln!(
                    out,
                    "{}: the end is torn, what stands before it was replayed",
                    segment.path.display()
                )?;
            }
        }
        writeln!(out, "{identical} solves are identical bit by bit")?;
        if skipped > 0 {
            writeln!(out, "{skipped} solves are of a policy with memory and were left out")?;
        }
        if differing > 0 { Err(Differs { count: differing }.into()) } else { Ok(()) }
    }
}
