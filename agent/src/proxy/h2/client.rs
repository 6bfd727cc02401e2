//! Engines that speak HTTP/2: one connection an engine and worker, shared by all requests.
use std::{
    cell::RefCell,
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use h2::{
    Reason,
    client::{self, ResponseFuture, SendRequest},
};
use http::{Request, Response, Uri};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    task::spawn_local,
};

use super::{
    super::{
        h1::{
            field::{Framing, HeadLimits, Kind},
            request::RequestHead,
        },
        io::Io,
    },
    inbound::{Inbound, put_fields},
    outbound::Outbound,
};

/// Bytes that an engine may send ahead on one stream, and on a connection.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 16 << 20;

/// Connections by engine index.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    engines: RefCell<Vec<Option<Shared>>>,
}

#[derive(Clone, Debug)]
struct Shared {
    address: SocketAddr,
    requests: SendRequest<Bytes>,
}

impl Connections {
    /// A stream of the connection that is there.
    pub(crate) fn stream(&self, engine: u16, address: SocketAddr) -> Option<Io> {
        let engines = self.engines.borrow();
        let shared = engines.get(usize::from(engine))?.as_ref().filter(|shared| shared.address == address)?;
        Some(Io::Other(Box::new(ClientStream::new(shared.requests.clone()))))
    }

    /// Begins HTTP/2 on a new connection, which takes the place of the one that was there, and returns a stream of it.
    pub(crate) async fn begin(&self, engine: u16, address: SocketAddr, io: Io) -> io::Result<Io> {
        let mut builder = client::Builder::new();
        builder
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .enable_push(false);
        let (requests, connection) = builder.handshake(io).await.map_err(io::Error::other)?;
        // Ends when its last stream and the handle kept here are gone, or the engine closes it.
        spawn_local(async move { drop(connection.await) });
        let mut engines = self.engines.borrow_mut();
        let at = usize::from(engine);
        if engines.len() <= at {
            engines.resize_with(at + 1, || None);
        }
        engines[at] = Some(Shared { address, requests: requests.clone() });
        Ok(Io::Other(Box::new(ClientStream::new(requests))))
    }

    /// Forgets all.
    pub(crate) fn clear(&self) {
        self.engines.borrow_mut().clear();
    }
}

/// One stream: takes a request of HTTP/1.1, reads as its answer in the same form.
#[derive(Debug)]
struct ClientStream {
    requests: SendRequest<Bytes>,
    held: Vec<u8>,
    request: Option<Outbound>,
    answer: Answer,
}

#[derive(Debug)]
enum Answer {
    /// The request's head is not complete yet.
    NotAsked,
    Waiting {
        future: ResponseFuture,
        to_head: bool,
    },
    Body(Inbound),
}

impl ClientStream {
    fn new(requests: SendRequest<Bytes>) -> Self {
        Self { requests, held: Vec::new(), request: None, answer: Answer::NotAsked }
    }

    /// Takes bytes of the request's head.
    fn poll_head(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.requests.poll_ready(cx)).map_err(io::Error::other)?;
        let before = self.held.len();
        self.held.extend_from_slice(bytes);
        // The door checked it against its limits.
        let limits = HeadLimits { bytes: usize::MAX, fields: usize::MAX };
        let Some(head) = RequestHead::parse(&self.held, limits).map_err(io::Error::other)? else {
            return Poll::Ready(Ok(bytes.len()));
        };
        let taken = head.length - before;
        let framing = head.framing();
        let to_head = head.method.of(&self.held) == b"HEAD";
        let request = request_of(&self.held, &head)?;
        let sent = self.requests.send_request(request, framing == Framing::None);
        let (future, stream) = sent.map_err(io::Error::other)?;
        let ends = framing == Framing::None;
        self.request = Some(if ends { Outbound::ended(stream) } else { Outbound::new(stream, framing) });
        self.answer = Answer::Waiting { future, to_head };
        self.held = Vec::new();
        Poll::Ready(Ok(taken))
    }
}

fn request_of(bytes: &[u8], head: &RequestHead) -> io::Result<Request<()>> {
    let host =
        head.known(bytes, Kind::Host).and_then(|host| std::str::from_utf8(host).ok()).unwrap_or("engine");
    let target = std::str::from_utf8(head.target.of(bytes)).map_err(io::Error::other)?;
    let uri = Uri::builder()
        .scheme("http")
        .authority(host)
        .path_and_query(target)
        .build()
        .map_err(io::Error::other)?;
    let mut request =
        Request::builder().method(head.method.of(bytes)).uri(uri).version(http::Version::HTTP_2);
    for field in &head.fields.list {
        if !matches!(field.kind, Kind::Hop | Kind::Connection | Kind::TransferEncoding | Kind::Host) {
            request = request.header(field.name.of(bytes), field.value.of(bytes));
        }
    }
    request.body(()).map_err(io::Error::other)
}

/// The answer's head in HTTP/1.1.
fn response_head(response: &Response<h2::RecvStream>, chunked: bool) -> Vec<u8> {
    let status = response.status();
    let reason = status.canonical_reason().unwrap_or_default();
    let mut head = format!("HTTP/1.1 {} {reason}\r\n", status.as_u16()).into_bytes();
    if chunked {
        head.extend_from_slice(b"transfer-encoding: chunked\r\n");
    }
    put_fields(&mut head, response.headers());
    head.extend_from_slice(b"\r\n");
    head
}

impl AsyncRead for ClientStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            match &mut this.answer {
                Answer::NotAsked => return Poll::Pending,
                Answer::Waiting { future, to_head } => {
                    let response = ready!(Pin::new(future).poll(cx)).map_err(io::Error::other)?;
                    let ends = response.body().is_end_stream() || *to_head;
                    let chunked = !ends && !response.headers().contains_key(http::header::CONTENT_LENGTH);
                    let mut head = response_head(&response, chunked);
                    if ends && !*to_head && !response.headers().contains_key(http::header::CONTENT_LENGTH) {
                        // Without a length, HTTP/1.1 would wait for the end of the connection.
                        head.truncate(head.len() - 2);
                        head.extend_from_slice(b"content-length: 0\r\n\r\n");
                    }
                    let body = Some(response.into_body()).filter(|_| !ends);
                    this.answer = Answer::Body(Inbound::new(head, body, chunked));
                }
                Answer::Body(answer) => return answer.poll_read(cx, buffer),
            }
        }
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        match &mut this.request {
            None => this.poll_head(cx, bytes),
            Some(request) => request.poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().request {
            None => Poll::Ready(Ok(())),
            Some(request) => request.poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

impl Drop for ClientStream {
    /// A client that left must not keep the engine busy.
    fn drop(&mut self) {
        let answered = matches!(&self.answer, Answer::Body(answer) if answer.is_done());
        if let (false, Some(request)) = (answered, &mut self.request) {
            request.reset(Reason::CANCEL);
        }
    }
}
