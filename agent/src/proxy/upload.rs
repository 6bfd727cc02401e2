//! Sends a request to an engine: the head and what is buffered of the body, then the rest as the client sends it.
use std::{
    future::poll_fn,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::AsyncWrite;

use super::{client::Client, h1::body::BodyReader, io::Io, worker::Worker};

/// How a request's way to the engine ended early.
#[derive(Debug)]
pub(crate) enum UploadEnd {
    /// The engine's connection broke, or does not take the request.
    Engine,
    /// The client is gone, or its body is malformed.
    Client,
    ClientSlow,
}

/// Writes head and body together.
pub(crate) async fn send(
    worker: &Worker,
    client: &Client,
    engine: &mut Io,
    head: &[u8],
    body: &[u8],
) -> Result<(), UploadEnd> {
    worker.deadlines.set(&client.deadline, worker.config.limits.write_timeout);
    let mut written = 0;
    poll_fn(|cx| {
        while written < head.len() + body.len() {
            if client.deadline.has_passed(cx) {
                return Poll::Ready(Err(UploadEnd::Engine));
            }
            let parts = [
                IoSlice::new(&head[written.min(head.len())..]),
                IoSlice::new(&body[written.saturating_sub(head.len())..]),
            ];
            match ready!(Pin::new(&mut *engine).poll_write_vectored(cx, &parts)) {
                Ok(0) | Err(_) => return Poll::Ready(Err(UploadEnd::Engine)),
                Ok(count) => written += count,
            }
        }
        Pin::new(&mut *engine).poll_flush(cx).map_err(|_broken| UploadEnd::Engine)
    })
    .await
}

/// Passes the rest of a body on, piece by piece, until it ends or the engine answers. An answer's first bytes are
/// returned; the body then stays unfinished.
pub(crate) async fn send_rest(
    worker: &Worker,
    client: &mut Client,
    engine: &mut Io,
    body: &mut BodyReader,
) -> Result<Vec<u8>, UploadEnd> {
    let mut rest = Rest { worker, client, engine, body, backlog: Vec::new() };
    worker.deadlines.set(&rest.client.deadline, worker.config.limits.body_timeout);
    poll_fn(|cx| rest.poll(cx)).await
}

struct Rest<'a> {
    worker: &'a Worker,
    client: &'a mut Client,
    engine: &'a mut Io,
    body: &'a mut BodyReader,
    /// Read, and not yet taken by the engine.
    backlog: Vec<u8>,
}

impl Rest<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Vec<u8>, UploadEnd>> {
        loop {
            if self.client.deadline.has_passed(cx) {
                return Poll::Ready(Err(UploadEnd::ClientSlow));
            }
            if let Poll::Ready(answer) = self.poll_answer(cx) {
                return Poll::Ready(answer);
            }
            while !self.backlog.is_empty() {
                match ready!(self.engine.poll_put(cx, &self.backlog)) {
                    Ok(0) | Err(_) => return Poll::Ready(Err(UploadEnd::Engine)),
                    Ok(count) => drop(self.backlog.drain(..count)),
                }
            }
            if self.body.is_done() {
                return Pin::new(&mut *self.engine).poll_flush(cx).map(
                    |flushed: io::Result<()>| match flushed {
                        Ok(()) => Ok(Vec::new()),
                        Err(_) => Err(UploadEnd::Engine),
                    },
                );
            }
            ready!(self.poll_piece(cx))?;
        }
    }

    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Result<Vec<u8>, UploadEnd>> {
        let mut scratch = self.worker.scratch.borrow_mut();
        match ready!(self.engine.poll_fill(cx, &mut scratch)) {
            Ok(0) | Err(_) => Poll::Ready(Err(UploadEnd::Engine)),
            Ok(count) => Poll::Ready(Ok(scratch[..count].to_vec())),
        }
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), UploadEnd>> {
        let mut scratch = self.worker.scratch.borrow_mut();
        let count = match ready!(self.client.io.poll_fill(cx, &mut scratch)) {
            Ok(0) | Err(_) => return Poll::Ready(Err(UploadEnd::Client)),
            Ok(count) => count,
        };
        self.worker.deadlines.set(&self.client.deadline, self.worker.config.limits.body_timeout);
        let taken = self.body.advance(&scratch[..count], |_| {}).map_err(|_broken| UploadEnd::Client)?;
        self.client.carry.extend_from_slice(&scratch[taken..count]);
        match self.engine.poll_put(cx, &scratch[..taken]) {
            Poll::Ready(Ok(written)) => self.backlog.extend_from_slice(&scratch[written..taken]),
            Poll::Ready(Err(_)) => return Poll::Ready(Err(UploadEnd::Engine)),
            Poll::Pending => self.backlog.extend_from_slice(&scratch[..taken]),
        }
        Poll::Ready(Ok(()))
    }
}
