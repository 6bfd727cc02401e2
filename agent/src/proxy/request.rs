//! Reads a request up to the point where an engine can be chosen.
use super::{
    client::{Client, ReadEnd},
    config::UnreadableBody,
    error::RequestError,
    h1::{
        body::{BodyReader, Part},
        field::Kind,
        request::{RequestHead, Version},
    },
    scan::{Findings, FormScanner, JsonScanner, ScanError, ScanLimits},
    worker::Worker,
};

/// A head, and the body as far as it was needed. The bytes stand as they came.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) bytes: Vec<u8>,
    pub(crate) head: RequestHead,
    /// What of the body is still to come.
    pub(crate) body: BodyReader,
    /// Bytes that were not kept went to an engine: the request cannot be sent again.
    pub(crate) streamed: bool,
    pub(crate) findings: Findings,
    /// Sent by the client, or made up.
    pub(crate) id: String,
    pub(crate) id_is_ours: bool,
}

/// What came on a connection.
#[derive(Debug)]
pub(crate) enum Read {
    Request(Box<Request>),
    /// The preface of HTTP/2.
    Http2,
    Closed,
}

const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Waits for the next request and reads it.
pub(crate) async fn read(worker: &Worker, client: &mut Client, http2: bool) -> Result<Read, RequestError> {
    let mut bytes = std::mem::take(&mut client.carry);
    let head = match read_head(worker, client, &mut bytes, http2).await? {
        Head::Request(head) => head,
        Head::Http2 => {
            client.carry = bytes;
            return Ok(Read::Http2);
        }
        Head::Closed => return Ok(Read::Closed),
    };
    let given = head.known(&bytes, Kind::RequestId).and_then(|id| std::str::from_utf8(id).ok());
    let id = given.map_or_else(|| format!("{:016x}", worker.random()), str::to_owned);
    let mut request = Request {
        body: BodyReader::new(head.framing()),
        streamed: false,
        findings: Findings::default(),
        id_is_ours: given.is_none(),
        id,
        bytes,
        head,
    };
    if request.read_body(worker, client).await? {
        Ok(Read::Request(Box::new(request)))
    } else {
        Ok(Read::Closed)
    }
}

enum Head {
    Request(RequestHead),
    Http2,
    Closed,
}

async fn read_head(
    worker: &Worker,
    client: &mut Client,
    bytes: &mut Vec<u8>,
    http2: bool,
) -> Result<Head, RequestError> {
    let limits = &worker.config.limits;
    let started = !bytes.is_empty();
    client.deadline.set_idle(!started);
    worker.deadlines.set(&client.deadline, if started { limits.head_timeout } else { limits.idle_timeout });
    if worker.draining.get() && !started {
        return Ok(Head::Closed);
    }
    loop {
        if http2 && bytes.starts_with(HTTP2_PREFACE) {
            return Ok(Head::Http2);
        }
        let may_be_http2 = http2 && HTTP2_PREFACE.starts_with(bytes);
        if !may_be_http2
            && let Some(head) = RequestHead::parse(bytes, limits.head).map_err(RequestError::Head)?
        {
            client.deadline.set_idle(false);
            return Ok(Head::Request(head));
        }
        let was_empty = bytes.is_empty();
        match client.fill(worker, bytes).await {
            Ok(_) if was_empty => {
                client.deadline.set_idle(false);
                worker.deadlines.set(&client.deadline, limits.head_timeout);
            }
            Ok(_) => {}
            Err(ReadEnd::TimedOut) if !bytes.is_empty() => return Err(RequestError::ClientSlow),
            Err(_) => return Ok(Head::Closed),
        }
    }
}

impl Request {
    pub(crate) fn method(&self) -> &[u8] {
        self.head.method.of(&self.bytes)
    }

    /// The target up to its query.
    pub(crate) fn path(&self) -> &str {
        let target = std::str::from_utf8(self.head.target.of(&self.bytes)).expect("targets are ASCII");
        target.split_once('?').map_or(target, |(path, _)| path)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.head.field(&self.bytes, name).and_then(|value| std::str::from_utf8(value).ok())
    }

    /// The body as it came so far.
    pub(crate) fn raw_body(&self) -> &[u8] {
        &self.bytes[self.head.length..]
    }

    /// Reads the body to its end or to the limit of the decision. `false`: the client is gone.
    async fn read_body(&mut self, worker: &Worker, client: &mut Client) -> Result<bool, RequestError> {
        let limits = &worker.config.limits;
        let mut scan = Scan::start(&self.head, &self.bytes, worker.config.scan, limits.decision_bytes);
        let mut taken = self.head.length;
        self.take(&mut scan, &mut taken)?;
        if !self.body.is_done() {
            self.greet(worker, client).await?;
            let known = self.body.remaining().map_or(0, |left| usize::try_from(left).unwrap_or(usize::MAX));
            self.bytes.reserve_exact(known.min(limits.decision_bytes));
            worker.deadlines.set(&client.deadline, limits.body_timeout);
        }
        while !self.body.is_done() && self.raw_body().len() < limits.decision_bytes {
            match client.fill(worker, &mut self.bytes).await {
                Ok(_) => self.take(&mut scan, &mut taken)?,
                Err(ReadEnd::TimedOut) => return Err(RequestError::ClientSlow),
                Err(ReadEnd::Closed) => return Ok(false),
            }
            worker.deadlines.set(&client.deadline, limits.body_timeout);
        }
        client.deadline.clear();
        // What follows a complete body is the next request.
        client.carry = self.bytes.split_off(taken);
        self.findings = scan.findings(worker.config.unreadable_body)?;
        Ok(true)
    }

    /// Follows the body over bytes that arrived, up to its end.
    fn take(&mut self, scan: &mut Scan, taken: &mut usize) -> Result<(), RequestError> {
        let piece = &self.bytes[*taken..];
        let count = self.body.advance(piece, |part| {
            if let Part::Data(data) = part {
                scan.push(data);
            }
        });
        *taken += count.map_err(RequestError::Body)?;
        Ok(())
    }

    /// Answers `Expect: 100-continue`.
    async fn greet(&self, worker: &Worker, client: &mut Client) -> Result<(), RequestError> {
        match self.head.known(&self.bytes, Kind::Expect) {
            None => Ok(()),
            Some(_) if self.head.version == Version::Http10 => Ok(()),
            Some(value) if value.eq_ignore_ascii_case(b"100-continue") => {
                // A client that is gone shows when its body is read.
                client.put(worker, b"HTTP/1.1 100 Continue\r\n\r\n").await.map_or(Ok(()), Ok)
            }
            Some(_) => Err(RequestError::Expectation),
        }
    }
}

/// The scan of a body, by its type.
struct Scan {
    kind: ScanKind,
    /// Bytes of the body that the decision may still rest on: exact, so that it does not depend on how they arrive.
    left: usize,
    error: Option<ScanError>,
}

enum ScanKind {
    Nothing,
    Json(Box<JsonScanner>),
    Form(Box<FormScanner>),
}

impl Scan {
    fn start(head: &RequestHead, bytes: &[u8], limits: ScanLimits, left: usize) -> Self {
        let form = head.known(bytes, Kind::ContentType).and_then(FormScanner::for_content_type);
        let kind = match form {
            _ if head.known(bytes, Kind::ContentEncoding).is_some() => ScanKind::Nothing,
            Some(form) => ScanKind::Form(Box::new(form)),
            None => ScanKind::Json(Box::new(JsonScanner::new(limits))),
        };
        Self { kind, left, error: None }
    }

    fn push(&mut self, data: &[u8]) {
        let data = &data[..data.len().min(self.left)];
        self.left -= data.len();
        match &mut self.kind {
            ScanKind::Json(scanner) if self.error.is_none() => self.error = scanner.push(data).err(),
            ScanKind::Form(scanner) => scanner.push(data),
            _ => {}
        }
    }

    fn findings(self, unreadable: UnreadableBody) -> Result<Findings, RequestError> {
        match (self.kind, self.error) {
            (_, Some(error)) if unreadable == UnreadableBody::Refuse => Err(RequestError::Unreadable(error)),
            // What was found before the body turned unreadable still counts.
            (ScanKind::Json(scanner), _) => Ok(scanner.findings()),
            (ScanKind::Form(scanner), _) => {
                Ok(Findings { model: scanner.model, user: scanner.user, ..Findings::default() })
            }
            (ScanKind::Nothing, _) => Ok(Findings::default()),
        }
    }
}
