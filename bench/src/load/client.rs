//! One request on a connection of its own.
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    rc::Rc,
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};

use super::{
    record::{Answered, Failure},
    schedule::Turn,
};
use crate::engine::headers::{ENGINE_HEADER, SECONDS_HEADER};

const MAX_HEADERS: usize = 32;
/// Largest response head, and largest event that is waited for whole.
const MAX_BUFFER: usize = 1 << 20;

/// Where requests go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Target {
    /// One address and port.
    Address(SocketAddr),
    /// A /64 whose low half is the conversation's key.
    Prefix(Ipv6Addr, u16),
}

impl Target {
    pub fn address(self, key: u64) -> SocketAddr {
        match self {
            Self::Address(address) => address,
            Self::Prefix(prefix, port) => {
                let bits = (prefix.to_bits() & !u128::from(u64::MAX)) | u128::from(key);
                SocketAddr::new(IpAddr::V6(Ipv6Addr::from_bits(bits)), port)
            }
        }
    }
}

/// IPv4 addresses that conversations connect from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sources {
    first: u32,
    hosts: u32,
}

impl Sources {
    /// `None` for a length above 32.
    pub fn new(address: Ipv4Addr, length: u8) -> Option<Self> {
        let hosts = u32::MAX.checked_shr(u32::from(length)).unwrap_or(0);
        (length <= 32).then_some(Self { first: address.to_bits() & !hosts, hosts })
    }

    fn address(self, key: u64) -> Ipv4Addr {
        let [a, b, c, d, ..] = key.to_be_bytes();
        Ipv4Addr::from_bits(self.first | (u32::from_be_bytes([a, b, c, d]) & self.hosts))
    }
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Prompt {
    model: String,
    stream: bool,
    output_tokens: u32,
    filler: Rc<str>,
    prompt_bytes: usize,
}

impl Prompt {
    /// A chat request of `prompt_tokens` (4 bytes each) and `output_tokens`.
    pub fn new(model: &str, prompt_tokens: usize, output_tokens: u32, stream: bool) -> Self {
        let prompt_bytes = 4 * prompt_tokens;
        let filler = Rc::from("and so on ".repeat(prompt_bytes / 10 + 1));
        Self { model: model.to_owned(), stream, output_tokens, filler, prompt_bytes }
    }

    pub const fn output_tokens(&self) -> u32 {
        self.output_tokens
    }

    /// The same prompt for another number of output tokens.
    #[must_use]
    pub fn with_output(&self, output_tokens: u32) -> Self {
        Self { output_tokens, ..self.clone() }
    }

    fn request(&self, host: SocketAddr, turn: Turn) -> String {
        let mut content = format!("conversation {:016x} turn {} ", turn.key, turn.number);
        let missing = self.prompt_bytes.saturating_sub(content.len());
        content.push_str(&self.filler[..missing]);
        content.truncate(self.prompt_bytes);
        let Self { model, stream, output_tokens, .. } = self;
        let head = format!(
            r#"{{"model":"{model}","stream":{stream},"max_tokens":{output_tokens},"messages":[{{"role":"user","content":""#
        );
        let length = head.len() + content.len() + 4;
        format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{head}{content}\"}}]}}"
        )
    }
}

/// Sends one request and reads its answer to the end. Times count from `scheduled`.
///
/// # Errors
/// Why there is no complete answer.
pub async fn request(
    target: Target,
    sources: Option<Sources>,
    prompt: &Prompt,
    turn: Turn,
    scheduled: Instant,
) -> Result<Answered, Failure> {
    let address = target.address(turn.key);
    let begun = Instant::now();
    let mut stream = connect(address, sources, turn.key).await.map_err(|_refused| Failure::Connect)?;
    let connect_us = micros(begun.elapsed());
    exchange(&mut stream, &prompt.request(address, turn), scheduled, connect_us).await
}

async fn connect(to: SocketAddr, sources: Option<Sources>, key: u64) -> io::Result<TcpStream> {
    let Some(sources) = sources.filter(|_| to.is_ipv4()) else { return TcpStream::connect(to).await };
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(IpAddr::V4(sources.address(key)), 0))?;
    socket.connect(to).await
}

async fn exchange(
    stream: &mut TcpStream,
    request: &str,
    scheduled: Instant,
    connect_us: u64,
) -> Result<Answered, Failure> {
    stream.set_nodelay(true).map_err(broken)?;
    stream.write_all(request.as_bytes()).await.map_err(broken)?;
    let mut received = Vec::with_capacity(4096);
    let head = loop {
        read(stream, &mut received).await?;
        if let Some(head) = Head::parse(&received)? {
            break head;
        }
    };
    if head.status != 200 {
        return Err(Failure::Status(head.status));
    }
    received.drain(..head.length);
    let mut body = Body::new(head.framing);
    let mut ttft_us = None;
    loop {
        let end = body.advance(&mut received)?;
        if body.taken > 0 && ttft_us.is_none() {
            ttft_us = Some(micros(scheduled.elapsed()));
        }
        if let Some(trailer) = end {
            let seconds = head.seconds.or(trailer).ok_or(Failure::Malformed)?;
            return Ok(Answered {
                engine: head.engine,
                connect_us,
                ttft_us: ttft_us.ok_or(Failure::Malformed)?,
                e2e_us: micros(scheduled.elapsed()),
                engine_us: micros(Duration::try_from_secs_f64(seconds).map_err(|_range| Failure::Malformed)?),
            });
        }
        read(stream, &mut received).await?;
    }
}

async fn read(stream: &mut TcpStream, received: &mut Vec<u8>) -> Result<(), Failure> {
    if received.len() > MAX_BUFFER {
        return Err(Failure::Malformed);
    }
    match stream.read_buf(received).await {
        Ok(0) => Err(Failure::Broken),
        Ok(_) => Ok(()),
        Err(error) => Err(broken(error)),
    }
}

fn broken(_error: io::Error) -> Failure {
    Failure::Broken
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

struct Head {
    length: usize,
    status: u16,
    engine: String,
    seconds: Option<f64>,
    framing: Framing,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Framing {
    Length(usize),
    Chunked,
}

impl Head {
    fn parse(bytes: &[u8]) -> Result<Option<Self>, Failure> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        let length = match response.parse(bytes) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err(Failure::Malformed),
        };
        let header = |name: &str| {
            let found = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
            std::str::from_utf8(found.value).ok()
        };
        let framing = match header("content-length").map(str::parse) {
            Some(Ok(length)) => Framing::Length(length),
            Some(Err(_)) => return Err(Failure::Malformed),
            None => Framing::Chunked,
        };
        Ok(Some(Self {
            length,
            status: response.code.ok_or(Failure::Malformed)?,
            engine: header(ENGINE_HEADER).unwrap_or_default().to_owned(),
            seconds: header(SECONDS_HEADER).and_then(|value| value.parse().ok()),
            framing,
        }))
    }
}

/// How much of a body has been read.
#[derive(Debug)]
struct Body {
    framing: Framing,
    /// Bytes of content so far.
    taken: usize,
    /// Bytes of the current chunk and its line end that are still to come.
    chunk_left: usize,
    /// Of them, the line end.
    line_end: usize,
}

impl Body {
    const fn new(framing: Framing) -> Self {
        Self { framing, taken: 0, chunk_left: 0, line_end: 0 }
    }

    /// Takes what it can from the front of `received`. At the end it gives the seconds of the trailer, if there is one.
    fn advance(&mut self, received: &mut Vec<u8>) -> Result<Option<Option<f64>>, Failure> {
        if let Framing::Length(length) = self.framing {
            self.taken += received.len();
            received.clear();
            return Ok((self.taken >= length).then_some(None));
        }
        let mut at = 0;
        let end = loop {
            if self.chunk_left > 0 {
                let part = self.chunk_left.min(received.len() - at);
                at += part;
                self.taken += part.min(self.chunk_left.saturating_sub(self.line_end));
                self.chunk_left -= part;
                if self.chunk_left > 0 {
                    break None;
                }
            }
            match httparse::parse_chunk_size(&received[at..]) {
                Ok(httparse::Status::Complete((line, 0))) => match trailer(&received[at + line..]) {
                    // The last chunk is looked at again when all of the trailer is there.
                    None => break None,
                    Some(seconds) => break Some(seconds),
                },
                Ok(httparse::Status::Complete((line, size))) => {
                    at += line;
                    self.line_end = 2;
                    self.chunk_left =
                        usize::try_from(size).map_err(|_size| Failure::Malformed)? + self.line_end;
                }
                Ok(httparse::Status::Partial) => break None,
                Err(_) => return Err(Failure::Malformed),
            }
        };
        received.drain(..at);
        Ok(end)
    }
}

/// The seconds in the trailer lines, once the empty line that ends them is there.
fn trailer(bytes: &[u8]) -> Option<Option<f64>> {
    let text = String::from_utf8_lossy(bytes);
    let mut seconds = None;
    for line in text.split_inclusive("\r\n") {
        match line.strip_suffix("\r\n")? {
            "" => return Some(seconds),
            line => {
                if let Some((name, value)) = line.split_once(':')
                    && name.eq_ignore_ascii_case(SECONDS_HEADER)
                {
                    seconds = value.trim().parse().ok();
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_the_low_half_of_the_address() {
        let target = Target::Prefix("2001:db8:1:2::".parse().unwrap(), 8000);

        let address = target.address(0x0123_4567_89ab_cdef);

        assert_eq!(address, "[2001:db8:1:2:123:4567:89ab:cdef]:8000".parse().unwrap());
    }

    #[test]
    fn a_conversation_keeps_its_source_within_the_prefix() {
        let sources = Sources::new(Ipv4Addr::new(172, 21, 16, 9), 20).unwrap();

        assert_eq!(sources.address(0xffff_ffff_0000_0000), Ipv4Addr::new(172, 21, 31, 255));
        assert_eq!(sources.address(0), Ipv4Addr::new(172, 21, 16, 0));
        assert_eq!(Sources::new(Ipv4Addr::LOCALHOST, 32).unwrap().address(77), Ipv4Addr::LOCALHOST);
        assert_eq!(Sources::new(Ipv4Addr::LOCALHOST, 33), None);
    }

    #[test]
    fn a_prompt_has_four_bytes_for_each_token_whatever_the_key() {
        let prompt = Prompt::new("m", 25, 7, true);
        let host = "[::1]:1".parse().unwrap();

        for key in [0, u64::MAX] {
            let request = prompt.request(host, Turn { key, number: 12 });
            let (head, body) = request.split_once("\r\n\r\n").unwrap();
            assert!(head.ends_with(&format!("content-length: {}", body.len())), "{head}");
            let body: serde_json::Value = serde_json::from_str(body).unwrap();
            assert_eq!(body["messages"][0]["content"].as_str().unwrap().len(), 100);
            assert_eq!(body["max_tokens"], 7);
        }
    }

    #[test]
    fn a_chunked_body_ends_with_its_trailer_however_it_is_cut() {
        let text = b"5\r\nhello\r\n3\r\nabc\r\n0\r\nx-engine-seconds: 1.25\r\n\r\n";

        for cut in 0..text.len() {
            let mut body = Body::new(Framing::Chunked);
            let mut received = text[..cut].to_vec();
            assert_eq!(body.advance(&mut received).unwrap(), None, "cut at {cut}");
            received.extend_from_slice(&text[cut..]);
            assert_eq!(body.advance(&mut received).unwrap(), Some(Some(1.25)), "cut at {cut}");
            assert_eq!(body.taken, 8);
        }
    }

    #[test]
    fn a_chunk_size_that_is_no_number_is_malformed() {
        let mut body = Body::new(Framing::Chunked);

        assert_eq!(body.advance(&mut b"zz\r\n".to_vec()), Err(Failure::Malformed));
    }
}
