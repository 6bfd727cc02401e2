//! The controller's own settings: the `[controller]` table.
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::units::{Milliseconds, Share};

/// Relative paths stand relative to the fleet file's folder.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Where agents connect (QUIC).
    pub listen: SocketAddr,
    /// Needed to run, not to solve.
    pub tls: Option<TlsFiles>,
    /// Epoch, secret, tables and records; made when missing.
    pub state_dir: PathBuf,
    /// Unix socket of `explain`, `status` and the break-glass commands.
    pub admin_socket: PathBuf,
    /// Where `/metrics` is served, if anywhere.
    pub metrics: Option<SocketAddr>,
    pub policy: PolicyName,
    /// Price of a request/s moved away from the published weights.
    pub move_penalty: Milliseconds,
    pub solve_interval: Duration,
    /// Longest time that an improvement below `publish_saving` waits.
    pub publish_interval: Duration,
    /// Expected saving over mean E2E that is published at once.
    pub publish_saving: Share,
    /// Slots of each table; a power of two.
    pub table_slots: usize,
    /// Bound of the ring of recorded solves, bytes on disk; 0 records nothing.
    pub record_bytes: u64,
}

impl Settings {
    /// Makes relative paths stand in `folder`.
    pub(super) fn stand_in(&mut self, folder: &Path) {
        // `join` leaves absolute paths as they are.
        self.state_dir = folder.join(&self.state_dir);
        self.admin_socket = folder.join(&self.admin_socket);
        if let Some(tls) = &mut self.tls {
            for file in [&mut tls.ca, &mut tls.certificate, &mut tls.key] {
                *file = folder.join(&file);
            }
        }
    }
}

/// PEM files of the controller's side of mutual TLS.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TlsFiles {
    /// Authority that signs the agents' certificates.
    pub ca: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// What turns demand and capacity into weights.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyName {
    Optimizer,
    Feedback,
    Nearest,
    RoundRobin,
    LeastLoaded,
}
