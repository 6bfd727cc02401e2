//! Heads of requests.
use super::field::{Fields, Framing, HeadError, HeadLimits, Kind, Span, fields, is_token, line};

/// A request's line and fields, as spans into the bytes that it was read from.
#[derive(Debug)]
pub(crate) struct RequestHead {
    pub(crate) method: Span,
    /// In origin form: a path with its query.
    pub(crate) target: Span,
    pub(crate) fields: Fields,
    /// Bytes of the head with its empty line.
    pub(crate) length: usize,
    pub(crate) version: Version,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Version {
    Http10,
    Http11,
}

impl RequestHead {
    /// Reads a head from the start of `bytes`. `None`: not complete. One empty line before it is skipped.
    pub(crate) fn parse(bytes: &[u8], limits: HeadLimits) -> Result<Option<Self>, HeadError> {
        let start = if bytes.starts_with(b"\r\n") { 2 } else { 0 };
        let parsed = Self::parse_from(bytes, start, limits)?;
        if parsed.is_none() && bytes.len() >= limits.bytes {
            return Err(HeadError::TooLong { limit: limits.bytes });
        }
        Ok(parsed)
    }

    fn parse_from(bytes: &[u8], start: usize, limits: HeadLimits) -> Result<Option<Self>, HeadError> {
        let Some((first, next)) = line(bytes, start)? else { return Ok(None) };
        let (method, target, version) = request_line(first.of(bytes), first.range().start)?;
        let Some((fields, length)) = fields(bytes, next, limits)? else { return Ok(None) };
        let mut head = Self { method, target, fields, length, version };
        head.check_target_and_host(bytes)?;
        if version == Version::Http10 && head.fields.chunked {
            return Err(HeadError::TransferEncoding);
        }
        Ok(Some(head))
    }

    pub(crate) fn framing(&self) -> Framing {
        match self.fields.length {
            _ if self.fields.chunked => Framing::Chunked,
            None | Some(0) => Framing::None,
            Some(length) => Framing::Length(length),
        }
    }

    /// Whether the client means to send another request on this connection.
    pub(crate) fn keeps_alive(&self) -> bool {
        match self.version {
            Version::Http11 => !self.fields.close,
            Version::Http10 => false,
        }
    }

    /// The value of the first field of that name.
    pub(crate) fn field<'a>(&self, bytes: &'a [u8], name: &str) -> Option<&'a [u8]> {
        let mut list = self.fields.list.iter();
        let same = |span: Span| span.of(bytes).eq_ignore_ascii_case(name.as_bytes());
        list.find(|field| same(field.name)).map(|field| field.value.of(bytes))
    }

    /// The value of the first field of a kind.
    pub(crate) fn known<'a>(&self, bytes: &'a [u8], kind: Kind) -> Option<&'a [u8]> {
        self.fields.list.iter().find(|field| field.kind == kind).map(|field| field.value.of(bytes))
    }

    /// One well-formed Host, or none before HTTP/1.1. A target in absolute form must name the same host, and is cut
    /// to its path.
    fn check_target_and_host(&mut self, bytes: &[u8]) -> Result<(), HeadError> {
        let mut hosts = self.fields.list.iter().filter(|field| field.kind == Kind::Host);
        let host = match (hosts.next(), hosts.next()) {
            (Some(field), None) => Some(field.value.of(bytes)),
            (None, _) if self.version == Version::Http10 => None,
            _ => return Err(HeadError::Host),
        };
        if host.is_some_and(|host| !host.iter().all(|byte| is_host_byte(*byte))) {
            return Err(HeadError::Host);
        }
        let target = self.target.of(bytes);
        match target {
            [b'/', ..] => Ok(()),
            b"*" if self.method.of(bytes) == b"OPTIONS" => Ok(()),
            _ => {
                let after_scheme = absolute(target).ok_or(HeadError::Target)?;
                let path = memchr::memchr(b'/', &target[after_scheme..]).ok_or(HeadError::Target)?;
                let authority = &target[after_scheme..after_scheme + path];
                if host.is_none_or(|host| !host.eq_ignore_ascii_case(authority)) {
                    return Err(HeadError::Host);
                }
                let range = self.target.range();
                self.target = Span::new(range.start + after_scheme + path, range.end);
                Ok(())
            }
        }
    }
}

/// Cuts `METHOD SP target SP HTTP/1.x`.
fn request_line(text: &[u8], at: usize) -> Result<(Span, Span, Version), HeadError> {
    let method_end = memchr::memchr(b' ', text).ok_or(HeadError::FirstLine)?;
    let target_end = memchr::memrchr(b' ', text).ok_or(HeadError::FirstLine)?;
    if target_end <= method_end + 1 || !is_token(&text[..method_end]) {
        return Err(HeadError::FirstLine);
    }
    let version = match &text[target_end + 1..] {
        b"HTTP/1.1" => Version::Http11,
        b"HTTP/1.0" => Version::Http10,
        other if other.starts_with(b"HTTP/") => return Err(HeadError::Version),
        _ => return Err(HeadError::FirstLine),
    };
    let target = &text[method_end + 1..target_end];
    if !target.iter().all(u8::is_ascii_graphic) {
        return Err(HeadError::Target);
    }
    Ok((Span::new(at, at + method_end), Span::new(at + method_end + 1, at + target_end), version))
}

/// Where the authority of an absolute target starts.
fn absolute(target: &[u8]) -> Option<usize> {
    let has = |scheme: &str| {
        target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme.as_bytes()))
    };
    ["http://", "https://"].into_iter().find(|scheme| has(scheme)).map(str::len)
}

fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%[]:!$&'()*+;=".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: HeadLimits = HeadLimits { bytes: 1000, fields: 10 };

    fn parse(text: &str) -> Result<Option<RequestHead>, HeadError> {
        RequestHead::parse(text.as_bytes(), LIMITS)
    }

    fn refusal(text: &str) -> HeadError {
        parse(text).map(drop).unwrap_err()
    }

    #[test]
    fn a_post_has_its_parts() {
        let text = "POST /v1/chat/completions?x=1 HTTP/1.1\r\nHost: h:80\r\nContent-Length: 5\r\n\r\nhello";

        let head = parse(text).unwrap().unwrap();

        assert_eq!(head.method.of(text.as_bytes()), b"POST");
        assert_eq!(head.target.of(text.as_bytes()), b"/v1/chat/completions?x=1");
        assert_eq!(head.framing(), Framing::Length(5));
        assert_eq!(&text[head.length..], "hello");
        assert!(head.keeps_alive());
    }

    #[test]
    fn every_proper_prefix_is_incomplete() {
        let text = "\r\nGET / HTTP/1.1\r\nhost: h\r\n\r\n";

        for end in 0..text.len() {
            assert!(parse(&text[..end]).unwrap().is_none(), "{end}");
        }
        assert_eq!(parse(text).unwrap().unwrap().length, text.len());
    }

    #[test]
    fn malformed_first_lines_are_refused() {
        for (line, expected) in [
            ("GET / HTTP/2.0", HeadError::Version),
            ("GET / HTTP/1.10", HeadError::Version),
            ("GET / http/1.1", HeadError::FirstLine),
            ("GET /", HeadError::FirstLine),
            ("GET  HTTP/1.1", HeadError::FirstLine),
            ("G(T / HTTP/1.1", HeadError::FirstLine),
            (" / HTTP/1.1", HeadError::FirstLine),
            ("GET /a b HTTP/1.1", HeadError::Target),
            ("GET /\u{e9} HTTP/1.1", HeadError::Target),
            ("GET /\t HTTP/1.1", HeadError::Target),
            ("GET h HTTP/1.1", HeadError::Target),
            ("GET * HTTP/1.1", HeadError::Target),
            ("CONNECT h:80 HTTP/1.1", HeadError::Target),
        ] {
            assert_eq!(refusal(&format!("{line}\r\nhost: h\r\n\r\n")), expected, "{line}");
        }
    }

    #[test]
    fn hosts_that_are_missing_doubled_or_malformed_are_refused() {
        for fields in ["", "host: a\r\nhost: a\r\n", "host: a b\r\n", "host: a@b\r\n", "host: a/b\r\n"] {
            assert_eq!(refusal(&format!("GET / HTTP/1.1\r\n{fields}\r\n")), HeadError::Host, "{fields}");
        }
    }

    #[test]
    fn a_target_in_absolute_form_is_cut_to_its_path_when_it_agrees_with_the_host() {
        let text = "GET http://Example:80/v1/models HTTP/1.1\r\nhost: example:80\r\n\r\n";

        let head = parse(text).unwrap().unwrap();

        assert_eq!(head.target.of(text.as_bytes()), b"/v1/models");
    }

    #[test]
    fn a_target_in_absolute_form_that_names_another_host_is_refused() {
        assert_eq!(refusal("GET http://a/ HTTP/1.1\r\nhost: b\r\n\r\n"), HeadError::Host);
    }

    #[test]
    fn http_1_0_neither_keeps_the_connection_nor_sends_chunks() {
        let head = parse("GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n").unwrap().unwrap();

        assert!(!head.keeps_alive());
        assert_eq!(
            refusal("POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n"),
            HeadError::TransferEncoding
        );
    }

    #[test]
    fn a_head_without_an_end_is_refused_at_the_limit() {
        let text = format!("GET /{} HTTP/1.1", "a".repeat(1000));

        assert_eq!(refusal(&text), HeadError::TooLong { limit: 1000 });
    }
}
