//! Clients that speak HTTP/2.
use std::{
    cell::Cell,
    future::poll_fn,
    io,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use h2::{
    Reason, RecvStream,
    server::{self, SendResponse},
};
use http::{Request, Response, request::Parts};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    task::spawn_local,
    time::timeout,
};

use super::{
    super::{
        connection::{self, Counted},
        h1::{field::Framing, response::ResponseHead},
        io::Io,
        worker::Worker,
    },
    inbound::{Inbound, put_fields},
    outbound::Outbound,
};

/// Bytes that a client may send ahead on one stream, and on a connection.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 4 << 20;

/// Serves the streams of a connection until either side has had enough.
pub(crate) async fn serve<T: AsyncRead + AsyncWrite + Unpin>(worker: &Rc<Worker>, io: T) {
    let limits = &worker.config.limits;
    let mut builder = server::Builder::new();
    builder
        .max_concurrent_streams(limits.http2_streams)
        .max_header_list_size(u32::try_from(limits.head.bytes).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(limits.http2_resets)
        .max_local_error_reset_streams(Some(limits.http2_resets))
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    let Ok(Ok(mut streams)) = timeout(limits.head_timeout, builder.handshake::<T, Bytes>(io)).await else {
        return;
    };
    let deadline = worker.deadlines.register();
    let open = Rc::new(Cell::new(0));
    let mut closing = false;
    loop {
        deadline.set_idle(!closing);
        worker.deadlines.set(&deadline, limits.idle_timeout);
        let accepted = poll_fn(|cx| match streams.poll_accept(cx) {
            Poll::Pending if !closing && deadline.has_passed(cx) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
            Poll::Ready(accepted) => Poll::Ready(Some(accepted)),
        })
        .await;
        match accepted {
            None if Rc::strong_count(&open) > 1 && !worker.draining.get() => {}
            // Idle too long, or the door closes: what is under way still ends.
            None => {
                streams.graceful_shutdown();
                closing = true;
            }
            Some(Some(Ok(_))) if open.get() > limits.http2_resets => {
                worker.shard().refused("http2_resets");
                streams.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
                closing = true;
            }
            Some(Some(Ok((request, respond)))) => {
                let Some(counted) = Counted::new(worker) else { continue };
                let worker = Rc::clone(worker);
                let io = Io::Other(Box::new(ServerStream::new(request, respond, Rc::clone(&open))));
                spawn_local(async move {
                    connection::serve_http1(&worker, io, false).await;
                    drop(counted);
                });
            }
            Some(Some(Err(_)) | None) => return,
        }
    }
}

/// One stream: reads as a request of HTTP/1.1, takes its answer in the same form.
#[derive(Debug)]
struct ServerStream {
    request: Inbound,
    to_head: bool,
    state: State,
    /// Of the connection: streams that ended without an answer, less those with one.
    unanswered: Rc<Cell<usize>>,
}

#[derive(Debug)]
enum State {
    /// The answer's head is not complete yet.
    Head {
        respond: SendResponse<Bytes>,
        held: Vec<u8>,
    },
    Body(Outbound),
}

impl ServerStream {
    fn new(request: Request<RecvStream>, respond: SendResponse<Bytes>, unanswered: Rc<Cell<usize>>) -> Self {
        let (parts, body) = request.into_parts();
        let ends = body.is_end_stream();
        let chunked = !ends && !parts.headers.contains_key(http::header::CONTENT_LENGTH);
        let to_head = parts.method == http::Method::HEAD;
        let head = request_head(&parts, chunked);
        let request = Inbound::new(head, Some(body).filter(|_| !ends), chunked);
        Self { request, to_head, state: State::Head { respond, held: Vec::new() }, unanswered }
    }

    fn is_answered(&self) -> bool {
        matches!(&self.state, State::Body(answer) if answer.is_ended())
    }

    /// Takes bytes of the answer's head; `None` when they were all part of it.
    fn take_head(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        let State::Head { respond, held } = &mut self.state else { return Ok(Some(0)) };
        let before = held.len();
        held.extend_from_slice(bytes);
        // The relay checked it against the limits; here it is its own.
        let limits = super::super::h1::field::HeadLimits { bytes: usize::MAX, fields: usize::MAX };
        let Some(head) = ResponseHead::parse(held, limits).map_err(io::Error::other)? else {
            return Ok(None);
        };
        let taken = head.length - before;
        if head.is_interim() {
            held.clear();
            return Ok(Some(taken));
        }
        let framing = head.framing(self.to_head);
        let mut answer = Response::builder().status(head.status);
        for field in head.end_to_end() {
            answer = answer.header(field.name.of(held), field.value.of(held));
        }
        let answer = answer.body(()).map_err(io::Error::other)?;
        let ends = framing == Framing::None;
        let stream = respond.send_response(answer, ends).map_err(io::Error::other)?;
        self.state = State::Body(if ends { Outbound::ended(stream) } else { Outbound::new(stream, framing) });
        Ok(Some(taken))
    }
}

/// The request's head in HTTP/1.1. What must not stand there is left for the parser to refuse.
fn request_head(parts: &Parts, chunked: bool) -> Vec<u8> {
    let target = parts.uri.path_and_query().map_or("*", |target| target.as_str());
    let mut head = format!("{} {target} HTTP/1.1\r\n", parts.method).into_bytes();
    if let Some(authority) = parts.uri.authority() {
        super::super::h1::compose::added(&mut head, "host", authority.as_str());
    }
    if chunked {
        head.extend_from_slice(b"transfer-encoding: chunked\r\n");
    }
    put_fields(&mut head, &parts.headers);
    head.extend_from_slice(b"\r\n");
    head
}

impl AsyncRead for ServerStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.is_answered() {
            return Poll::Ready(Ok(()));
        }
        if !this.request.is_done() {
            let before = buffer.filled().len();
            ready!(this.request.poll_read(cx, buffer))?;
            if buffer.filled().len() > before {
                return Poll::Ready(Ok(()));
            }
        }
        // The request is read: what may still come is that the client gives up.
        let gone = match &mut this.state {
            State::Head { respond, .. } => respond.poll_reset(cx).is_ready(),
            State::Body(answer) => answer.poll_reset(cx),
        };
        if gone { Poll::Ready(Ok(())) } else { Poll::Pending }
    }
}

impl AsyncWrite for ServerStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        match &mut this.state {
            State::Head { .. } => Poll::Ready(Ok(this.take_head(bytes)?.unwrap_or(bytes.len()))),
            State::Body(answer) => answer.poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().state {
            State::Head { .. } => Poll::Ready(Ok(())),
            State::Body(answer) => answer.poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

impl Drop for ServerStream {
    /// An answer that did not reach its end must not look like one that did.
    fn drop(&mut self) {
        match &mut self.state {
            State::Head { respond, .. } => {
                self.unanswered.set(self.unanswered.get() + 1);
                respond.send_reset(Reason::INTERNAL_ERROR);
            }
            State::Body(answer) => {
                self.unanswered.set(self.unanswered.get().saturating_sub(1));
                if !answer.is_ended() {
                    answer.reset(Reason::INTERNAL_ERROR);
                }
            }
        }
    }
}
