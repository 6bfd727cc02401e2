//! New lines of the load generators' record files.
use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use penstock_wire::{ClassId, FrontendId};

use crate::load::record::{Outcome, Record};

/// A record and where its client stands.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) frontend: FrontendId,
    pub(super) class: ClassId,
    pub(super) record: Record,
}

impl Seen {
    /// When the request ended, seconds after the start of the load; failures count at their arrival.
    pub(super) fn ended_at(&self) -> f64 {
        let e2e_us = match &self.record.outcome {
            Outcome::Answered(answered) => answered.e2e_us,
            Outcome::Failed(_) => 0,
        };
        (self.record.at_us + e2e_us) as f64 / 1e6
    }
}

/// One file that grows.
#[derive(Debug)]
pub(super) struct Tail {
    frontend: FrontendId,
    class: ClassId,
    file: File,
    /// The start of a line whose end is still to come.
    rest: Vec<u8>,
}

impl Tail {
    pub(super) fn open(path: &Path, frontend: FrontendId, class: ClassId) -> io::Result<Self> {
        Ok(Self { frontend, class, file: File::open(path)?, rest: Vec::new() })
    }

    /// Appends the records of complete lines.
    pub(super) fn read(&mut self, into: &mut Vec<Seen>) -> io::Result<()> {
        self.file.read_to_end(&mut self.rest)?;
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else { return Ok(()) };
        for line in self.rest[..end].split(|byte| *byte == b'\n') {
            let record = serde_json::from_slice(line)?;
            into.push(Seen { frontend: self.frontend.clone(), class: self.class.clone(), record });
        }
        self.rest.drain(..=end);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_line_counts_when_its_end_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records");
        let mut writer = File::create(&path).unwrap();
        let mut tail = Tail::open(&path, "A".into(), "chat".into()).unwrap();
        let mut seen = Vec::new();
        let line = r#"{"at_us":5,"key":7,"turn":1,"failed":"connect"}"#;

        write!(writer, "{line}\n{}", &line[..9]).unwrap();
        tail.read(&mut seen).unwrap();
        assert_eq!(seen.len(), 1);
        writeln!(writer, "{}", &line[9..]).unwrap();
        tail.read(&mut seen).unwrap();

        assert_eq!(seen.len(), 2);
        assert_eq!(seen[0].record, seen[1].record);
    }
}
