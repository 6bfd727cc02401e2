//! The asker's end of the admin socket.
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

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
