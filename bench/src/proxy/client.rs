//! Clients: an open loop, which sends on time however slow the answers are, one request at a time, and open streams.
use std::{
    cell::{Cell, RefCell},
    net::SocketAddr,
    rc::Rc,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    runtime,
    task::{LocalSet, spawn_local},
    time::{Instant, sleep_until, timeout},
};

use super::{
    case::{Case, Kind},
    engine::EVENTS,
    peer::on_cpu,
};

/// Requests of the latency measurement.
const SINGLE: usize = 2_000;
/// After this long an answer counts as lost.
const LIMIT: Duration = Duration::from_secs(30);

/// Sends the case's requests at its rate; returns how many were answered in full.
pub(super) fn open_loop(proxy: SocketAddr, case: &Case) -> Result<usize> {
    block_on(async {
        let (idle, served) = (Rc::new(RefCell::new(Vec::new())), Rc::new(Cell::new(0)));
        let start = Instant::now();
        let mut running = Vec::new();
        for n in 0..case.requests {
            #[expect(clippy::cast_precision_loss, reason = "a number of requests")]
            sleep_until(start + Duration::from_secs_f64(n as f64 / case.per_second)).await;
            let (idle, served, case) = (Rc::clone(&idle), Rc::clone(&served), *case);
            running.push(spawn_local(async move {
                let waiting: Option<TcpStream> = idle.borrow_mut().pop();
                let mut stream = match waiting {
                    Some(stream) => stream,
                    None => connect(proxy).await?,
                };
                exchange(&mut stream, &case.request(n), case.kind).await?;
                idle.borrow_mut().push(stream);
                served.set(served.get() + 1);
                anyhow::Ok(())
            }));
        }
        for one in running {
            one.await??;
        }
        Ok(served.get())
    })
}

/// Latencies of requests sent one after the other, sorted.
pub(super) fn one_at_a_time(target: SocketAddr, case: &Case) -> Result<Vec<Duration>> {
    block_on(async {
        let mut stream = connect(target).await?;
        let mut latencies = Vec::with_capacity(SINGLE);
        for n in 0..SINGLE {
            let request = case.request(n);
            let start = Instant::now();
            exchange(&mut stream, &request, case.kind).await?;
            latencies.push(start.elapsed());
        }
        latencies.sort_unstable();
        Ok(latencies)
    })
}

/// Streams that have had their first event.
pub(super) fn open_streams(proxy: SocketAddr, count: usize) -> Result<Vec<std::net::TcpStream>> {
    block_on(async {
        let case = Case { name: "", kind: Kind::Idle, body: 1 << 10, requests: count, per_second: 0.0 };
        let mut streams = Vec::with_capacity(count);
        for n in 0..count {
            let mut stream = connect(proxy).await?;
            stream.write_all(&case.request(n)).await?;
            streams.push(stream);
        }
        for stream in &mut streams {
            let mut held = Vec::new();
            while memchr::memmem::find(&held, b"data: ").is_none() {
                if timeout(LIMIT, stream.read_buf(&mut held)).await.context("no event came")?? == 0 {
                    bail!("the stream ended early: {}", String::from_utf8_lossy(&held));
                }
            }
        }
        streams.into_iter().map(|stream| stream.into_std().map_err(Into::into)).collect()
    })
}

fn block_on<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    on_cpu(0)?;
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, future)
}

async fn connect(target: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(target).await.with_context(|| format!("connecting to {target}"))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Sends a request and reads its whole answer.
async fn exchange(stream: &mut TcpStream, request: &[u8], kind: Kind) -> Result<()> {
    stream.write_all(request).await?;
    let mut held = Vec::new();
    loop {
        if timeout(LIMIT, stream.read_buf(&mut held)).await.context("no answer came")?? == 0 {
            bail!("the connection ended within an answer: {}", String::from_utf8_lossy(&held));
        }
        let Some(head) = memchr::memmem::find(&held, b"\r\n\r\n") else { continue };
        if !held.starts_with(b"HTTP/1.1 200 ") {
            bail!("an answer is not 200: {}", String::from_utf8_lossy(&held));
        }
        match kind {
            Kind::Whole if held.len() >= head + 4 + length(&held[..head])? => return Ok(()),
            Kind::Stream if held.ends_with(b"\r\n0\r\n\r\n") => {
                let events = memchr::memmem::find_iter(&held, b"data: ").count();
                return if events == EVENTS { Ok(()) } else { bail!("{events} events instead of {EVENTS}") };
            }
            _ => {}
        }
    }
}

fn length(head: &[u8]) -> Result<usize> {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let value = head.split("\r\n").find_map(|line| line.strip_prefix("content-length: "));
    value.context("an answer has no length")?.trim().parse().context("an answer's length")
}
