//! Snapshot files: an agent's, which holds one, or a publication of the controller's ledger, which holds several.
use std::io;
use std::path::{Path, PathBuf};

use penstock_wire::{ApplyError, DecodeError, Snapshot, canonical};

/// Why a file gave no snapshots.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("cannot read {}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// The file is damaged, of another version, or no snapshot at all.
    #[error("{} holds no snapshot", path.display())]
    Undecodable { path: PathBuf, source: DecodeError },
    #[error("{} holds a snapshot that does not match its own hashes", path.display())]
    Inconsistent { path: PathBuf, source: ApplyError },
}

/// Every snapshot in a file.
pub fn load(path: &Path) -> Result<Vec<Snapshot>, LoadError> {
    let bytes =
        std::fs::read(path).map_err(|source| LoadError::Unreadable { path: path.to_owned(), source })?;
    match pieces(&bytes) {
        Some(pieces) => pieces.into_iter().map(|piece| decode(piece, path)).collect(),
        None => Ok(vec![decode(&bytes, path)?]),
    }
}

fn decode(bytes: &[u8], path: &Path) -> Result<Snapshot, LoadError> {
    let undecodable = |source| LoadError::Undecodable { path: path.to_owned(), source };
    let inconsistent = |source| LoadError::Inconsistent { path: path.to_owned(), source };
    Snapshot::update_from_file(bytes).map_err(undecodable)?.apply(None, canonical).map_err(inconsistent)
}

/// The pieces of a publication, each with its length in front; `None` if the lengths do not add up to the file.
fn pieces(mut bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let mut pieces = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = bytes.split_first_chunk()?;
        let (piece, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        pieces.push(piece);
        bytes = rest;
    }
    Some(pieces)
}
