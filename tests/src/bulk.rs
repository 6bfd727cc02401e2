//! Bulk HTTP transfers between namespaces, with every byte checked: shows that a path carries more than small packets.
use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::{HarnessError, Netns};

/// A transfer that makes no progress for so long has failed.
const STALL: Duration = Duration::from_secs(10);
const ACCEPT_PERIOD: Duration = Duration::from_millis(5);
const BLOCK: usize = 64 * 1024;

/// The part of every body from byte `start` on: bytes count from 0 to 250, again and again. 251 is prime, so that no
/// block of a power of two repeats.
fn fill(block: &mut [u8], start: usize) {
    let mut byte = u8::try_from(start % 251).expect("a remainder of 251 is a byte");
    for place in block {
        *place = byte;
        byte = if byte == 250 { 0 } else { byte + 1 };
    }
}

/// `GET /N` answers N bytes, `POST /` the number of bytes that it took. Each answer names the server.
#[derive(Debug)]
pub struct BulkServer {
    stop: Arc<AtomicBool>,
    accept: Option<JoinHandle<()>>,
}

impl BulkServer {
    /// Listens on every address of the namespace, in both families.
    ///
    /// # Errors
    /// The port is taken, or the namespace is gone.
    pub fn start(netns: &Netns, port: u16, name: &str) -> Result<Self, HarnessError> {
        let listener = netns
            .enter(|| TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)))?
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .map_err(HarnessError::io(format!("listen on port {port} in {}", netns.name())))?;
        let stop = Arc::new(AtomicBool::new(false));
        let accept = thread::Builder::new()
            .name(format!("bulk-{name}"))
            .spawn({
                let (stop, name) = (Arc::clone(&stop), name.to_owned());
                move || accept(&listener, &stop, &name)
            })
            .map_err(HarnessError::io("start a bulk server"))?;
        Ok(Self { stop, accept: Some(accept) })
    }
}

impl Drop for BulkServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(accept) = self.accept.take()
            && accept.join().is_err()
        {
            eprintln!("a bulk server had panicked");
        }
    }
}

fn accept(listener: &TcpListener, stop: &AtomicBool, name: &str) {
    thread::scope(|scope| {
        while !stop.load(Ordering::Relaxed) {
            match listener.accept() {
                Ok((stream, _)) => {
                    // The client notices a transfer that breaks off.
                    scope.spawn(move || serve(&stream, name).unwrap_or_default());
                }
                Err(_) => thread::park_timeout(ACCEPT_PERIOD),
            }
        }
    });
}

fn serve(stream: &TcpStream, name: &str) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(STALL))?;
    stream.set_write_timeout(Some(STALL))?;
    let mut reader = BufReader::new(stream);
    let head = read_head(&mut reader)?;
    if let Some(rest) = head.first.strip_prefix("GET /") {
        let size =
            rest.split(' ').next().and_then(|size| size.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
        write!(&*stream, "HTTP/1.1 200 OK\r\nx-engine-id: {name}\r\ncontent-length: {size}\r\n\r\n")?;
        return send_body(stream, size);
    }
    let taken = check_body(&mut reader, head.length)?.to_string();
    let length = taken.len();
    write!(&*stream, "HTTP/1.1 200 OK\r\nx-engine-id: {name}\r\ncontent-length: {length}\r\n\r\n{taken}")
}

/// What a bulk transfer ended with.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Transfer {
    /// The server that answered.
    pub server: String,
    /// Bytes that arrived with the right values, at the client or (POST) at the server.
    pub bytes: usize,
}

/// Fetches `size` bytes from `to` and checks each.
///
/// # Errors
/// No connection, a stall of 10 s, or a wrong byte.
pub fn get(client: &Netns, to: SocketAddr, size: usize) -> Result<Transfer, HarnessError> {
    client
        .enter(|| {
            let stream = connect(to)?;
            write!(&stream, "GET /{size} HTTP/1.1\r\nhost: bulk\r\nconnection: close\r\n\r\n")?;
            let mut reader = BufReader::new(&stream);
            let head = read_head(&mut reader)?;
            let bytes = check_body(&mut reader, head.length)?;
            Ok(Transfer { server: head.server, bytes })
        })?
        .map_err(HarnessError::io(format!("get {size} bytes from {to}")))
}

/// Sends `size` bytes to `to`, which checks each.
///
/// # Errors
/// As [`get`].
pub fn post(client: &Netns, to: SocketAddr, size: usize) -> Result<Transfer, HarnessError> {
    client
        .enter(|| {
            let stream = connect(to)?;
            write!(
                &stream,
                "POST / HTTP/1.1\r\nhost: bulk\r\ncontent-length: {size}\r\nconnection: close\r\n\r\n"
            )?;
            send_body(&stream, size)?;
            let mut reader = BufReader::new(&stream);
            let head = read_head(&mut reader)?;
            let mut body = vec![0; head.length];
            reader.read_exact(&mut body)?;
            let bytes = String::from_utf8_lossy(&body).parse().map_err(io::Error::other)?;
            Ok(Transfer { server: head.server, bytes })
        })?
        .map_err(HarnessError::io(format!("post {size} bytes to {to}")))
}

fn connect(to: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&to, STALL)?;
    stream.set_read_timeout(Some(STALL))?;
    stream.set_write_timeout(Some(STALL))?;
    Ok(stream)
}

struct Head {
    first: String,
    length: usize,
    server: String,
}

fn read_head(reader: &mut impl BufRead) -> io::Result<Head> {
    let mut head = Head { first: String::new(), length: 0, server: String::new() };
    reader.read_line(&mut head.first)?;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match line.trim_end().split_once(": ") {
            Some(("content-length", value)) => {
                head.length = value.parse().map_err(io::Error::other)?;
            }
            Some(("x-engine-id", value)) => value.clone_into(&mut head.server),
            Some(_) => {}
            None => return Ok(head),
        }
    }
}

fn send_body(mut stream: &TcpStream, size: usize) -> io::Result<()> {
    let mut block = vec![0; BLOCK];
    let mut sent = 0;
    while sent < size {
        let length = BLOCK.min(size - sent);
        fill(&mut block[..length], sent);
        stream.write_all(&block[..length])?;
        sent += length;
    }
    Ok(())
}

fn check_body(reader: &mut impl Read, size: usize) -> io::Result<usize> {
    let mut block = vec![0; BLOCK];
    let mut expected = vec![0; BLOCK];
    let mut taken = 0;
    while taken < size {
        let length = BLOCK.min(size - taken);
        reader.read_exact(&mut block[..length])?;
        fill(&mut expected[..length], taken);
        if block[..length] != expected[..length] {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a wrong byte after {taken}")));
        }
        taken += length;
    }
    Ok(taken)
}
