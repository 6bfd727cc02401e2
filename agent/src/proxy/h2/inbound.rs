//! Frames of a message as bytes of HTTP/1.1.
use std::{
    io,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use h2::RecvStream;
use http::HeaderMap;
use tokio::io::ReadBuf;

use super::super::h1::compose;

/// A message's head, then its body: in chunks where no length was announced.
#[derive(Debug)]
pub(super) struct Inbound {
    /// Bytes that wait to be read: the head, or what frames a piece of data.
    ready: Vec<u8>,
    at: usize,
    body: Option<RecvStream>,
    data: Bytes,
    chunked: bool,
}

impl Inbound {
    /// `body` is `None` for a message that ended with its head.
    pub(super) fn new(head: Vec<u8>, body: Option<RecvStream>, chunked: bool) -> Self {
        Self { ready: head, at: 0, body, data: Bytes::new(), chunked }
    }

    /// Whether everything was read.
    pub(super) fn is_done(&self) -> bool {
        self.body.is_none() && self.at == self.ready.len() && self.data.is_empty()
    }

    /// Reads on. Nothing is put into `buffer` at the end of the message.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if self.at < self.ready.len() {
                let taken = (self.ready.len() - self.at).min(buffer.remaining());
                buffer.put_slice(&self.ready[self.at..self.at + taken]);
                self.at += taken;
                return Poll::Ready(Ok(()));
            }
            (self.ready, self.at) = (Vec::new(), 0);
            if !self.data.is_empty() {
                let taken = self.data.len().min(buffer.remaining());
                buffer.put_slice(&self.data[..taken]);
                self.data.advance(taken);
                if self.data.is_empty() && self.chunked {
                    self.ready.extend_from_slice(b"\r\n");
                }
                return Poll::Ready(Ok(()));
            }
            let Some(body) = &mut self.body else { return Poll::Ready(Ok(())) };
            match ready!(body.poll_data(cx)) {
                Some(data) => {
                    let data = data.map_err(io::Error::other)?;
                    // Read at once or soon: one piece is held at most.
                    body.flow_control().release_capacity(data.len()).map_err(io::Error::other)?;
                    if self.chunked && !data.is_empty() {
                        self.ready = format!("{:x}\r\n", data.len()).into_bytes();
                    }
                    self.data = data;
                }
                None => {
                    let trailers = ready!(body.poll_trailers(cx)).map_err(io::Error::other)?;
                    self.body = None;
                    if self.chunked {
                        self.ready.extend_from_slice(b"0\r\n");
                        put_fields(&mut self.ready, &trailers.unwrap_or_default());
                        self.ready.extend_from_slice(b"\r\n");
                    }
                }
            }
        }
    }
}

/// Writes fields, each on a line of its own.
pub(super) fn put_fields(out: &mut Vec<u8>, fields: &HeaderMap) {
    for (name, value) in fields {
        compose::added(out, name.as_str(), value.as_bytes());
    }
}
