//! The ledger's folder: `ledger.json`, and one file for each publication under `epochs/`.
//!
//! `ledger.json` is the commit: an epoch counts from the moment that it is named there. Files under `epochs/` hold the
//! snapshots of the frontends that changed in that epoch, each with its length in front.
use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use penstock_wire::{Epoch, FrontendId, Snapshot, beside, canonical, replace_file};
use serde::{Deserialize, Serialize};

use super::indexes::Indexes;

/// Publications kept, besides the newest of each frontend.
const KEPT: usize = 64;

/// What numbers publications and names.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct State {
    pub(super) epoch: Epoch,
    pub(super) secret: [u8; 16],
    pub(super) engines: Indexes,
    pub(super) services: Indexes,
    /// Epoch whose content is in force by a person's order; nothing else is published meanwhile.
    #[serde(default)]
    pub(super) rolled_back: Option<Epoch>,
}

/// The folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("reading {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// Nothing was published. Free some space; what is in force stays in force.
    #[error("writing {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    /// Move the folder away and start again: tables are then rebuilt from the agents, in a later term.
    #[error("{} is damaged", path.display())]
    Damaged { path: PathBuf, source: serde_json::Error },
}

#[derive(Debug)]
pub(super) struct Store {
    folder: PathBuf,
}

/// What a folder held.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) state: State,
    /// Newest snapshot of each frontend.
    pub(super) snapshots: BTreeMap<FrontendId, Arc<Snapshot>>,
    /// Files that were kept aside because they are damaged.
    pub(super) damaged: Vec<PathBuf>,
}

impl Store {
    pub(super) fn open(folder: &Path) -> Result<Self, StoreError> {
        let epochs = folder.join("epochs");
        // Snapshots carry the secret of the slot hash: for their owner alone.
        let created = fs::DirBuilder::new().recursive(true).mode(0o700).create(&epochs);
        created.map_err(|source| StoreError::Write { path: epochs, source })?;
        Ok(Self { folder: folder.to_owned() })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// `None` if nothing was ever committed.
    pub(super) fn load(&self) -> Result<Option<Loaded>, StoreError> {
        let path = self.ledger();
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(StoreError::Read { path, source }),
        };
        let state: State =
            serde_json::from_slice(&text).map_err(|source| StoreError::Damaged { path, source })?;
        let mut loaded = Loaded { state, snapshots: BTreeMap::new(), damaged: vec![] };
        for (epoch, path) in self.publications()? {
            // A later file was written but not committed.
            if epoch > loaded.state.epoch {
                continue;
            }
            match self.publication(epoch)? {
                Some(snapshots) => loaded.snapshots.extend(by_frontend(snapshots)),
                None => {
                    let aside = beside(&path, ".damaged");
                    fs::rename(&path, &aside).map_err(|source| StoreError::Write { path, source })?;
                    loaded.damaged.push(aside);
                }
            }
        }
        Ok(Some(loaded))
    }

    /// Writes a publication and makes it count.
    pub(super) fn commit(&self, state: &State, snapshots: &[Arc<Snapshot>]) -> Result<(), StoreError> {
        if !snapshots.is_empty() {
            let mut bytes = Vec::new();
            for snapshot in snapshots {
                let file = snapshot.to_file();
                bytes.extend((file.len() as u64).to_le_bytes());
                bytes.extend(file);
            }
            self.write(&self.path_of(state.epoch), &bytes)?;
        }
        let path = self.ledger();
        let text =
            serde_json::to_vec(state).map_err(|source| StoreError::Damaged { path: path.clone(), source })?;
        self.write(&path, &text)
    }

    /// Removes old publications, but for those that hold the newest state of a frontend.
    pub(super) fn prune(&self, newest: &BTreeMap<FrontendId, Arc<Snapshot>>) -> Result<(), StoreError> {
        let publications = self.publications()?;
        let excess = publications.len().saturating_sub(KEPT);
        for (epoch, path) in publications.into_iter().take(excess) {
            if newest.values().all(|snapshot| snapshot.epoch != epoch) {
                fs::remove_file(&path).map_err(|source| StoreError::Write { path, source })?;
            }
        }
        Ok(())
    }

    /// The snapshots published in an epoch; `None` if there are none, or they are damaged.
    pub(super) fn publication(&self, epoch: Epoch) -> Result<Option<Vec<Arc<Snapshot>>>, StoreError> {
        let path = self.path_of(epoch);
        match fs::read(&path) {
            Ok(bytes) => Ok(parse(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(StoreError::Read { path, source }),
        }
    }

    /// Epochs with a file, oldest first.
    pub(super) fn publications(&self) -> Result<Vec<(Epoch, PathBuf)>, StoreError> {
        let folder = self.folder.join("epochs");
        let read = |source| StoreError::Read { path: folder.clone(), source };
        let mut found = Vec::new();
        for entry in fs::read_dir(&folder).map_err(read)? {
            let path = entry.map_err(read)?.path();
            let named = path.extension().is_some_and(|extension| extension == "snapshots");
            let epoch = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
            if let Some(epoch) = epoch.filter(|_| named) {
                found.push((Epoch(epoch), path));
            }
        }
        found.sort();
        Ok(found)
    }

    fn ledger(&self) -> PathBuf {
        self.folder.join("ledger.json")
    }

    fn path_of(&self, epoch: Epoch) -> PathBuf {
        self.folder.join("epochs").join(format!("{:020}.snapshots", epoch.0))
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
        replace_file(path, bytes).map_err(|source| StoreError::Write { path: path.to_owned(), source })
    }
}

pub(super) fn by_frontend(
    snapshots: Vec<Arc<Snapshot>>,
) -> impl Iterator<Item = (FrontendId, Arc<Snapshot>)> {
    snapshots.into_iter().map(|snapshot| (snapshot.frontend.clone(), snapshot))
}

fn parse(mut bytes: &[u8]) -> Option<Vec<Arc<Snapshot>>> {
    let mut snapshots = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = bytes.split_first_chunk()?;
        let (file, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        let update = Snapshot::update_from_file(file).ok()?;
        snapshots.push(Arc::new(update.apply(None, canonical).ok()?));
        bytes = rest;
    }
    Some(snapshots)
}
