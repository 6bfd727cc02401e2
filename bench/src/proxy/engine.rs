//! An engine that answers at once, so that its own cost hardly shows.
use std::{net::SocketAddr, sync::mpsc::channel, thread, time::Duration};

use anyhow::{Context, Result};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime,
    task::{LocalSet, spawn_local},
    time::{Instant, interval_at},
};

use super::peer::on_cpu;

/// Events of a stream, and the time between two.
pub(super) const EVENTS: usize = 64;
const GAP: Duration = Duration::from_millis(5);

const ANSWER: &str = "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"created\":1700000000,\"model\":\"m\",\
    \"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"Hello, this is a short answer.\"},\
    \"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":8,\"total_tokens\":20}}";
const EVENT: &str = "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\
    \"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word \"},\"logprobs\":null,\
    \"finish_reason\":null}]}\n\n";
const STREAM_HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

#[derive(Debug)]
pub(super) struct Engine {
    pub(super) address: SocketAddr,
}

impl Engine {
    /// Starts it in a thread that ends with the process.
    pub(super) fn start() -> Result<Self> {
        let (ready, started) = channel();
        thread::Builder::new().name("engine".to_owned()).spawn(move || {
            let outcome = on_cpu(0).and_then(|()| {
                let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
                let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
                let address = listener.local_addr()?;
                Ok((runtime, listener, address))
            });
            match outcome {
                Ok((runtime, listener, address)) => {
                    // Whoever started this waits for it.
                    if ready.send(Ok(address)).is_ok() {
                        LocalSet::new().block_on(&runtime, accept(listener));
                    }
                }
                Err(error) => drop(ready.send(Err(error))),
            }
        })?;
        Ok(Self { address: started.recv().context("the engine's thread ended")?? })
    }
}

async fn accept(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        // A connection that breaks is the proxy's to notice.
        spawn_local(async move { drop(serve(stream).await) });
    }
}

async fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut held = Vec::new();
    loop {
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut request = httparse::Request::new(&mut headers);
        let parsed = request.parse(&held).map_err(|_malformed| std::io::ErrorKind::InvalidData)?;
        if let httparse::Status::Complete(head) = parsed {
            let length =
                request.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"));
            let length =
                length.and_then(|header| std::str::from_utf8(header.value).ok()?.parse().ok()).unwrap_or(0);
            let path = request.path.unwrap_or_default().to_owned();
            while held.len() < head + length {
                if stream.read_buf(&mut held).await? == 0 {
                    return Ok(());
                }
            }
            held.drain(..head + length);
            answer(&mut stream, &path).await?;
        } else if stream.read_buf(&mut held).await? == 0 {
            return Ok(());
        }
    }
}

async fn answer(stream: &mut TcpStream, path: &str) -> std::io::Result<()> {
    let chunk = format!("{:x}\r\n{EVENT}\r\n", EVENT.len());
    match path {
        "/v1/completions" => {
            stream.write_all(STREAM_HEAD.as_bytes()).await?;
            let mut ticks = interval_at(Instant::now() + GAP, GAP);
            for _ in 0..EVENTS {
                ticks.tick().await;
                stream.write_all(chunk.as_bytes()).await?;
            }
            stream.write_all(b"0\r\n\r\n").await
        }
        "/v1/responses" => {
            stream.write_all(STREAM_HEAD.as_bytes()).await?;
            stream.write_all(chunk.as_bytes()).await?;
            // Stays open until the other side has had enough.
            stream.read_u8().await.map(drop)
        }
        _ => {
            let length = ANSWER.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{ANSWER}"
            );
            stream.write_all(head.as_bytes()).await
        }
    }
}
