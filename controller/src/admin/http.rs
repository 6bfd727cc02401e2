//! `/metrics` over HTTP/1.1, one request a connection.
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use tracing::{debug, warn};

use super::socket::put;
use super::{Answer, Question, Request, metrics};

const LONGEST_HEAD: usize = 8 << 10;
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

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
        Ok(Self { address, stop, task: tokio::spawn(listen(listener, questions, stopped)) })
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

async fn listen(
    listener: TcpListener,
    questions: mpsc::Sender<Question>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
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
    let Ok(Ok(Some(head))) = timeout(HEAD_TIMEOUT, head(&mut stream)).await else { return };
    let (status, body) = if !head.starts_with("GET ") {
        ("405 Method Not Allowed", String::new())
    } else if head.split(' ').nth(1) != Some("/metrics") {
        ("404 Not Found", String::new())
    } else {
        match put(Request::Status {}, &questions).await {
            Answer::Status(status) => ("200 OK", metrics::text(&status)),
            _ => ("503 Service Unavailable", String::new()),
        }
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; version=0.0.4\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    if let Err(error) = stream.write_all(answer.as_bytes()).await {
        debug!(%error, "the scraper left before the answer");
    }
}

/// The request's head, or `None` if it is too long or not text.
async fn head(stream: &mut TcpStream) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        if bytes.len() == LONGEST_HEAD {
            return Ok(None);
        }
        bytes.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8(bytes).ok())
}
