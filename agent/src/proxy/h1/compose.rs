//! Heads as they are written: the fields that came, in their order and spelling, less those of the other connection.
use std::net::SocketAddr;

use super::{
    field::{Field, Framing, Kind},
    request::{RequestHead, Version},
    response::ResponseHead,
};

/// What the door adds to a request's head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestAdditions<'a> {
    /// For a request that has no `x-request-id`.
    pub(crate) request_id: Option<&'a str>,
    /// `Host` of a request that has none.
    pub(crate) engine: SocketAddr,
}

/// Writes the head of a request to an engine.
pub(crate) fn request(out: &mut Vec<u8>, bytes: &[u8], head: &RequestHead, additions: RequestAdditions<'_>) {
    out.extend_from_slice(head.method.of(bytes));
    out.push(b' ');
    out.extend_from_slice(head.target.of(bytes));
    out.extend_from_slice(b" HTTP/1.1\r\n");
    for one in &head.fields.list {
        match one.kind {
            Kind::Hop | Kind::Connection | Kind::Expect | Kind::TransferEncoding => {}
            _ => field(out, bytes, one),
        }
    }
    if head.fields.chunked {
        out.extend_from_slice(b"transfer-encoding: chunked\r\n");
    }
    if let Some(id) = additions.request_id {
        added(out, "x-request-id", id);
    }
    if head.version == Version::Http10 && head.known(bytes, Kind::Host).is_none() {
        added(out, "host", additions.engine.to_string());
    }
    out.extend_from_slice(b"\r\n");
}

/// What the door adds to a response's head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseAdditions<'a> {
    /// For a response that has no `x-request-id`.
    pub(crate) request_id: &'a str,
    pub(crate) server_timing: &'a str,
    pub(crate) decision: Option<&'a str>,
    pub(crate) close: bool,
    /// How the body goes to the client.
    pub(crate) framing: Framing,
}

/// Writes the head of a response to a client.
pub(crate) fn response(
    out: &mut Vec<u8>,
    bytes: &[u8],
    head: &ResponseHead,
    additions: ResponseAdditions<'_>,
) {
    status_line(out, bytes, head);
    head.end_to_end().for_each(|one| field(out, bytes, one));
    if additions.framing == Framing::Chunked {
        out.extend_from_slice(b"transfer-encoding: chunked\r\n");
    }
    if head.known(bytes, Kind::RequestId).is_none() && !additions.request_id.is_empty() {
        added(out, "x-request-id", additions.request_id);
    }
    if !additions.server_timing.is_empty() {
        added(out, "server-timing", additions.server_timing);
    }
    if let Some(decision) = additions.decision {
        added(out, "x-penstock-decision", decision);
    }
    if additions.close {
        out.extend_from_slice(b"connection: close\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

/// Writes an interim response, whose body is never there.
pub(crate) fn interim(out: &mut Vec<u8>, bytes: &[u8], head: &ResponseHead) {
    status_line(out, bytes, head);
    head.end_to_end().for_each(|one| field(out, bytes, one));
    out.extend_from_slice(b"\r\n");
}

fn status_line(out: &mut Vec<u8>, bytes: &[u8], head: &ResponseHead) {
    let mut line = *b"HTTP/1.1 000 ";
    for (place, divisor) in [(9, 100), (10, 10), (11, 1)] {
        line[place] += u8::try_from(head.status / divisor % 10).expect("one digit");
    }
    out.extend_from_slice(&line);
    out.extend_from_slice(head.reason.of(bytes));
    out.extend_from_slice(b"\r\n");
}

fn field(out: &mut Vec<u8>, bytes: &[u8], field: &Field) {
    out.extend_from_slice(&bytes[field.name.range().start..field.value.range().end]);
    out.extend_from_slice(b"\r\n");
}

/// Writes one field.
pub(crate) fn added(out: &mut Vec<u8>, name: &str, value: impl AsRef<[u8]>) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value.as_ref());
    out.extend_from_slice(b"\r\n");
}

/// Writes `data` as one chunk; nothing where there is no data, since an empty chunk ends a body.
pub(crate) fn chunk(out: &mut Vec<u8>, data: &[u8]) {
    if data.is_empty() {
        return;
    }
    out.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::{super::field::HeadLimits, *};

    const LIMITS: HeadLimits = HeadLimits { bytes: 4000, fields: 50 };

    #[test]
    fn a_request_keeps_its_fields_as_they_are_and_loses_those_of_the_connection() {
        let text = "POST http://h/v1?a=b HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, X-Mine\r\nX-Mine: 1\r\n\
            X-Stainless-Lang:  js \r\nTE: trailers\r\nUpgrade: h2c\r\nExpect: 100-continue\r\n\
            Transfer-Encoding: chunked\r\ntraceparent: 00-a-b-01\r\n\r\n";
        let head = RequestHead::parse(text.as_bytes(), LIMITS).unwrap().unwrap();

        let mut out = Vec::new();
        let additions = RequestAdditions { request_id: Some("r1"), engine: ([127, 0, 0, 1], 80).into() };
        request(&mut out, text.as_bytes(), &head, additions);

        assert_eq!(
            String::from_utf8(out).unwrap(),
            "POST /v1?a=b HTTP/1.1\r\nHost: h\r\nX-Stainless-Lang:  js\r\ntraceparent: 00-a-b-01\r\n\
            transfer-encoding: chunked\r\nx-request-id: r1\r\n\r\n"
        );
    }

    #[test]
    fn a_response_keeps_status_reason_and_fields() {
        let text = "HTTP/1.1 429 Slow Down\r\nRetry-After: 3\r\nX-Request-Id: e\r\nKeep-Alive: timeout=5\r\n\
            Content-Length: 2\r\nContent-Encoding: gzip\r\n\r\n";
        let head = ResponseHead::parse(text.as_bytes(), LIMITS).unwrap().unwrap();

        let mut out = Vec::new();
        let additions = ResponseAdditions {
            request_id: "ours",
            server_timing: "t;dur=1",
            decision: Some("slot=1"),
            close: true,
            framing: Framing::Length(2),
        };
        response(&mut out, text.as_bytes(), &head, additions);

        assert_eq!(
            String::from_utf8(out).unwrap(),
            "HTTP/1.1 429 Slow Down\r\nRetry-After: 3\r\nX-Request-Id: e\r\nContent-Length: 2\r\n\
            Content-Encoding: gzip\r\nserver-timing: t;dur=1\r\nx-penstock-decision: slot=1\r\n\
            connection: close\r\n\r\n"
        );
    }
}
