//! HTTP/1.1 requests as the fake engine reads them.
use serde::Deserialize;

use super::curve::Shape;

/// Largest request head and body. Long prompts are a few hundred kilobytes.
const MAX_HEAD: usize = 64 << 10;
const MAX_BODY: usize = 32 << 20;
const MAX_HEADERS: usize = 64;
/// The usual count of characters in a token of English text.
const CHARACTERS_PER_TOKEN: usize = 4;
/// Tokens of an answer whose request names no limit.
const DEFAULT_MAX_TOKENS: u32 = 16;

/// One request, read whole.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct HttpRequest {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) keep_alive: bool,
    pub(super) body: Vec<u8>,
}

/// What a look at the bytes received so far gave.
#[derive(Debug, PartialEq)]
pub(super) enum Look {
    /// A request, and how many bytes it took.
    Whole(HttpRequest, usize),
    /// More bytes are needed.
    Partial,
    /// This can become no request: answer with the status and close.
    Refused { status: u16, reason: &'static str },
}

/// Looks for one request at the start of `bytes`.
pub(super) fn look(bytes: &[u8]) -> Look {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let head = match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if bytes.len() < MAX_HEAD => return Look::Partial,
        Ok(httparse::Status::Partial) => {
            return Look::Refused { status: 431, reason: "the head is too large" };
        }
        Err(_) => return Look::Refused { status: 400, reason: "the head is not HTTP/1.1" },
    };
    let header = |name: &str| {
        request
            .headers
            .iter()
            .find(|header| header.name.eq_ignore_ascii_case(name))
            .map(|header| header.value)
    };
    if header("transfer-encoding").is_some() {
        return Look::Refused { status: 411, reason: "a body needs a content-length" };
    }
    let length =
        match header("content-length").map(|value| std::str::from_utf8(value).map(str::parse::<usize>)) {
            None => 0,
            Some(Ok(Ok(length))) if length <= MAX_BODY => length,
            Some(Ok(Ok(_))) => return Look::Refused { status: 413, reason: "the body is too large" },
            Some(_) => return Look::Refused { status: 400, reason: "the content-length is not a number" },
        };
    if bytes.len() < head + length {
        return Look::Partial;
    }
    let close = header("connection").is_some_and(|value| value.eq_ignore_ascii_case(b"close"));
    let whole = HttpRequest {
        method: request.method.unwrap_or_default().to_owned(),
        path: request.path.unwrap_or_default().to_owned(),
        keep_alive: !close && request.version == Some(1),
        body: bytes[head..head + length].to_vec(),
    };
    Look::Whole(whole, head + length)
}

/// The parts of a chat request that decide how it is served.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ChatRequest {
    pub(super) model: String,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    pub(super) prompt_tokens: u32,
    pub(super) output_tokens: u32,
}

#[derive(Deserialize)]
struct RawChat {
    model: String,
    messages: Vec<RawMessage>,
    #[serde(default)]
    stream: bool,
    stream_options: Option<RawStreamOptions>,
    max_tokens: Option<u32>,
    max_completion_tokens: Option<u32>,
}

#[derive(Deserialize)]
struct RawStreamOptions {
    #[serde(default)]
    include_usage: bool,
}

#[derive(Deserialize)]
struct RawMessage {
    content: RawContent,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawContent {
    Text(String),
    Parts(Vec<RawPart>),
}

#[derive(Deserialize)]
struct RawPart {
    #[serde(default)]
    text: String,
}

/// Why a chat request is answered with status 400.
#[derive(Debug, thiserror::Error)]
pub(super) enum ChatError {
    #[error("the body is not a chat request: {0}")]
    Json(#[from] serde_json::Error),
    #[error("max_tokens must be at least 1")]
    NoTokens,
    #[error("messages must not be empty")]
    NoMessages,
}

impl ChatRequest {
    /// Reads a chat request. Every answer has as many tokens as the request allows.
    pub(super) fn parse(body: &[u8]) -> Result<Self, ChatError> {
        let raw: RawChat = serde_json::from_slice(body)?;
        let output = raw.max_completion_tokens.or(raw.max_tokens).unwrap_or(DEFAULT_MAX_TOKENS);
        if output == 0 {
            return Err(ChatError::NoTokens);
        }
        if raw.messages.is_empty() {
            return Err(ChatError::NoMessages);
        }
        let characters: usize = raw.messages.iter().map(|message| message.content.characters()).sum();
        let prompt_tokens = u32::try_from(characters.div_ceil(CHARACTERS_PER_TOKEN))
            .expect("a body of at most 32 MB holds fewer characters");
        Ok(Self {
            model: raw.model,
            stream: raw.stream,
            include_usage: raw.stream_options.is_some_and(|options| options.include_usage),
            prompt_tokens,
            output_tokens: output,
        })
    }

    pub(super) fn shape(&self) -> Shape {
        Shape { prompt_tokens: f64::from(self.prompt_tokens), output_tokens: f64::from(self.output_tokens) }
    }
}

impl RawContent {
    fn characters(&self) -> usize {
        match self {
            Self::Text(text) => text.chars().count(),
            Self::Parts(parts) => parts.iter().map(|part| part.text.chars().count()).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_in_two_pieces_is_read_with_the_second() {
        let bytes = b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 4\r\n\r\nabcdGET";

        let early = look(&bytes[..bytes.len() - 5]);
        let whole = look(bytes);

        assert_eq!(early, Look::Partial);
        let Look::Whole(request, taken) = whole else { unreachable!("{whole:?}") };
        assert_eq!((request.method.as_str(), request.body.as_slice()), ("POST", b"abcd".as_slice()));
        assert_eq!(&bytes[taken..], b"GET");
        assert!(request.keep_alive);
    }

    #[test]
    fn bytes_that_are_no_http_are_refused() {
        assert!(matches!(look(b"\x16\x03\x01\x02\x00\x01\x00"), Look::Refused { status: 400, .. }));
        let chunked = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert!(matches!(look(chunked), Look::Refused { status: 411, .. }));
        let vast = b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n";
        assert!(matches!(look(vast), Look::Refused { status: 413, .. }));
    }

    #[test]
    fn four_characters_count_as_a_prompt_token_in_text_and_in_parts() {
        let text = br#"{"model":"m","messages":[{"role":"user","content":"12345678"}],"max_tokens":9}"#;
        let parts = br#"{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"1234"}]}],
            "stream":true,"stream_options":{"include_usage":true}}"#;

        let text = ChatRequest::parse(text).unwrap();
        let parts = ChatRequest::parse(parts).unwrap();

        assert_eq!((text.prompt_tokens, text.output_tokens), (2, 9));
        assert!(!text.stream);
        assert_eq!((parts.prompt_tokens, parts.output_tokens), (1, 16));
        assert!(parts.stream && parts.include_usage);
    }
}
