//! A client's connection: what was read from it and not yet used, and its deadline.
use std::{
    future::poll_fn,
    io,
    rc::Rc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::io::AsyncWriteExt;

use super::{deadline::Deadline, io::Io, worker::Worker};

/// After a refusal, bytes of an unread body that are read so that the answer is not lost to a reset.
const LINGER_BYTES: usize = 1 << 20;
const LINGER: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) io: Io,
    /// Read, and not yet part of a request.
    pub(crate) carry: Vec<u8>,
    pub(crate) deadline: Rc<Deadline>,
}

/// Why nothing more came.
#[derive(Debug)]
pub(crate) enum ReadEnd {
    Closed,
    TimedOut,
}

impl Client {
    pub(crate) fn new(io: Io, worker: &Worker) -> Self {
        Self { io, carry: Vec::new(), deadline: worker.deadlines.register() }
    }

    /// Reads once, to the end of `into`.
    pub(crate) async fn fill(&mut self, worker: &Worker, into: &mut Vec<u8>) -> Result<usize, ReadEnd> {
        poll_fn(|cx| self.poll_fill(cx, worker, into)).await
    }

    fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        worker: &Worker,
        into: &mut Vec<u8>,
    ) -> Poll<Result<usize, ReadEnd>> {
        if self.deadline.has_passed(cx) {
            return Poll::Ready(Err(ReadEnd::TimedOut));
        }
        let mut scratch = worker.scratch.borrow_mut();
        match ready!(self.io.poll_fill(cx, &mut scratch)) {
            Ok(0) | Err(_) => Poll::Ready(Err(ReadEnd::Closed)),
            Ok(count) => {
                into.extend_from_slice(&scratch[..count]);
                Poll::Ready(Ok(count))
            }
        }
    }

    /// Looks whether the client is still there while it waits for its answer. Bytes of its next request are kept, up
    /// to a head's size.
    pub(crate) fn poll_gone(&mut self, cx: &mut Context<'_>, worker: &Worker) -> bool {
        while self.carry.len() < worker.config.limits.head.bytes {
            let mut scratch = worker.scratch.borrow_mut();
            match self.io.poll_fill(cx, &mut scratch) {
                Poll::Pending => return false,
                Poll::Ready(Ok(0) | Err(_)) => return true,
                Poll::Ready(Ok(count)) => self.carry.extend_from_slice(&scratch[..count]),
            }
        }
        false
    }

    /// Writes all, within the write timeout.
    pub(crate) async fn put(&mut self, worker: &Worker, bytes: &[u8]) -> io::Result<()> {
        worker.deadlines.set(&self.deadline, worker.config.limits.write_timeout);
        let mut written = 0;
        poll_fn(|cx| {
            while written < bytes.len() {
                if self.deadline.has_passed(cx) {
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
                match ready!(self.io.poll_put(cx, &bytes[written..]))? {
                    0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    count => written += count,
                }
            }
            std::pin::Pin::new(&mut self.io as &mut (dyn tokio::io::AsyncWrite + Unpin)).poll_flush(cx)
        })
        .await
    }

    /// Ends the connection after an answer: what the client still sends is read and thrown away for a while, since
    /// closing on unread bytes would reset the connection and could take the answer with it.
    pub(crate) async fn linger(mut self, worker: &Worker) {
        worker.deadlines.set(&self.deadline, LINGER);
        if self.io.shutdown().await.is_err() {
            return;
        }
        let mut seen = 0;
        let mut thrown = Vec::new();
        while let Ok(count) = self.fill(worker, &mut thrown).await {
            thrown.clear();
            seen += count;
            if seen > LINGER_BYTES {
                return;
            }
        }
    }
}
