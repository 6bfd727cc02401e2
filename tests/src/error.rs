//! Why the harness could not build or drive its network.
use std::{io, path::PathBuf, process::ExitStatus, time::Duration};

/// Every failure of the harness. Nothing is retried: a test or the demo stops with this text.
#[derive(Debug, thiserror::Error)]
pub enum HarnessError {
    /// Namespaces, links and BPF need root: run the command again as root (`sudo -E cargo xtask test`).
    #[error("network namespaces need root, and the effective user is {uid}: run this as root")]
    NotRoot { uid: u32 },
    /// A tool of the base system is missing. `cargo xtask setup` installs it.
    #[error("cannot start {program}: run `cargo xtask setup`")]
    Start { program: String, source: io::Error },
    #[error("{program} failed with {status}: {output}")]
    Command { program: String, status: ExitStatus, output: String },
    #[error("cannot {action}")]
    Io { action: String, source: io::Error },
    #[error("{name} ended early with {status}; its log {log} ends with:\n{tail}")]
    EndedEarly { name: String, status: ExitStatus, log: PathBuf, tail: String },
    #[error("no {what} within {waited:?}")]
    Deadline { what: String, waited: Duration },
}

impl HarnessError {
    /// Wraps an I/O error with the action that it stopped.
    pub fn io(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let action = action.into();
        move |source| Self::Io { action, source }
    }

    /// The same for the error numbers of the system-call crate.
    pub fn errno(action: impl Into<String>) -> impl FnOnce(nix::errno::Errno) -> Self {
        let action = action.into();
        move |errno| Self::Io { action, source: errno.into() }
    }
}
