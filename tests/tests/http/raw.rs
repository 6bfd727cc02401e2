//! HTTP/1.1 read by the book, independently of the door's own parser.
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// After this long without a byte, a test fails.
const LIMIT: Duration = Duration::from_secs(20);

pub(crate) struct Client {
    reader: Reader,
    stream: TcpStream,
}

/// An answer as it came.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Status line and header lines, with the empty line.
    pub(crate) head: String,
    /// Without framing.
    pub(crate) body: Vec<u8>,
    /// Trailer lines of a chunked body.
    pub(crate) trailers: String,
    /// The body reached the end that its framing announced.
    pub(crate) complete: bool,
}

impl Response {
    pub(crate) fn has(&self, line: &str) -> bool {
        self.head.split("\r\n").any(|found| found == line)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.split("\r\n").find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    /// `error.code` of an answer in OpenAI's shape.
    pub(crate) fn error_code(&self) -> String {
        let json: serde_json::Value = serde_json::from_slice(&self.body).unwrap();
        assert!(json["error"]["message"].is_string() && json["error"]["type"].is_string(), "{json}");
        json["error"]["code"].as_str().unwrap().to_owned()
    }
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { reader: Reader::new(stream.try_clone().unwrap()), stream }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Sends what the door may already refuse to read.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    pub(crate) fn response(&mut self) -> Response {
        self.try_response().expect("an answer")
    }

    /// The head of an answer alone.
    pub(crate) fn head(&mut self) -> String {
        self.reader.head().expect("a head")
    }

    /// `None`: the connection ended without an answer.
    pub(crate) fn try_response(&mut self) -> Option<Response> {
        let head = self.reader.head()?;
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let (body, trailers, complete) = self.reader.answer_body(&head, status);
        Some(Response { status, head, body, trailers, complete })
    }

    /// Reads until `bytes` bytes or the end.
    pub(crate) fn read(&mut self, bytes: usize) -> Vec<u8> {
        self.reader.exactly(bytes).0
    }

    /// Whether the connection has ended; waits for it.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.reader.some().is_none()
    }

    /// Whether anything has arrived.
    pub(crate) fn has_some(&self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let found = self.stream.peek(&mut [0]).is_ok();
        self.stream.set_nonblocking(false).unwrap();
        found
    }
}

/// Buffered bytes of a connection.
pub(crate) struct Reader {
    stream: TcpStream,
    held: Vec<u8>,
    /// Bytes of `held` that were taken.
    at: usize,
}

impl Reader {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self { stream, held: Vec::new(), at: 0 }
    }

    fn left(&self) -> &[u8] {
        &self.held[self.at..]
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        let taken = self.held[self.at..self.at + count].to_vec();
        self.at += count;
        taken
    }

    fn fill(&mut self) -> bool {
        self.held.drain(..self.at);
        self.at = 0;
        let mut piece = vec![0; 64 << 10];
        match self.stream.read(&mut piece) {
            Ok(count) if count > 0 => {
                self.held.extend_from_slice(&piece[..count]);
                true
            }
            Err(error)
                if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) =>
            {
                panic!("nothing came within {LIMIT:?}")
            }
            _ => false,
        }
    }

    /// Whatever comes next; `None` at the end.
    pub(crate) fn some(&mut self) -> Option<Vec<u8>> {
        if self.left().is_empty() && !self.fill() {
            return None;
        }
        Some(self.take(self.left().len()))
    }

    fn until(&mut self, end: &[u8]) -> Option<Vec<u8>> {
        loop {
            if let Some(at) = self.left().windows(end.len()).position(|window| window == end) {
                return Some(self.take(at + end.len()));
            }
            if !self.fill() {
                return None;
            }
        }
    }

    /// `bytes` bytes, or fewer at the end, and whether they are all.
    fn exactly(&mut self, bytes: usize) -> (Vec<u8>, bool) {
        while self.left().len() < bytes && self.fill() {}
        let taken = bytes.min(self.left().len());
        (self.take(taken), taken == bytes)
    }

    pub(crate) fn head(&mut self) -> Option<String> {
        self.until(b"\r\n\r\n").map(|head| String::from_utf8(head).unwrap())
    }

    /// The body of a request.
    pub(crate) fn body(&mut self, head: &str) -> Option<Vec<u8>> {
        let (body, _, complete) = self.framed(head)?;
        complete.then_some(body)
    }

    fn answer_body(&mut self, head: &str, status: u16) -> (Vec<u8>, String, bool) {
        if matches!(status, 100..=199 | 204 | 304) {
            return (Vec::new(), String::new(), true);
        }
        if lower(head).contains("\r\ntransfer-encoding:") || lower(head).contains("\r\ncontent-length:") {
            return self.framed(head).unwrap();
        }
        let mut body = Vec::new();
        while let Some(piece) = self.some() {
            body.extend_from_slice(&piece);
        }
        (body, String::new(), true)
    }

    fn framed(&mut self, head: &str) -> Option<(Vec<u8>, String, bool)> {
        let head = lower(head);
        if head.contains("\r\ntransfer-encoding: chunked\r\n") {
            return Some(self.chunks());
        }
        let length = head.split("\r\n").find_map(|line| line.strip_prefix("content-length: "));
        let (body, complete) = self.exactly(length.map_or(0, |length| length.parse().unwrap()));
        Some((body, String::new(), complete))
    }

    fn chunks(&mut self) -> (Vec<u8>, String, bool) {
        let mut body = Vec::new();
        loop {
            let Some(line) = self.until(b"\r\n") else { return (body, String::new(), false) };
            let size =
                usize::from_str_radix(std::str::from_utf8(&line[..line.len() - 2]).unwrap(), 16).unwrap();
            if size == 0 {
                break;
            }
            let (data, whole) = self.exactly(size);
            body.extend_from_slice(&data);
            if !whole || self.until(b"\r\n").is_none() {
                return (body, String::new(), false);
            }
        }
        let mut trailers = String::new();
        loop {
            match self.until(b"\r\n") {
                None => return (body, trailers, false),
                Some(line) if line == b"\r\n" => return (body, trailers, true),
                Some(line) => trailers.push_str(std::str::from_utf8(&line).unwrap()),
            }
        }
    }
}

fn lower(head: &str) -> String {
    head.to_ascii_lowercase()
}
