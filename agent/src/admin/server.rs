//! The agent's end of the admin socket.
use std::{
    fs, io,
    os::unix::{fs::PermissionsExt as _, net::UnixStream as ProbeStream},
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{UnixListener, UnixStream},
    sync::{mpsc, oneshot, watch},
    task::{JoinHandle, JoinSet},
    time::timeout,
};
use tracing::{debug, warn};

use super::Status;
use crate::orders::{Order, Orders};

const LINE_LIMIT: u64 = 4096;
const LINE_TIMEOUT: Duration = Duration::from_secs(5);

/// What a person may ask.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    Status {},
    Order { order: Order },
}

/// What the agent answers.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    Status(Box<Status>),
    /// All orders in force.
    Orders(Orders),
    Error(String),
}

/// A request that waits for its answer.
#[derive(Debug)]
pub struct Question {
    pub request: Request,
    reply: oneshot::Sender<Answer>,
}

impl Question {
    pub fn answer(self, answer: Answer) {
        if self.reply.send(answer).is_err() {
            debug!("the asker left before the answer");
        }
    }
}

/// Task that listens.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Server {
    /// Listens at `path`, for its owner alone. A socket that nobody listens at is replaced.
    pub fn start(path: &Path, questions: mpsc::Sender<Question>) -> io::Result<Self> {
        if fs::symlink_metadata(path).is_ok() {
            if ProbeStream::connect(path).is_ok() {
                return Err(io::Error::new(io::ErrorKind::AddrInUse, "another agent listens there"));
            }
            fs::remove_file(path)?;
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(accept(listener, questions, stopped));
        Ok(Self { path: path.to_owned(), stop, task })
    }

    pub async fn shutdown(self) {
        self.stop.send_replace(true);
        if let Err(error) = self.task.await {
            warn!(%error, "the admin socket's task did not end well");
        }
        if let Err(error) = fs::remove_file(&self.path) {
            debug!(%error, "the admin socket was gone already");
        }
    }
}

async fn accept(
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

/// Answers one line.
async fn converse(stream: UnixStream, questions: mpsc::Sender<Question>) {
    let (read, mut write) = stream.into_split();
    let mut line = String::new();
    let mut limited = BufReader::new(read.take(LINE_LIMIT));
    let answer = match timeout(LINE_TIMEOUT, limited.read_line(&mut line)).await {
        Ok(Ok(1..)) => answer(&line, &questions).await,
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

async fn answer(line: &str, questions: &mpsc::Sender<Question>) -> Answer {
    match serde_json::from_str(line) {
        Ok(request) => put(request, questions).await,
        Err(error) => Answer::Error(format!("not understood: {error}")),
    }
}

/// Puts a request to the owner and waits for the answer.
pub(super) async fn put(request: Request, questions: &mpsc::Sender<Question>) -> Answer {
    let (reply, answer) = oneshot::channel();
    let ends = || Answer::Error("the agent ends".to_owned());
    if questions.send(Question { request, reply }).await.is_err() {
        return ends();
    }
    answer.await.unwrap_or_else(|_gone| ends())
}
