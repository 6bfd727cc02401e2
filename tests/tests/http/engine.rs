//! Engines that do what a test says, byte by byte.
use std::{
    io::Write,
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, mpsc},
    thread,
};

use super::raw::Reader;

/// An engine whose connections each run a script in a thread. It ends with the test's process.
pub(crate) struct Engine {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
}

/// A request as an engine received it.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Head, with its empty line.
    pub(crate) head: String,
    /// Without framing.
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// Whether a header line stands in the head exactly so.
    pub(crate) fn has(&self, line: &str) -> bool {
        self.head.split("\r\n").any(|found| found == line)
    }
}

/// One connection of the door's.
pub(crate) struct Connection {
    reader: Reader,
    stream: TcpStream,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Engine {
    pub(crate) fn start(script: impl Fn(&mut Connection) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (script, seen) = (Arc::new(script), Arc::clone(&requests));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, script, requests) = (stream.unwrap(), Arc::clone(&script), Arc::clone(&seen));
                stream.set_nodelay(true).unwrap();
                thread::spawn(move || {
                    let reader = Reader::new(stream.try_clone().unwrap());
                    script(&mut Connection { reader, stream, requests });
                });
            }
        });
        Self { address, requests }
    }

    /// Answers every request of every connection with the same bytes.
    pub(crate) fn answering(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        Self::start(move |connection| {
            while connection.request().is_some() {
                connection.send(&answer);
            }
        })
    }

    /// All requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

impl Connection {
    /// The next request; `None` when the door has closed the connection.
    pub(crate) fn request(&mut self) -> Option<Request> {
        let head = self.reader.head()?;
        let body = self.reader.body(&head)?;
        let request = Request { head, body };
        self.requests.lock().unwrap().push(request.clone());
        Some(request)
    }

    /// The head of the next request, its body left unread.
    pub(crate) fn head(&mut self) -> Option<String> {
        self.reader.head()
    }

    /// Sends bytes; the door may have gone.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        drop(self.stream.write_all(bytes));
    }

    /// Sends bytes; `false` when the door has gone.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Closes the connection.
    pub(crate) fn end(&mut self) {
        drop(self.stream.shutdown(std::net::Shutdown::Both));
    }

    /// Waits until the door closes the connection.
    pub(crate) fn wait_closed(&mut self) {
        while self.reader.some().is_some() {}
    }
}

/// An answer of JSON.
pub(crate) fn json(body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
}

/// The head of an event stream in chunks.
pub(crate) const STREAM_HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

pub(crate) fn chunk(data: &str) -> Vec<u8> {
    format!("{:x}\r\n{data}\r\n", data.len()).into_bytes()
}

/// A channel whose receiver a script can wait on from any of its connections.
pub(crate) fn gate() -> (mpsc::Sender<()>, Arc<Mutex<mpsc::Receiver<()>>>) {
    let (open, wait) = mpsc::channel();
    (open, Arc::new(Mutex::new(wait)))
}
