//! Bytes of an HTTP/1.1 body as frames, no more of them held than the other side lets through.
use std::{
    io,
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use h2::{Reason, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::super::h1::{
    body::{BodyReader, Part},
    field::Framing,
};

/// A message's body on its way out.
#[derive(Debug)]
pub(super) struct Outbound {
    stream: SendStream<Bytes>,
    body: BodyReader,
    /// Data that waits for the other side's window.
    queue: BytesMut,
    trailers: Vec<u8>,
    ended: bool,
}

impl Outbound {
    pub(super) fn new(stream: SendStream<Bytes>, framing: Framing) -> Self {
        Self {
            stream,
            body: BodyReader::new(framing),
            queue: BytesMut::new(),
            trailers: Vec::new(),
            ended: false,
        }
    }

    /// A message without a body: the end went with the head.
    pub(super) fn ended(stream: SendStream<Bytes>) -> Self {
        Self { ended: true, ..Self::new(stream, Framing::None) }
    }

    /// Whether the end of the stream was sent.
    pub(super) fn is_ended(&self) -> bool {
        self.ended
    }

    /// Takes bytes of the body, as soon as earlier ones are on their way; returns how many.
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.poll_flush(cx)?.is_pending() {
            return Poll::Pending;
        }
        let Self { queue, trailers, body, .. } = self;
        let taken = body.advance(bytes, |part| match part {
            Part::Data(data) => queue.extend_from_slice(data),
            Part::Trailer(line) => trailers.extend_from_slice(line),
        });
        let taken = taken.map_err(io::Error::other)?;
        // What does not go at once goes with the next write or flush.
        let _sent: Poll<()> = self.poll_flush(cx)?;
        Poll::Ready(Ok(taken))
    }

    /// Sends what waits.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.queue.is_empty() {
            self.stream.reserve_capacity(self.queue.len());
            let granted = match self.stream.capacity() {
                0 => match self.stream.poll_capacity(cx) {
                    Poll::Ready(Some(granted)) => granted.map_err(io::Error::other)?,
                    Poll::Ready(None) => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
                    Poll::Pending => return Poll::Pending,
                },
                granted => granted,
            };
            let piece = self.queue.split_to(granted.min(self.queue.len())).freeze();
            if !piece.is_empty() {
                self.stream.send_data(piece, false).map_err(io::Error::other)?;
            }
        }
        if self.body.is_done() && !self.ended {
            self.ended = true;
            let trailers = parsed(&self.trailers);
            let ended = if trailers.is_empty() {
                self.stream.send_data(Bytes::new(), true)
            } else {
                self.stream.send_trailers(trailers)
            };
            ended.map_err(io::Error::other)?;
        }
        Poll::Ready(Ok(()))
    }

    /// Whether the other side gave the stream up.
    pub(super) fn poll_reset(&mut self, cx: &mut Context<'_>) -> bool {
        self.stream.poll_reset(cx).is_ready()
    }

    pub(super) fn reset(&mut self, reason: Reason) {
        self.stream.send_reset(reason);
    }
}

/// Trailer lines as fields; a line that is not one is left out.
fn parsed(lines: &[u8]) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for line in lines.split(|byte| *byte == b'\n') {
        let mut parts = line.trim_ascii_end().splitn(2, |byte| *byte == b':');
        let (Some(name), Some(value)) = (parts.next(), parts.next()) else { continue };
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name), HeaderValue::from_bytes(value.trim_ascii_start()))
        {
            fields.append(name, value);
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailer_lines_become_fields() {
        let fields = parsed(b"x-sum: 1\r\nX-Sum:2\r\nnot a field\r\n");

        let values: Vec<_> = fields.get_all("x-sum").iter().collect();
        assert_eq!(values, ["1", "2"]);
        assert_eq!(fields.len(), 2);
    }
}
