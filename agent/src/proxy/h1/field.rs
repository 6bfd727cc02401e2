//! Header fields of a head, and the rules that requests and responses share.
use std::ops::Range;

use memchr::memchr;

/// Where a piece of a head stands in its bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// Heads are bounded far below 4 GiB.
    pub(crate) fn new(start: usize, end: usize) -> Self {
        let narrow = |at: usize| u32::try_from(at).expect("heads are shorter than 4 GiB");
        Self { start: narrow(start), end: narrow(end) }
    }

    pub(crate) fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    pub(crate) fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.range()]
    }
}

/// What the proxy does with a field.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// Passed on as it stands.
    Plain,
    /// Meant for this connection alone, or named by `Connection`: not passed on.
    Hop,
    Connection,
    ContentLength,
    TransferEncoding,
    Host,
    Expect,
    ContentType,
    ContentEncoding,
    RequestId,
}

impl Kind {
    fn of(name: &[u8]) -> Self {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        match name.len() {
            2 if is("te") => Self::Hop,
            4 if is("host") => Self::Host,
            6 if is("expect") => Self::Expect,
            7 if is("upgrade") => Self::Hop,
            10 if is("connection") => Self::Connection,
            10 if is("keep-alive") => Self::Hop,
            12 if is("content-type") => Self::ContentType,
            12 if is("x-request-id") => Self::RequestId,
            14 if is("content-length") => Self::ContentLength,
            16 if is("content-encoding") => Self::ContentEncoding,
            16 if is("proxy-connection") => Self::Hop,
            17 if is("transfer-encoding") => Self::TransferEncoding,
            _ => Self::Plain,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(crate) name: Span,
    pub(crate) value: Span,
    pub(crate) kind: Kind,
}

/// Bounds of a head. More is refused, with 431 for a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct HeadLimits {
    pub(crate) bytes: usize,
    pub(crate) fields: usize,
}

/// Why a head is not acceptable.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum HeadError {
    #[error("the head is longer than {limit} bytes")]
    TooLong { limit: usize },
    #[error("the head has more than {limit} fields")]
    TooManyFields { limit: usize },
    #[error("a line does not end with CR LF")]
    LineEnd,
    #[error("the first line is malformed")]
    FirstLine,
    #[error("the HTTP version is not supported")]
    Version,
    #[error("a field name is malformed")]
    Name,
    #[error("a field value has a control character")]
    Value,
    #[error("a field is folded over two lines")]
    Folded,
    #[error("content-length is malformed or repeated")]
    ContentLength,
    #[error("transfer-encoding is not \"chunked\" alone, or stands beside content-length")]
    TransferEncoding,
    #[error("host is missing, malformed or repeated, or disagrees with the target")]
    Host,
    #[error("the target is malformed")]
    Target,
}

/// How a message's body ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Framing {
    None,
    Length(u64),
    Chunked,
    /// At the end of the connection; responses only.
    UntilClose,
}

/// Fields in order, with what the framing needs of them.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    pub(crate) list: Vec<Field>,
    pub(crate) length: Option<u64>,
    pub(crate) chunked: bool,
    pub(crate) close: bool,
    pub(crate) keep_alive: bool,
}

/// The next line of `bytes` from `at`, without CR LF, and where the one after it starts. `None`: not complete.
pub(crate) fn line(bytes: &[u8], at: usize) -> Result<Option<(Span, usize)>, HeadError> {
    let Some(length) = memchr(b'\n', &bytes[at..]) else { return Ok(None) };
    let end = at + length;
    if length == 0 || bytes[end - 1] != b'\r' {
        return Err(HeadError::LineEnd);
    }
    Ok(Some((Span::new(at, end - 1), end + 1)))
}

/// Reads fields from `at` to the empty line. `None`: not complete.
pub(crate) fn fields(
    bytes: &[u8],
    mut at: usize,
    limits: HeadLimits,
) -> Result<Option<(Fields, usize)>, HeadError> {
    let mut fields = Fields { list: Vec::with_capacity(16), ..Fields::default() };
    loop {
        let Some((span, next)) = line(bytes, at)? else { return Ok(None) };
        if next > limits.bytes {
            return Err(HeadError::TooLong { limit: limits.bytes });
        }
        if span.range().is_empty() {
            fields.mark_named_by_connection(bytes);
            return Ok(Some((fields, next)));
        }
        if fields.list.len() == limits.fields {
            return Err(HeadError::TooManyFields { limit: limits.fields });
        }
        fields.push(bytes, span)?;
        at = next;
    }
}

impl Fields {
    fn push(&mut self, bytes: &[u8], span: Span) -> Result<(), HeadError> {
        let line = span.of(bytes);
        if matches!(line[0], b' ' | b'\t') {
            return Err(HeadError::Folded);
        }
        let colon = memchr(b':', line).ok_or(HeadError::Name)?;
        let (name, value) = (&line[..colon], &line[colon + 1..]);
        if !is_token(name) {
            return Err(HeadError::Name);
        }
        if !is_field_value(value) {
            return Err(HeadError::Value);
        }
        let trimmed = trim(value);
        let start = span.range().start;
        let value_start = start + colon + 1 + leading_blanks(value);
        let field = Field {
            name: Span::new(start, start + colon),
            value: Span::new(value_start, value_start + trimmed.len()),
            kind: Kind::of(name),
        };
        self.note(field.kind, trimmed)?;
        self.list.push(field);
        Ok(())
    }

    fn note(&mut self, kind: Kind, value: &[u8]) -> Result<(), HeadError> {
        match kind {
            Kind::ContentLength => {
                if self.length.is_some() {
                    return Err(HeadError::ContentLength);
                }
                self.length = Some(decimal(value).ok_or(HeadError::ContentLength)?);
            }
            Kind::TransferEncoding => {
                if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
                    return Err(HeadError::TransferEncoding);
                }
                self.chunked = true;
            }
            Kind::Connection => {
                for option in options(value) {
                    self.close |= option.eq_ignore_ascii_case(b"close");
                    self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            _ => {}
        }
        if self.chunked && self.length.is_some() {
            return Err(HeadError::TransferEncoding);
        }
        Ok(())
    }

    /// Fields that `Connection` names are for this connection alone. Those that framing and routing rest on stay
    /// what they are: naming them must not make them vanish.
    fn mark_named_by_connection(&mut self, bytes: &[u8]) {
        let spans: Vec<Span> = self
            .list
            .iter()
            .filter(|field| field.kind == Kind::Connection)
            .map(|field| field.value)
            .collect();
        for named in spans.iter().flat_map(|span| options(span.of(bytes))) {
            for field in &mut self.list {
                let nameable = matches!(field.kind, Kind::Plain | Kind::RequestId);
                if nameable && field.name.of(bytes).eq_ignore_ascii_case(named) {
                    field.kind = Kind::Hop;
                }
            }
        }
    }
}

/// The elements of a comma-separated list.
fn options(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(trim).filter(|option| !option.is_empty())
}

fn leading_blanks(value: &[u8]) -> usize {
    value.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

/// Without blanks at either end.
pub(crate) fn trim(value: &[u8]) -> &[u8] {
    let value = &value[leading_blanks(value)..];
    let blanks = value.iter().rev().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    &value[..value.len() - blanks]
}

/// A number of 1 to 18 digits and nothing else.
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 18 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(text.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

const TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let others = b"!#$%&'*+-.^_`|~";
    let mut at = 0;
    while at < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "at is below 256")]
        let byte = at as u8;
        table[at] = byte.is_ascii_alphanumeric();
        at += 1;
    }
    let mut at = 0;
    while at < others.len() {
        table[others[at] as usize] = true;
        at += 1;
    }
    table
};

/// One or more characters of RFC 9110's `tchar`.
pub(crate) fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|byte| TOKEN[usize::from(*byte)])
}

/// Visible characters, blanks and bytes above 127. Written so that it runs over many bytes at once.
pub(crate) fn is_field_value(text: &[u8]) -> bool {
    !text.iter().fold(false, |bad, &byte| bad | (byte < b' ' && byte != b'\t') | (byte == 0x7f))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: HeadLimits = HeadLimits { bytes: 1000, fields: 4 };

    fn read(text: &str) -> Result<Option<(Fields, usize)>, HeadError> {
        fields(text.as_bytes(), 0, LIMITS)
    }

    fn refusal(text: &str) -> HeadError {
        read(text).map(drop).unwrap_err()
    }

    #[test]
    fn fields_are_cut_at_the_colon_and_trimmed() {
        let text = "Host: a\r\nX-Note: \t two words \t\r\n\r\nrest";

        let (fields, end) = read(text).unwrap().unwrap();

        assert_eq!(&text[end..], "rest");
        assert_eq!(fields.list[1].name.of(text.as_bytes()), b"X-Note");
        assert_eq!(fields.list[1].value.of(text.as_bytes()), b"two words");
    }

    #[test]
    fn every_proper_prefix_is_incomplete() {
        let text = "content-length: 12\r\nx: y\r\n\r\n";

        for end in 0..text.len() {
            assert!(read(&text[..end]).unwrap().is_none(), "{end}");
        }
    }

    #[test]
    fn a_bare_line_feed_is_refused() {
        assert_eq!(refusal("a: b\nc: d\r\n\r\n"), HeadError::LineEnd);
        assert_eq!(refusal("a: b\r\n\n"), HeadError::LineEnd);
    }

    #[test]
    fn a_bare_carriage_return_is_refused() {
        assert_eq!(refusal("a: b\rc: d\r\n\r\n"), HeadError::Value);
    }

    #[test]
    fn a_folded_field_is_refused() {
        assert_eq!(refusal("a: b\r\n c\r\n\r\n"), HeadError::Folded);
    }

    #[test]
    fn a_blank_before_the_colon_is_refused() {
        assert_eq!(refusal("transfer-encoding : chunked\r\n\r\n"), HeadError::Name);
        assert_eq!(refusal(": x\r\n\r\n"), HeadError::Name);
        assert_eq!(refusal("no colon\r\n\r\n"), HeadError::Name);
    }

    #[test]
    fn a_nul_in_a_value_is_refused() {
        assert_eq!(refusal("a: b\0c\r\n\r\n"), HeadError::Value);
    }

    #[test]
    fn lengths_that_are_doubled_or_malformed_are_refused() {
        for value in ["1\r\ncontent-length: 1", "1, 1", "+1", "-1", "0x1", "1 1", "", "9999999999999999999"] {
            let text = format!("content-length: {value}\r\n\r\n");

            assert_eq!(refusal(&text), HeadError::ContentLength, "{value}");
        }
    }

    #[test]
    fn a_transfer_encoding_other_than_chunked_alone_is_refused() {
        for value in
            ["gzip", "chunked, chunked", "gzip, chunked", "chunked\r\ntransfer-encoding: chunked", "xchunked"]
        {
            let text = format!("transfer-encoding: {value}\r\n\r\n");

            assert_eq!(refusal(&text), HeadError::TransferEncoding, "{value}");
        }
    }

    #[test]
    fn a_length_beside_chunked_is_refused_in_either_order() {
        let one = "content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n";
        let other = "transfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n";

        assert_eq!(refusal(one), HeadError::TransferEncoding);
        assert_eq!(refusal(other), HeadError::TransferEncoding);
    }

    #[test]
    fn too_many_fields_and_too_many_bytes_are_refused() {
        assert_eq!(refusal(&"a: b\r\n".repeat(5)), HeadError::TooManyFields { limit: 4 });
        assert_eq!(refusal(&format!("a: {}\r\n", "b".repeat(1000))), HeadError::TooLong { limit: 1000 });
    }

    #[test]
    fn a_field_that_connection_names_is_for_this_hop_but_never_the_framing() {
        let text =
            "connection: x-hop, content-length, host\r\nX-Hop: 1\r\nContent-Length: 2\r\nHost: h\r\n\r\n";

        let (fields, _) = read(text).unwrap().unwrap();

        let kinds: Vec<Kind> = fields.list.iter().map(|field| field.kind).collect();
        assert_eq!(kinds, [Kind::Connection, Kind::Hop, Kind::ContentLength, Kind::Host]);
    }
}
