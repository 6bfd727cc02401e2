//! Heads of responses.
use super::field::{
    Field, Fields, Framing, HeadError, HeadLimits, Kind, Span, decimal, fields, is_field_value, line,
};

/// A response's status and fields, as spans into the bytes that it was read from.
#[derive(Debug)]
pub(crate) struct ResponseHead {
    pub(crate) status: u16,
    pub(crate) reason: Span,
    pub(crate) fields: Fields,
    /// Bytes of the head with its empty line.
    pub(crate) length: usize,
    http10: bool,
}

impl ResponseHead {
    /// Reads a head from the start of `bytes`. `None`: not complete.
    pub(crate) fn parse(bytes: &[u8], limits: HeadLimits) -> Result<Option<Self>, HeadError> {
        let parsed = Self::parse_complete(bytes, limits)?;
        if parsed.is_none() && bytes.len() >= limits.bytes {
            return Err(HeadError::TooLong { limit: limits.bytes });
        }
        Ok(parsed)
    }

    fn parse_complete(bytes: &[u8], limits: HeadLimits) -> Result<Option<Self>, HeadError> {
        let Some((first, next)) = line(bytes, 0)? else { return Ok(None) };
        let text = first.of(bytes);
        let http10 = match text.get(..9) {
            Some(b"HTTP/1.1 ") => false,
            Some(b"HTTP/1.0 ") => true,
            _ => return Err(HeadError::FirstLine),
        };
        let code = text.get(9..12).and_then(decimal).and_then(|code| u16::try_from(code).ok());
        let status = code.filter(|code| (100..=599).contains(code)).ok_or(HeadError::FirstLine)?;
        let reason = match &text[12..] {
            [] => Span::new(12, 12),
            [b' ', reason @ ..] if is_field_value(reason) => Span::new(13, text.len()),
            _ => return Err(HeadError::FirstLine),
        };
        let Some((fields, length)) = fields(bytes, next, limits)? else { return Ok(None) };
        if http10 && fields.chunked {
            return Err(HeadError::TransferEncoding);
        }
        Ok(Some(Self { status, reason, fields, length, http10 }))
    }

    /// An interim answer, which another follows.
    pub(crate) fn is_interim(&self) -> bool {
        self.status < 200
    }

    pub(crate) fn framing(&self, to_head: bool) -> Framing {
        match self.fields.length {
            _ if to_head || matches!(self.status, 100..=199 | 204 | 304) => Framing::None,
            _ if self.fields.chunked => Framing::Chunked,
            Some(0) => Framing::None,
            Some(length) => Framing::Length(length),
            None => Framing::UntilClose,
        }
    }

    /// Whether the engine takes another request on this connection.
    pub(crate) fn keeps_alive(&self) -> bool {
        !self.fields.close && (!self.http10 || self.fields.keep_alive)
    }

    pub(crate) fn known<'a>(&self, bytes: &'a [u8], kind: Kind) -> Option<&'a [u8]> {
        self.fields.list.iter().find(|field| field.kind == kind).map(|field| field.value.of(bytes))
    }

    /// Fields that a client on another connection gets.
    pub(crate) fn end_to_end(&self) -> impl Iterator<Item = &Field> {
        let hop = |kind| matches!(kind, Kind::Hop | Kind::Connection | Kind::TransferEncoding);
        self.fields.list.iter().filter(move |field| !hop(field.kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: HeadLimits = HeadLimits { bytes: 1000, fields: 10 };

    fn parse(text: &str) -> Result<Option<ResponseHead>, HeadError> {
        ResponseHead::parse(text.as_bytes(), LIMITS)
    }

    #[test]
    fn a_response_has_its_parts() {
        let text = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n";

        let head = parse(text).unwrap().unwrap();

        assert_eq!(head.status, 429);
        assert_eq!(head.reason.of(text.as_bytes()), b"Too Many Requests");
        assert_eq!(head.framing(false), Framing::None);
        assert!(head.keeps_alive());
    }

    #[test]
    fn the_framing_follows_status_and_fields() {
        for (head, to_head, expected) in [
            ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", false, Framing::Chunked),
            ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", true, Framing::None),
            ("HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n", false, Framing::Length(7)),
            ("HTTP/1.1 304 Not Modified\r\ncontent-length: 7\r\n\r\n", false, Framing::None),
            ("HTTP/1.1 204\r\n\r\n", false, Framing::None),
            ("HTTP/1.0 200 \r\n\r\n", false, Framing::UntilClose),
        ] {
            assert_eq!(parse(head).unwrap().unwrap().framing(to_head), expected, "{head}");
        }
    }

    #[test]
    fn what_is_not_http_is_refused() {
        for text in [
            "SSH-2.0-OpenSSH_9.2\r\n",
            "HTTP/2 200 OK\r\n\r\n",
            "HTTP/1.1 20 OK\r\n\r\n",
            "HTTP/1.1 2000\r\n\r\n",
            "HTTP/1.1 999 No\r\n\r\n",
            "HTTP/1.1 200OK\r\n\r\n",
            "\r\n\r\n",
        ] {
            assert_eq!(parse(text).map(drop).unwrap_err(), HeadError::FirstLine, "{text}");
        }
    }

    #[test]
    fn http_1_0_keeps_the_connection_only_when_it_says_so() {
        let silent = parse("HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\n").unwrap().unwrap();
        let spoken =
            parse("HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 1\r\n\r\n").unwrap().unwrap();

        assert!(!silent.keeps_alive());
        assert!(spoken.keeps_alive());
    }
}
