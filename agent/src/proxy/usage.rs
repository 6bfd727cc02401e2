//! Counts tokens and events in an answer as it passes, without parsing it.
use memchr::{memchr_iter, memmem};

/// What an answer says of its tokens.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Usage {
    pub(crate) prompt_tokens: Option<u64>,
    pub(crate) output_tokens: Option<u64>,
    /// Server-sent events with data, `[DONE]` left out.
    pub(crate) events: u64,
}

impl Usage {
    /// Looks at a piece of the body; returns the events that start in it. A number that is cut by the end of a piece
    /// is lost, and events then stand in for tokens.
    pub(crate) fn see(&mut self, piece: &[u8], is_stream: bool) -> u64 {
        self.tokens(piece);
        if !is_stream {
            return 0;
        }
        let starts = std::iter::once(0).chain(memchr_iter(b'\n', piece).map(|at| at + 1));
        let data = starts.filter_map(|at| piece[at..].strip_prefix(b"data:"));
        let events = data.filter(|rest| !rest.trim_ascii_start().starts_with(b"[DONE]")).count() as u64;
        self.events += events;
        events
    }

    /// Output tokens as told, or else as counted.
    pub(crate) fn output(&self) -> u64 {
        self.output_tokens.unwrap_or(self.events)
    }

    fn tokens(&mut self, piece: &[u8]) {
        for at in memmem::find_iter(piece, b"_tokens\":") {
            let place = match &piece[..at] {
                name if name.ends_with(b"\"completion") || name.ends_with(b"\"output") => {
                    &mut self.output_tokens
                }
                name if name.ends_with(b"\"prompt") || name.ends_with(b"\"input") => &mut self.prompt_tokens,
                _ => continue,
            };
            let number = piece[at + 9..].trim_ascii_start();
            let digits = number.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if let Some(value) = super::h1::field::decimal(&number[..digits]) {
                *place = Some(value);
            }
        }
    }
}

/// The id of a response of the responses API, if it stands in this piece.
pub(crate) fn response_id(piece: &[u8]) -> Option<&str> {
    let start = memmem::find(piece, b"\"id\":")? + 5;
    let text = piece[start..].trim_ascii_start().strip_prefix(b"\"")?;
    let end = memchr::memchr(b'"', text).filter(|end| *end <= 128)?;
    std::str::from_utf8(&text[..end]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_from_usage_in_either_dialect_and_details_are_left_aside() {
        let chat = br#"{"usage":{"prompt_tokens":12,"completion_tokens": 34,"x":{"cached_tokens":99}}}"#;
        let messages = br#"{"usage":{"input_tokens":1,"output_tokens":2}}"#;

        let read = |text: &[u8]| {
            let mut usage = Usage::default();
            usage.see(text, false);
            (usage.prompt_tokens, usage.output_tokens)
        };

        assert_eq!(read(chat), (Some(12), Some(34)));
        assert_eq!(read(messages), (Some(1), Some(2)));
    }

    #[test]
    fn events_stand_in_for_tokens_where_usage_is_not_told() {
        let mut usage = Usage::default();

        assert_eq!(usage.see(b"data: {\"a\":\"data: \\ndata:\"}\n\n: comment\n\ndata:{}\n\n", true), 2);
        assert_eq!(usage.see(b"data: [DONE]\n\n", true), 0);

        assert_eq!(usage.output(), 2);
    }

    #[test]
    fn a_response_id_is_found() {
        assert_eq!(response_id(b"data: {\"response\":{\"id\": \"resp_1\",\"x\":1"), Some("resp_1"));
        assert_eq!(response_id(b"{\"id\":\"resp"), None);
    }
}
