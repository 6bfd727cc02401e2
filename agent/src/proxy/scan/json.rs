//! Finds model, keys and token limits in a JSON body as it streams in, without a tree.
//!
//! The scanner takes pieces of any size and keeps a bounded state: a bit a level of nesting, the name at hand, and
//! running hashes of messages. A repeated name counts as its last value, as JSON parsers read it.
use super::prefix::{PrefixHasher, join};
use super::text::decode;

/// Longest name or text that is looked at; a longer model is unknown, a longer id is not used as a key.
const MAX_CAPTURE: usize = 512;

/// Bounds of the scan.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ScanLimits {
    /// Levels of nesting, at most 128.
    pub(crate) depth: u32,
    /// Bytes of a bare prompt (not of messages) that make its prefix.
    pub(crate) prompt_bytes: u64,
}

/// What a body says.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Findings {
    pub(crate) model: Option<String>,
    pub(crate) stream: bool,
    /// `conversation`, as text or as an object with `id`.
    pub(crate) conversation: Option<String>,
    pub(crate) prompt_cache_key: Option<String>,
    pub(crate) previous_response_id: Option<String>,
    pub(crate) user: Option<String>,
    /// Hash of the system text and the first user message, or of the start of a bare prompt.
    pub(crate) prefix: Option<u64>,
    /// The bound on output tokens.
    pub(crate) max_tokens: Option<u64>,
}

/// Why a body is not read any further.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum ScanError {
    #[error("the body is not JSON from byte {at} on")]
    Syntax { at: u64 },
    #[error("the body is nested deeper than {limit} levels")]
    TooDeep { limit: u32 },
}

/// Names that count at the top of the body.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Name {
    Other,
    Model,
    Stream,
    Conversation,
    PromptCacheKey,
    PreviousResponseId,
    User,
    MaxTokens,
    /// `messages`, and `input` of the responses API: system and user messages.
    Messages,
    /// `system` of the messages API, `instructions` of the responses API.
    System,
    /// `prompt`, and a query to rank by.
    Prompt,
}

impl Name {
    fn of(name: &str) -> Self {
        match name {
            "model" => Self::Model,
            "stream" => Self::Stream,
            "conversation" => Self::Conversation,
            "prompt_cache_key" => Self::PromptCacheKey,
            "previous_response_id" => Self::PreviousResponseId,
            "user" => Self::User,
            "max_tokens" | "max_completion_tokens" | "max_output_tokens" => Self::MaxTokens,
            "messages" | "input" => Self::Messages,
            "system" | "instructions" => Self::System,
            "prompt" | "query" => Self::Prompt,
            _ => Self::Other,
        }
    }
}

/// Names that count inside a message, or inside `conversation`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Inner {
    Other,
    Role,
    Content,
    Id,
}

/// What the next byte may be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Value,
    /// After `[`.
    ValueOrEnd,
    /// After `{`.
    NameOrEnd,
    /// After a comma in an object.
    Name,
    Colon,
    /// After a value in an object or an array.
    CommaOrEnd,
    Text {
        is_name: bool,
        escaped: bool,
    },
    Bare,
    /// Only blanks may follow.
    End,
}

/// Where the bytes of the value at hand go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Sink {
    Nothing,
    Capture,
    Hash,
}

/// One body's scan.
#[derive(Debug)]
pub(crate) struct JsonScanner {
    limits: ScanLimits,
    findings: Findings,
    state: State,
    depth: u32,
    /// One bit a level: set for an object. The lowest bit is the innermost level.
    objects: u128,
    seen: u64,
    top: Name,
    inner: Inner,
    sink: Sink,
    capture: Vec<u8>,
    overlong: bool,
    /// Of the value whose bytes are hashed, and the depth at which it stands.
    hasher: PrefixHasher,
    hash_depth: u32,
    system: Option<u64>,
    messages: Messages,
    prompt: Option<u64>,
}

/// The hash of the messages so far.
#[derive(Clone, Copy, Debug, Default)]
struct Messages {
    hash: Option<u64>,
    complete: bool,
    role: Role,
    content: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Role {
    #[default]
    Other,
    System,
    User,
}

impl JsonScanner {
    pub(crate) fn new(limits: ScanLimits) -> Self {
        Self {
            limits,
            findings: Findings::default(),
            state: State::Value,
            depth: 0,
            objects: 0,
            seen: 0,
            top: Name::Other,
            inner: Inner::Other,
            sink: Sink::Nothing,
            capture: Vec::new(),
            overlong: false,
            hasher: PrefixHasher::new(),
            hash_depth: 0,
            system: None,
            messages: Messages::default(),
            prompt: None,
        }
    }

    /// What was found so far. A value that is cut off by the end of the scan counts only for the prefix.
    pub(crate) fn findings(mut self) -> Findings {
        if self.sink == Sink::Hash {
            self.end_hash();
        }
        if self.messages.content.is_some() {
            self.end_message();
        }
        let base = self.messages.hash.or(self.prompt);
        self.findings.prefix = match (self.system, base) {
            (Some(system), Some(base)) => Some(join(system, base)),
            (Some(only), None) | (None, Some(only)) => Some(only),
            (None, None) => None,
        };
        self.findings
    }

    /// Reads on.
    pub(crate) fn push(&mut self, input: &[u8]) -> Result<(), ScanError> {
        let mut at = 0;
        while at < input.len() {
            at += match self.state {
                State::Text { is_name, escaped: true } => {
                    self.keep(&input[at..=at]);
                    self.state = State::Text { is_name, escaped: false };
                    1
                }
                State::Text { is_name, escaped: false } => self.text(&input[at..], is_name),
                State::Bare => self.bare(&input[at..]),
                _ => {
                    let byte = input[at];
                    if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                        self.structure(byte).map_err(|error| error.at(self.seen + at as u64))?;
                    }
                    1
                }
            };
        }
        self.seen += input.len() as u64;
        Ok(())
    }

    /// Inside a string: everything to its end, or to an escape.
    fn text(&mut self, input: &[u8], is_name: bool) -> usize {
        let Some(end) = memchr::memchr2(b'"', b'\\', input) else {
            self.keep(input);
            return input.len();
        };
        if input[end] == b'\\' {
            self.keep(&input[..=end]);
            self.state = State::Text { is_name, escaped: true };
            return end + 1;
        }
        self.keep(&input[..end]);
        if is_name {
            self.end_name()
        } else {
            self.end_text()
        }
        end + 1
    }

    /// Inside a number or a word: it ends before anything that cannot be part of one.
    fn bare(&mut self, input: &[u8]) -> usize {
        let part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        let length = input.iter().take_while(|byte| part(byte)).count();
        self.keep(&input[..length]);
        if length < input.len() {
            self.end_bare();
        }
        length
    }

    fn keep(&mut self, bytes: &[u8]) {
        match self.sink {
            Sink::Nothing => {}
            Sink::Hash => self.hash(bytes),
            Sink::Capture if self.capture.len() + bytes.len() <= MAX_CAPTURE => {
                self.capture.extend_from_slice(bytes);
            }
            Sink::Capture => self.overlong = true,
        }
    }

    fn hash(&mut self, bytes: &[u8]) {
        let left = match self.top {
            Name::Prompt => self.limits.prompt_bytes.saturating_sub(self.hasher.length()),
            _ => u64::MAX,
        };
        let taken = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        self.hasher.update(&bytes[..taken]);
    }

    fn structure(&mut self, byte: u8) -> Result<(), Refusal> {
        if self.sink == Sink::Hash {
            self.hash(&[byte]);
        }
        match (self.state, byte) {
            (State::Value | State::ValueOrEnd, b'{') => self.open(true),
            (State::Value | State::ValueOrEnd, b'[') => self.open(false),
            (State::ValueOrEnd, b']') => self.close(false),
            (State::Value | State::ValueOrEnd, _) => self.begin_plain(byte),
            (State::NameOrEnd | State::Name, b'"') => {
                self.begin_name();
                Ok(())
            }
            (State::NameOrEnd, b'}') => self.close(true),
            (State::Colon, b':') => {
                self.state = State::Value;
                Ok(())
            }
            (State::CommaOrEnd, b',') => {
                self.state = if self.in_object() { State::Name } else { State::Value };
                Ok(())
            }
            (State::CommaOrEnd, b'}') => self.close(true),
            (State::CommaOrEnd, b']') => self.close(false),
            _ => Err(Refusal::Syntax),
        }
    }

    fn in_object(&self) -> bool {
        self.objects & 1 == 1
    }

    fn open(&mut self, object: bool) -> Result<(), Refusal> {
        if self.depth >= self.limits.depth.min(128) {
            return Err(Refusal::TooDeep { limit: self.limits.depth.min(128) });
        }
        self.begin_value(if object { b'{' } else { b'[' });
        self.depth += 1;
        self.objects = self.objects << 1 | u128::from(object);
        self.state = if object { State::NameOrEnd } else { State::ValueOrEnd };
        Ok(())
    }

    fn close(&mut self, object: bool) -> Result<(), Refusal> {
        if self.depth == 0 || self.in_object() != object {
            return Err(Refusal::Syntax);
        }
        self.depth -= 1;
        self.objects >>= 1;
        self.end_value();
        Ok(())
    }

    fn begin_plain(&mut self, byte: u8) -> Result<(), Refusal> {
        match byte {
            b'"' => {
                self.begin_value(byte);
                self.state = State::Text { is_name: false, escaped: false };
            }
            b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => {
                self.begin_value(byte);
                if self.sink == Sink::Capture {
                    self.capture.push(byte);
                }
                self.state = State::Bare;
            }
            _ => return Err(Refusal::Syntax),
        }
        Ok(())
    }

    /// Chooses what becomes of the value that starts with `byte`, by where it stands.
    fn begin_value(&mut self, byte: u8) {
        if self.sink == Sink::Hash {
            return;
        }
        let is_text = byte == b'"';
        let sink = match (self.depth, self.top) {
            (1, Name::System | Name::Prompt) => Sink::Hash,
            (1, Name::Messages) if byte == b'[' => {
                self.messages = Messages::default();
                Sink::Nothing
            }
            (1, Name::Messages) => Sink::Hash,
            (1, Name::Stream | Name::MaxTokens) => Sink::Capture,
            (1, Name::Model | Name::PromptCacheKey | Name::PreviousResponseId | Name::User) if is_text => {
                Sink::Capture
            }
            (1, Name::Conversation) if is_text => Sink::Capture,
            (2, Name::Conversation) if is_text && self.inner == Inner::Id => Sink::Capture,
            (2, Name::Messages) if byte == b'{' => {
                (self.messages.role, self.messages.content) = (Role::Other, None);
                Sink::Nothing
            }
            // Texts or tokens to embed: together they are what one user says.
            (2, Name::Messages) if !self.messages.complete => Sink::Hash,
            (3, Name::Messages) if self.messages.complete => Sink::Nothing,
            (3, Name::Messages) if self.inner == Inner::Role && is_text => Sink::Capture,
            (3, Name::Messages) if self.inner == Inner::Content => Sink::Hash,
            _ => Sink::Nothing,
        };
        self.sink = sink;
        self.capture.clear();
        self.overlong = false;
        if sink == Sink::Hash {
            self.hasher = PrefixHasher::new();
            self.hash_depth = self.depth;
            self.hash(&[byte]);
        }
    }

    /// Names matter at the top, in a message, and in `conversation`.
    fn begin_name(&mut self) {
        self.state = State::Text { is_name: true, escaped: false };
        if self.sink == Sink::Hash {
            return;
        }
        let matters = match (self.depth, self.top) {
            (1, _) | (2, Name::Conversation) => true,
            (3, Name::Messages) => !self.messages.complete,
            _ => false,
        };
        self.sink = if matters { Sink::Capture } else { Sink::Nothing };
        self.capture.clear();
        self.overlong = false;
    }

    fn end_name(&mut self) {
        self.state = State::Colon;
        if self.sink == Sink::Hash {
            self.hash(b"\"");
            return;
        }
        let name = if self.sink == Sink::Capture && !self.overlong { decode(&self.capture) } else { None };
        self.sink = Sink::Nothing;
        let name = name.as_deref().unwrap_or_default();
        if self.depth == 1 {
            self.top = Name::of(name);
        } else {
            self.inner = match name {
                "role" => Inner::Role,
                "content" => Inner::Content,
                "id" => Inner::Id,
                _ => Inner::Other,
            };
        }
    }

    fn end_text(&mut self) {
        if self.sink == Sink::Hash {
            self.hash(b"\"");
        } else if self.sink == Sink::Capture {
            let text = if self.overlong { None } else { decode(&self.capture) };
            self.found_text(text);
        }
        self.end_value();
    }

    fn found_text(&mut self, text: Option<String>) {
        let place = match self.top {
            Name::Model => &mut self.findings.model,
            Name::Conversation => &mut self.findings.conversation,
            Name::PromptCacheKey => &mut self.findings.prompt_cache_key,
            Name::PreviousResponseId => &mut self.findings.previous_response_id,
            Name::User => &mut self.findings.user,
            Name::Messages => {
                self.messages.role = match text.as_deref() {
                    Some("system" | "developer") => Role::System,
                    Some("user") => Role::User,
                    _ => Role::Other,
                };
                return;
            }
            _ => return,
        };
        *place = text.filter(|text| !text.is_empty());
    }

    fn end_bare(&mut self) {
        if self.sink == Sink::Capture {
            match self.top {
                Name::Stream => self.findings.stream = self.capture == b"true",
                Name::MaxTokens => {
                    let number = std::str::from_utf8(&self.capture).ok().and_then(|text| text.parse().ok());
                    self.findings.max_tokens = number.or(self.findings.max_tokens);
                }
                _ => {}
            }
        }
        self.end_value();
    }

    /// After a value of any kind, the depth being that of its place.
    fn end_value(&mut self) {
        self.state = if self.depth == 0 { State::End } else { State::CommaOrEnd };
        if self.sink == Sink::Hash && self.depth == self.hash_depth {
            self.end_hash();
        } else if self.sink == Sink::Capture {
            self.sink = Sink::Nothing;
        } else if self.sink == Sink::Nothing && self.depth == 2 && self.top == Name::Messages {
            self.end_message();
        }
    }

    fn end_hash(&mut self) {
        self.sink = Sink::Nothing;
        let hash = self.hasher.finish();
        match (self.top, self.hash_depth) {
            (Name::System, _) => self.system = Some(hash),
            (Name::Prompt, _) => self.prompt = Some(hash),
            (_, 1) => self.messages = Messages { hash: Some(hash), complete: true, ..Messages::default() },
            (_, 2) => self.messages.hash = Some(join(self.messages.hash.unwrap_or(0), hash)),
            _ => self.messages.content = Some(hash),
        }
    }

    fn end_message(&mut self) {
        let Messages { role, content, complete, .. } = self.messages;
        self.messages.content = None;
        let Some(content) = content else { return };
        if complete || role == Role::Other {
            return;
        }
        let tagged = join(content, if role == Role::User { 1 } else { 0 });
        self.messages.hash = Some(join(self.messages.hash.unwrap_or(0), tagged));
        self.messages.complete = role == Role::User;
    }
}

/// A refusal without its place.
enum Refusal {
    Syntax,
    TooDeep { limit: u32 },
}

impl Refusal {
    fn at(self, at: u64) -> ScanError {
        match self {
            Self::Syntax => ScanError::Syntax { at },
            Self::TooDeep { limit } => ScanError::TooDeep { limit },
        }
    }
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
