//! Passes an engine's answer to the client as it arrives.
//!
//! A piece is read into the worker's one buffer, followed, and written at once; only what the client's socket does
//! not take is kept. A stream between two pieces holds no buffer.
use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::{io::AsyncWrite, time::Instant};

use super::{
    client::Client,
    error::error_json,
    h1::{
        body::{BodyReader, ChunkRest, Part},
        compose,
        field::{Framing, HeadError, Kind},
        response::ResponseHead,
    },
    io::Io,
    metrics::SeriesKey,
    route::Route,
    usage::{self, Usage},
    worker::Worker,
};

/// What the relay knows of the request.
#[derive(Debug)]
pub(crate) struct Task<'a> {
    pub(crate) route: &'a Route,
    pub(crate) key: SeriesKey,
    pub(crate) request_id: &'a str,
    /// What `x-penstock-decision` says, where it was asked for.
    pub(crate) decision: Option<&'a str>,
    pub(crate) received: Instant,
    pub(crate) sent: Instant,
    /// The request was `HEAD`.
    pub(crate) to_head: bool,
    /// The client does not know chunks.
    pub(crate) http10: bool,
    /// The client's connection ends after the answer.
    pub(crate) close: bool,
    pub(crate) wants_response_id: bool,
}

/// What was seen of the answer.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) status: u16,
    pub(crate) first_byte: Option<Instant>,
    last_event: Option<Instant>,
    pub(crate) usage: Usage,
    pub(crate) response_id: Option<String>,
    /// The engine sent anything at all.
    pub(crate) answered: bool,
    /// The client was sent anything of the answer.
    pub(crate) begun: bool,
    pub(crate) close: bool,
    engine_keeps: bool,
}

/// Why an answer did not reach its end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RelayError {
    ClientGone,
    /// The client does not read.
    ClientStalled,
    /// The engine's connection ended.
    EngineClosed,
    /// Nothing came from the engine for too long.
    EngineSlow,
    Garbage(HeadError),
    /// A chunk of the engine's is malformed.
    GarbageBody,
}

impl RelayError {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::ClientGone => "client_gone",
            Self::ClientStalled => "client_stalled",
            Self::EngineClosed => "engine_closed",
            Self::EngineSlow => "engine_timeout",
            Self::Garbage(_) | Self::GarbageBody => "engine_garbage",
        }
    }
}

/// How the engine's bytes become the client's.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mode {
    /// As they are.
    Verbatim,
    /// Data that ends with the connection: in chunks, so that the client sees a clean end.
    IntoChunks,
    /// Out of chunks, for a client that does not know them.
    OutOfChunks,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    Head,
    Body,
    /// Everything is read; the rest is written.
    Ended(Result<(), RelayError>),
}

pub(crate) struct Relay<'a> {
    worker: &'a Worker,
    client: &'a mut Client,
    engine: &'a mut Io,
    task: &'a Task<'a>,
    pub(crate) seen: Seen,
    phase: Phase,
    /// A head that is not complete.
    head: Vec<u8>,
    body: BodyReader,
    mode: Mode,
    is_stream: bool,
    counts: bool,
    /// Bytes for the client that its socket has not taken.
    pending: Vec<u8>,
    written: usize,
    /// A head waits for the first byte of its body: until then, another engine may still answer.
    held: bool,
    blocked: bool,
}

impl<'a> Relay<'a> {
    /// `early` are bytes of the answer that were already read.
    pub(crate) fn new(
        worker: &'a Worker,
        client: &'a mut Client,
        engine: &'a mut Io,
        task: &'a Task<'a>,
        early: &[u8],
    ) -> Self {
        worker.deadlines.set(&client.deadline, worker.config.upstream.response_timeout);
        let mut relay = Self {
            worker,
            client,
            engine,
            task,
            seen: Seen::default(),
            phase: Phase::Head,
            head: Vec::new(),
            body: BodyReader::new(Framing::None),
            mode: Mode::Verbatim,
            is_stream: false,
            counts: false,
            pending: Vec::new(),
            written: 0,
            held: false,
            blocked: false,
        };
        if !early.is_empty() {
            relay.take(None, early);
        }
        relay
    }

    /// Whether the engine's connection can carry another request.
    pub(crate) fn engine_reusable(&self) -> bool {
        self.phase == Phase::Ended(Ok(())) && self.seen.engine_keeps
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RelayError>> {
        loop {
            if !self.held {
                ready!(self.poll_flush(cx))?;
                if let Phase::Ended(outcome) = self.phase {
                    return Poll::Ready(outcome);
                }
            }
            if self.client.poll_gone(cx, self.worker) {
                return Poll::Ready(Err(RelayError::ClientGone));
            }
            if self.client.deadline.has_passed(cx) {
                self.end(RelayError::EngineSlow)?;
                continue;
            }
            ready!(self.poll_read(cx))?;
        }
    }

    /// Writes what is pending.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RelayError>> {
        while self.written < self.pending.len() {
            match self.client.io.poll_put(cx, &self.pending[self.written..]) {
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Err(RelayError::ClientGone)),
                Poll::Ready(Ok(count)) => self.written += count,
                Poll::Pending => return self.poll_stalled(cx),
            }
            self.seen.begun = true;
            self.unblock();
        }
        if !self.pending.is_empty() {
            self.pending = Vec::new();
            self.written = 0;
        }
        match Pin::new(&mut self.client.io).poll_flush(cx) {
            Poll::Ready(Ok(())) => {
                self.unblock();
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(_)) => Poll::Ready(Err(RelayError::ClientGone)),
            Poll::Pending => self.poll_stalled(cx),
        }
    }

    /// The client takes bytes again: the engine's time counts.
    fn unblock(&mut self) {
        if std::mem::take(&mut self.blocked) {
            self.worker.deadlines.set(&self.client.deadline, self.worker.config.upstream.stream_timeout);
        }
    }

    /// The client takes no bytes: from now on its time counts.
    fn poll_stalled(&mut self, cx: &Context<'_>) -> Poll<Result<(), RelayError>> {
        if !std::mem::replace(&mut self.blocked, true) {
            self.worker.deadlines.set(&self.client.deadline, self.worker.config.limits.write_timeout);
        }
        if self.client.deadline.has_passed(cx) {
            return Poll::Ready(Err(RelayError::ClientStalled));
        }
        Poll::Pending
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RelayError>> {
        let worker = self.worker;
        let mut scratch = worker.scratch.borrow_mut();
        match ready!(self.engine.poll_fill(cx, &mut scratch)) {
            Ok(count) if count > 0 => {
                worker.deadlines.set(&self.client.deadline, worker.config.upstream.stream_timeout);
                self.take(Some(cx), &scratch[..count]);
                match self.phase {
                    Phase::Ended(Err(error)) if !self.seen.begun && self.pending.is_empty() => {
                        Poll::Ready(Err(error))
                    }
                    _ => Poll::Ready(Ok(())),
                }
            }
            _ => Poll::Ready(self.engine_ended()),
        }
    }

    fn engine_ended(&mut self) -> Result<(), RelayError> {
        if self.phase == Phase::Body && self.body.ends_with_connection() {
            if self.mode == Mode::IntoChunks {
                self.pending.extend_from_slice(b"0\r\n\r\n");
            }
            self.held = false;
            self.phase = Phase::Ended(Ok(()));
            return Ok(());
        }
        self.end(RelayError::EngineClosed)
    }

    /// Ends the answer before its time. Before the client saw anything of it that is all; later, a stream is told by
    /// an event of its own and is left without an end.
    fn end(&mut self, error: RelayError) -> Result<(), RelayError> {
        if !self.seen.begun && (self.held || self.pending.is_empty()) {
            return Err(error);
        }
        if self.is_stream {
            let message = format!("the engine's stream ended early: {}", error.label());
            let event =
                format!("\n\nevent: error\ndata: {}\n\n", error_json(&message, "api_error", error.label()));
            self.put_in_place_of_the_rest(event.as_bytes());
        }
        self.phase = Phase::Ended(Err(error));
        Ok(())
    }

    fn put_in_place_of_the_rest(&mut self, event: &[u8]) {
        let out = &mut self.pending;
        if self.mode == Mode::OutOfChunks {
            out.extend_from_slice(event);
            return;
        }
        if self.mode == Mode::IntoChunks {
            compose::chunk(out, event);
            return;
        }
        match self.body.chunk_rest() {
            ChunkRest::AtBoundary => compose::chunk(out, event),
            ChunkRest::AtDataEnd => {
                out.extend_from_slice(b"\r\n");
                compose::chunk(out, event);
            }
            ChunkRest::InData(left) => {
                let fits = usize::try_from(left).unwrap_or(usize::MAX).min(event.len());
                out.extend_from_slice(&event[..fits]);
                if fits < event.len() {
                    out.extend_from_slice(b"\r\n");
                    compose::chunk(out, &event[fits..]);
                }
            }
            ChunkRest::Elsewhere => {}
        }
    }

    /// Takes bytes of the engine's. With `cx` and nothing pending, they are written at once.
    fn take(&mut self, cx: Option<&mut Context<'_>>, piece: &[u8]) {
        self.seen.answered = true;
        if self.phase == Phase::Body {
            self.take_body(cx, piece);
            return;
        }
        let joined;
        let mut bytes = piece;
        if !self.head.is_empty() {
            self.head.extend_from_slice(piece);
            joined = std::mem::take(&mut self.head);
            bytes = &joined;
        }
        loop {
            let limits = self.worker.config.limits.head;
            match ResponseHead::parse(bytes, limits) {
                Err(error) => self.phase = Phase::Ended(Err(RelayError::Garbage(error))),
                Ok(None) => self.head = bytes.to_vec(),
                // Nothing asked for another protocol, so no other bytes may follow.
                Ok(Some(head)) if head.status == 101 => {
                    self.phase = Phase::Ended(Err(RelayError::Garbage(HeadError::FirstLine)));
                }
                Ok(Some(head)) if head.is_interim() => {
                    // The client's own expectation was answered before.
                    if head.status != 100 && !self.task.http10 {
                        compose::interim(&mut self.pending, bytes, &head);
                    }
                    bytes = &bytes[head.length..];
                    if !bytes.is_empty() {
                        continue;
                    }
                }
                Ok(Some(head)) => {
                    let length = head.length;
                    self.begin_body(bytes, &head);
                    self.take_body(None, &bytes[length..]);
                }
            }
            return;
        }
    }

    fn begin_body(&mut self, bytes: &[u8], head: &ResponseHead) {
        let framing = head.framing(self.task.to_head);
        let is_event_stream = |value: &[u8]| value.starts_with(b"text/event-stream");
        self.is_stream = head.known(bytes, Kind::ContentType).is_some_and(is_event_stream);
        self.counts = head.known(bytes, Kind::ContentEncoding).is_none();
        self.mode = match framing {
            Framing::Chunked if self.task.http10 => Mode::OutOfChunks,
            Framing::UntilClose if !self.task.http10 => Mode::IntoChunks,
            _ => Mode::Verbatim,
        };
        let outward = match (framing, self.mode) {
            (_, Mode::IntoChunks) => Framing::Chunked,
            (_, Mode::OutOfChunks) => Framing::UntilClose,
            (framing, Mode::Verbatim) => framing,
        };
        self.seen.status = head.status;
        self.seen.engine_keeps = head.keeps_alive() && framing != Framing::UntilClose;
        self.seen.close = self.task.close || self.worker.draining.get() || outward == Framing::UntilClose;
        self.body = BodyReader::new(framing);
        self.phase = if self.body.is_done() { Phase::Ended(Ok(())) } else { Phase::Body };
        self.held = !self.body.is_done();
        let now = Instant::now();
        let millis = |from: Instant, to: Instant| to.duration_since(from).as_secs_f64() * 1e3;
        let timing = format!(
            "penstock;dur={:.3}, engine;dur={:.3}",
            millis(self.task.received, self.task.sent),
            millis(self.task.sent, now)
        );
        let additions = compose::ResponseAdditions {
            request_id: self.task.request_id,
            server_timing: &timing,
            decision: self.task.decision,
            close: self.seen.close,
            framing: outward,
        };
        self.pending.reserve(head.length + 256);
        compose::response(&mut self.pending, bytes, head, additions);
    }

    fn take_body(&mut self, cx: Option<&mut Context<'_>>, piece: &[u8]) {
        if piece.is_empty() || self.phase != Phase::Body {
            // Bytes after the end are nobody's.
            self.seen.engine_keeps &= piece.is_empty();
            return;
        }
        self.held = false;
        let (mut events, mut has_data) = (0, false);
        let Self { body, seen, pending, mode, is_stream, counts, task, .. } = self;
        let taken = body.advance(piece, |part| {
            let Part::Data(data) = part else { return };
            has_data = true;
            if *counts {
                events += seen.usage.see(data, *is_stream);
            }
            if task.wants_response_id && seen.response_id.is_none() {
                seen.response_id = usage::response_id(data).map(str::to_owned);
            }
            match mode {
                Mode::Verbatim => {}
                Mode::IntoChunks => compose::chunk(pending, data),
                Mode::OutOfChunks => pending.extend_from_slice(data),
            }
        });
        if has_data {
            self.clock(events);
        }
        let Ok(taken) = taken else {
            // What is wrong with the body may be anywhere in this piece: none of it is passed on.
            if self.end(RelayError::GarbageBody).is_err() {
                self.phase = Phase::Ended(Err(RelayError::GarbageBody));
            }
            return;
        };
        if self.body.is_done() {
            self.phase = Phase::Ended(Ok(()));
            self.seen.engine_keeps &= taken == piece.len();
        }
        if self.mode == Mode::Verbatim {
            self.pass(cx, &piece[..taken]);
        }
    }

    fn pass(&mut self, cx: Option<&mut Context<'_>>, bytes: &[u8]) {
        let direct = cx.filter(|_| self.pending.is_empty());
        let written = match direct.map(|cx| self.client.io.poll_put(cx, bytes)) {
            Some(Poll::Ready(Ok(count))) => {
                self.seen.begun = true;
                count
            }
            // An error shows again when the rest is written.
            _ => 0,
        };
        self.pending.extend_from_slice(&bytes[written..]);
    }

    /// Takes the time of data, and of the events that start in it.
    fn clock(&mut self, events: u64) {
        let first = self.seen.first_byte.is_none();
        if !first && events == 0 {
            return;
        }
        let now = Instant::now();
        if first {
            self.seen.first_byte = Some(now);
            self.worker.budget.borrow_mut().success();
        }
        if events > 0 {
            if let Some(last) = self.seen.last_event {
                let gap = now.duration_since(last);
                self.worker.shard().gap(&self.task.route.engine, self.task.key, gap, events);
            }
            self.seen.last_event = Some(now);
        }
    }
}
