//! `/metrics` on an address of its own, for Prometheus.
use std::rc::Rc;

use tokio::{net::TcpListener, task::spawn_local};

use super::{
    client::Client,
    h1::field::Kind,
    io::Io,
    request::{self, Read, Request},
    worker::Worker,
};

/// Answers scrapes until the runtime ends.
pub(crate) async fn serve(worker: Rc<Worker>, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let worker = Rc::clone(&worker);
                spawn_local(async move { answer(&worker, Client::new(Io::Tcp(stream), &worker)).await });
            }
            Err(error) => {
                tracing::warn!(%error, "scrape not accepted");
                tokio::time::sleep(super::deadline::TICK).await;
            }
        }
    }
}

async fn answer(worker: &Worker, mut client: Client) {
    while let Ok(Read::Request(request)) = request::read(worker, &mut client, false).await {
        let closes = !request.head.keeps_alive() || !request.body.is_done();
        if client.put(worker, &text(worker, &request, closes)).await.is_err() || closes {
            return;
        }
    }
}

fn text(worker: &Worker, request: &Request, closes: bool) -> Vec<u8> {
    let close = if closes { "connection: close\r\n" } else { "" };
    let host_given = request.head.known(&request.bytes, Kind::Host).is_some();
    if request.path() != "/metrics" || !host_given {
        return format!("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n{close}\r\n").into_bytes();
    }
    let body = worker.metrics.render() + &worker.routes.render_load();
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\ncontent-length: {length}\r\n{close}\r\n{body}"
    )
    .into_bytes()
}
