//! The controller's end of the admin socket.
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use tracing::{debug, warn};

use super::{Answer, Question};

const LONGEST_LINE: u64 = 4096;
const LINE_TIMEOUT: Duration = Duration::from_secs(5);

/// Task that listens on the socket.
#[derive(Debug)]
pub struct SocketServer {
    path: PathBuf,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl SocketServer {
    /// Listens at `path`, for its owner alone. A socket that a dead controller left is replaced.
    pub fn start(path: &Path, questions: mpsc::Sender<Question>) -> io::Result<Self> {
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another controller listens there"));
        }
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(listen(listener, questions, stopped));
        Ok(Self { path: path.to_owned(), stop, task })
    }

    pub async fn shutdown(self) {
        self.stop.send_replace(true);
        if let Err(error) = self.task.await {
            warn!(%error, "the admin socket's task did not end well");
        }
        if let Err(error) = std::fs::remove_file(&self.path) {
            debug!(%error, "the admin socket was gone already");
        }
    }
}

async fn listen(
    listener: UnixListener,
    questions: mpsc::Sender<Question>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    open.spawn(converse(stream, questions.clone()));
                }
                Err(error) => warn!(%error, "admin connection not accepted"),
            },
            Some(_) = open.join_next() => {}
            _ = stopped.wait_for(|stopped| *stopped) => break,
        }
    }
    open.shutdown().await;
}

/// Takes one line and answers it.
async fn converse(stream: UnixStream, questions: mpsc::Sender<Question>) {
    let (read, mut write) = stream.into_split();
    let mut line = String::new();
    let mut reader = BufReader::new(read.take(LONGEST_LINE));
    let answer = match timeout(LINE_TIMEOUT, reader.read_line(&mut line)).await {
        Ok(Ok(1..)) => match serde_json::from_str(&line) {
            Ok(request) => put(request, &questions).await,
            Err(error) => Answer::Error(format!("not understood: {error}")),
        },
        _ => return,
    };
    let text = match serde_json::to_string(&answer) {
        Ok(text) => text + "\n",
        Err(error) => return warn!(%error, "answer not written"),
    };
    if let Err(error) = write.write_all(text.as_bytes()).await {
        debug!(%error, "the asker left before the answer");
    }
}

/// Puts a request to the control loop.
pub(super) async fn put(request: super::Request, questions: &mpsc::Sender<Question>) -> Answer {
    let (question, answer) = Question::new(request);
    let ends = || Answer::Error("the controller ends".to_owned());
    if questions.send(question).await.is_err() {
        return ends();
    }
    answer.await.unwrap_or_else(|_gone| ends())
}
