//! What came of one request: a line of JSON.
use std::{fs, io, path::Path};

use serde::{Deserialize, Serialize};

/// Times are in microseconds.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Scheduled arrival, from the start of the load.
    pub at_us: u64,
    pub key: u64,
    pub turn: u32,
    #[serde(flatten)]
    pub outcome: Outcome,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Answered(Answered),
    Failed(Failure),
}

/// A complete answer.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Answered {
    /// The engine that named itself in the answer.
    pub engine: String,
    /// From the start of the connection until the handshake was complete.
    pub connect_us: u64,
    /// From the scheduled arrival to the first byte of the body.
    pub ttft_us: u64,
    /// From the scheduled arrival to the end of the answer.
    pub e2e_us: u64,
    /// The part of it that the engine took, by the engine's own clock.
    pub engine_us: u64,
}

/// Why a file of records is of no use.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("reading records")]
    Io(#[from] io::Error),
    #[error("line {line} is no record")]
    Line { line: usize, source: serde_json::Error },
}

/// Reads the records of a load that has ended.
///
/// # Errors
/// The file cannot be read, or a line is no record.
pub fn read(path: &Path) -> Result<Vec<Record>, ReadError> {
    let text = fs::read_to_string(path)?;
    let parse = |(line, text): (usize, &str)| {
        serde_json::from_str(text).map_err(|source| ReadError::Line { line: line + 1, source })
    };
    text.lines().enumerate().map(parse).collect()
}

impl Answered {
    /// What the network and both hosts added to the engine's time.
    pub const fn overhead_us(&self) -> u64 {
        self.e2e_us.saturating_sub(self.engine_us)
    }
}

/// Why a request has no complete answer.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Failure {
    /// No connection.
    Connect,
    /// The connection broke before the answer was complete.
    Broken,
    /// The answer is not HTTP, or lacks the engine's headers.
    Malformed,
    /// A status other than 200.
    Status(u16),
    /// No complete answer in time.
    Timeout,
}
