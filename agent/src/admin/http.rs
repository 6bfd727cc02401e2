//! `/metrics` over HTTP/1.1, one request a connection.
use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::{mpsc, watch},
    task::{JoinHandle, JoinSet},
    time::timeout,
};
use tracing::{debug, warn};

use super::{Answer, Question, Request, metrics, server::put};

const LONGEST_HEAD: u64 = 8 << 10;
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Scrapes at once; further ones wait.
const SCRAPES: usize = 16;

/// Task that serves metrics.
#[derive(Debug)]
pub struct MetricsServer {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl MetricsServer {
    pub async fn start(address: SocketAddr, questions: mpsc::Sender<Question>) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let (stop, stopped) = watch::channel(false);
        Ok(Self { address, stop, task: tokio::spawn(accept(listener, questions, stopped)) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub async fn shutdown(self) {
        self.stop.send_replace(true);
        if let Err(error) = self.task.await {
            warn!(%error, "the metrics task did not end well");
        }
    }
}

async fn accept(
    listener: TcpListener,
    questions: mpsc::Sender<Question>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if open.len() < SCRAPES => match accepted {
                Ok((stream, _)) => {
                    open.spawn(serve(stream, questions.clone()));
                }
                Err(error) => warn!(%error, "metrics connection not accepted"),
            },
            Some(_) = open.join_next() => {}
            _ = stopped.wait_for(|stopped| *stopped) => break,
        }
    }
    open.shutdown().await;
}

async fn serve(mut stream: TcpStream, questions: mpsc::Sender<Question>) {
    let Ok(Ok(head)) = timeout(HEAD_TIMEOUT, read_head(&mut stream)).await else { return };
    let (status, body) = match head.split(' ').take(2).collect::<Vec<_>>()[..] {
        ["GET", "/metrics"] => match put(Request::Status {}, &questions).await {
            Answer::Status(status) => ("200 OK", metrics::text(&status)),
            _ => ("503 Service Unavailable", String::new()),
        },
        ["GET", _] => ("404 Not Found", String::new()),
        _ => ("405 Method Not Allowed", String::new()),
    };
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; version=0.0.4\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    if let Err(error) = stream.write_all(answer.as_bytes()).await {
        debug!(%error, "the scraper left before the answer");
    }
}

/// A request up to its empty line, or as much of it as is read.
async fn read_head(stream: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    let mut limited = stream.take(LONGEST_HEAD);
    while !head.ends_with(b"\r\n\r\n") && limited.read_buf(&mut head).await? > 0 {}
    Ok(String::from_utf8_lossy(&head).into_owned())
}
