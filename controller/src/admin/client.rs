//! The asker's end of the admin socket.
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use penstock_wire::Epoch;

use super::status::Status;
use super::{Answer, Request, RunningInputs};

const TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The controller of this fleet file is not running, or runs as another user.
    #[error("no controller listens at {}", path.display())]
    NotRunning { path: PathBuf, source: io::Error },
    #[error("asking the controller")]
    Broken(#[from] io::Error),
    #[error("the controller's answer is not understood")]
    Answer(#[from] serde_json::Error),
    #[error("the controller refuses: {0}")]
    Refused(String),
    #[error("the controller answers another question")]
    Other,
}

/// The state of the controller that listens at `socket`.
pub fn status(socket: &Path) -> Result<Status, AskError> {
    match ask(socket, Request::Status {})? {
        Answer::Status(status) => Ok(*status),
        _ => Err(AskError::Other),
    }
}

/// What the last solve of the controller at `socket` was made from.
pub fn inputs(socket: &Path) -> Result<RunningInputs, AskError> {
    match ask(socket, Request::Inputs {})? {
        Answer::Inputs(inputs) => Ok(*inputs),
        _ => Err(AskError::Other),
    }
}

/// Makes the controller at `socket` publish what was in force at `to`. Gives the new epoch and the slots that moved.
pub fn rollback(socket: &Path, to: Epoch) -> Result<(Epoch, usize), AskError> {
    match ask(socket, Request::Rollback { to })? {
        Answer::Published { epoch, moved_slots } => Ok((epoch, moved_slots)),
        _ => Err(AskError::Other),
    }
}

/// Lets the controller at `socket` publish again after a rollback.
pub fn release(socket: &Path) -> Result<(), AskError> {
    match ask(socket, Request::Release {})? {
        Answer::Released => Ok(()),
        _ => Err(AskError::Other),
    }
}

/// Epochs that the controller at `socket` can roll back to, oldest first.
pub fn epochs(socket: &Path) -> Result<Vec<Epoch>, AskError> {
    match ask(socket, Request::Epochs {})? {
        Answer::Epochs(epochs) => Ok(epochs),
        _ => Err(AskError::Other),
    }
}

fn ask(socket: &Path, request: Request) -> Result<Answer, AskError> {
    let not_running = |source| AskError::NotRunning { path: socket.to_owned(), source };
    let mut stream = UnixStream::connect(socket).map_err(not_running)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let line = serde_json::to_string(&request)? + "\n";
    stream.write_all(line.as_bytes())?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    match serde_json::from_str(&answer)? {
        Answer::Error(refusal) => Err(AskError::Refused(refusal)),
        answer => Ok(answer),
    }
}
