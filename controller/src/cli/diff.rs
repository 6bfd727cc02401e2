//! `penstock-controller diff OLD NEW`: what changed between two snapshots, and which input changed it.
use std::io::Write;
use std::path::{Path, PathBuf};

use penstock_controller::diff::cause::{self, Cause};
use penstock_controller::diff::{Changes, load};
use penstock_controller::record::ring;
use penstock_controller::run::service::RECORDS;
use penstock_wire::Epoch;

#[derive(Debug, clap::Args)]
pub(crate) struct Diff {
    /// A snapshot file: an agent's, or one of `epochs` in the controller's state folder.
    old: PathBuf,
    /// The later one.
    new: PathBuf,
    /// Recorded solves, to tell which input changed the split [default: `records` beside `epochs`].
    #[arg(long, value_name = "FOLDER")]
    records: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(serde::Serialize)]
struct Difference {
    changes: Vec<Changes>,
    causes: Vec<Cause>,
}

impl Diff {
    pub(crate) fn run(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let (old, new) = (load::load(&self.old)?, load::load(&self.new)?);
        let mut changes = Vec::new();
        for is in &new {
            match old.iter().find(|was| was.frontend == is.frontend) {
                Some(was) => changes.push(Changes::between(was, is)),
                None => eprintln!("note: {} stands in {} alone", is.frontend, self.new.display()),
            }
        }
        let epochs = changes.first().map(|changes| (changes.from, changes.to));
        let causes = match (self.records(), epochs) {
            (Some(records), Some((from, to))) => causes(&records, from, to),
            _ => {
                eprintln!("note: without --records, which input changed it is not known");
                Vec::new()
            }
        };
        let difference = Difference { changes, causes };
        if self.json {
            serde_json::to_writer_pretty(&mut *out, &difference)?;
            writeln!(out)?;
            return Ok(());
        }
        for changes in &difference.changes {
            write!(out, "{changes}")?;
        }
        for cause in &difference.causes {
            writeln!(out, "because of {cause}")?;
        }
        Ok(())
    }

    fn records(&self) -> Option<PathBuf> {
        let beside = || Some(self.new.parent()?.parent()?.join(RECORDS)).filter(|folder| folder.is_dir());
        self.records.clone().or_else(beside)
    }
}

/// What the records say; without an answer the changes stand alone, and a note says why.
fn causes(records: &Path, from: Epoch, to: Epoch) -> Vec<Cause> {
    let found = ring::read(records)
        .map_err(anyhow::Error::from)
        .and_then(|recorded| Ok(cause::causes(&recorded, from, to)?));
    found.unwrap_or_else(|error| {
        eprintln!("note: which input changed it is not known: {error:#}");
        Vec::new()
    })
}
