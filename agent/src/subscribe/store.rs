//! The last good snapshot on disk.
//!
//! `snapshot` is the newest, `snapshot.previous` the one before. A file that is torn or damaged is kept aside as
//! `snapshot.damaged`, and the other one is used.
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use penstock_wire::{ApplyError, DecodeError, Epoch, Snapshot, beside, canonical, replace_file};
use tokio::{sync::watch, task::JoinHandle};
use tracing::{error, info, warn};

/// The folder that holds the snapshots.
#[derive(Clone, Debug)]
pub struct Store {
    path: PathBuf,
}

/// What the folder gave.
#[derive(Debug, Default)]
pub struct Loaded {
    pub snapshot: Option<Arc<Snapshot>>,
    /// Files kept aside, and why.
    pub damaged: Vec<(PathBuf, LoadError)>,
}

/// A snapshot file is of no use.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("the file cannot be read")]
    Read(#[from] io::Error),
    #[error("the file is damaged")]
    Decode(#[from] DecodeError),
    #[error("the file contradicts itself")]
    Apply(#[from] ApplyError),
}

/// The snapshot is in force, but would not survive a restart of the host. The one before is still on disk.
#[derive(Debug, thiserror::Error)]
#[error("writing {}", path.display())]
pub struct SaveError {
    path: PathBuf,
    source: io::Error,
}

impl Store {
    /// Uses `folder`, which is made when missing.
    pub fn open(folder: &Path) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        // Snapshots carry the secret of the slot hash: for their owner alone.
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        Ok(Self { path: folder.join("snapshot") })
    }

    /// The newest snapshot that is whole.
    pub fn load(&self) -> Loaded {
        let mut loaded = Loaded::default();
        for path in [self.path.clone(), self.previous()] {
            match read(&path) {
                Ok(Some(snapshot)) => {
                    loaded.snapshot = Some(Arc::new(snapshot));
                    break;
                }
                Ok(None) => {}
                Err(error) => loaded.damaged.push((self.set_aside(path), error)),
            }
        }
        loaded
    }

    /// As [`Store::load`], but leaves damaged files where they are.
    pub fn peek(&self) -> Option<Snapshot> {
        let read_whole = |path: PathBuf| read(&path).ok().flatten();
        read_whole(self.path.clone()).or_else(|| read_whole(self.previous()))
    }

    /// Keeps a snapshot. On an error, what was there before still loads.
    pub fn save(&self, snapshot: &Snapshot) -> Result<(), SaveError> {
        let fault = |source| SaveError { path: self.path.clone(), source };
        let next = beside(&self.path, ".next");
        replace_file(&next, &snapshot.to_file()).map_err(fault)?;
        match fs::rename(&self.path, self.previous()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fault(error)),
            _ => {}
        }
        // Between the two renames, a restart finds the one before.
        fs::rename(&next, &self.path).map_err(fault)
    }

    fn previous(&self) -> PathBuf {
        beside(&self.path, ".previous")
    }

    fn set_aside(&self, path: PathBuf) -> PathBuf {
        let aside = beside(&self.path, ".damaged");
        match fs::rename(&path, &aside) {
            Ok(()) => aside,
            Err(_left_in_place) => path,
        }
    }
}

fn read(path: &Path) -> Result<Option<Snapshot>, LoadError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    Ok(Some(Snapshot::update_from_file(&bytes)?.apply(None, canonical)?))
}

/// Saves the newest snapshot on a thread of its own, so that a slow disk delays nothing. What is not yet written when
/// a newer one comes is skipped.
#[derive(Debug)]
pub struct Writer {
    newest: watch::Sender<Option<Arc<Snapshot>>>,
    outcome: Arc<Mutex<Outcome>>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Outcome {
    saved: Option<Epoch>,
    error: Option<String>,
}

impl Writer {
    pub fn start(store: Store, saved: Option<Epoch>) -> Self {
        let (newest, mut changed) = watch::channel(None::<Arc<Snapshot>>);
        let outcome = Arc::new(Mutex::new(Outcome { saved, error: None }));
        let shared = Arc::clone(&outcome);
        let task = tokio::spawn(async move {
            while changed.changed().await.is_ok() {
                let Some(snapshot) = changed.borrow_and_update().clone() else { continue };
                let (epoch, store) = (snapshot.epoch, store.clone());
                let saving = tokio::task::spawn_blocking(move || store.save(&snapshot)).await;
                let error = match saving {
                    Ok(Ok(())) => None,
                    Ok(Err(error)) => Some(format!("{error}: {}", error.source)),
                    Err(panicked) => Some(panicked.to_string()),
                };
                let mut outcome = shared.lock().unwrap_or_else(PoisonError::into_inner);
                match &error {
                    None => outcome.saved = Some(epoch),
                    Some(error) => {
                        error!(%epoch, error, "snapshot not saved: a restart of the host would use an older one")
                    }
                }
                outcome.error = error;
            }
        });
        Self { newest, outcome, task }
    }

    pub fn save(&self, snapshot: Arc<Snapshot>) {
        self.newest.send_replace(Some(snapshot));
    }

    /// Epoch on disk, and the error of the last attempt.
    pub fn outcome(&self) -> (Option<Epoch>, Option<String>) {
        let outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        (outcome.saved, outcome.error.clone())
    }

    /// Writes what is left.
    pub async fn finish(self) {
        drop(self.newest);
        if let Err(error) = self.task.await {
            warn!(%error, "the writer did not end well");
        }
        info!("snapshots saved");
    }
}
