//! The asker's end of the admin socket.
use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{Answer, Request};

const TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The agent of this configuration is not running.
    #[error("no agent listens at {}", path.display())]
    NotRunning { path: PathBuf, source: io::Error },
    #[error("asking the agent")]
    Broken(#[from] io::Error),
    #[error("the agent's answer is not understood")]
    Answer(#[from] serde_json::Error),
    #[error("the agent refuses: {0}")]
    Refused(String),
}

/// Asks the agent that listens at `socket`.
pub fn ask(socket: &Path, request: &Request) -> Result<Answer, AskError> {
    let not_running = |source| AskError::NotRunning { path: socket.to_owned(), source };
    let mut stream = UnixStream::connect(socket).map_err(not_running)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let line = serde_json::to_string(request)? + "\n";
    stream.write_all(line.as_bytes())?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    match serde_json::from_str(&answer)? {
        Answer::Error(refusal) => Err(AskError::Refused(refusal)),
        answer => Ok(answer),
    }
}
