//! What the fuzz targets call: parsers on arbitrary bytes, with what must hold of their results.
use super::{
    h1::{
        body::{BodyError, BodyReader, Part},
        compose::{self, RequestAdditions},
        field::{Framing, HeadLimits},
        request::RequestHead,
        response::ResponseHead,
    },
    key,
    scan::{FormScanner, JsonScanner, ScanLimits},
};

const HEAD: HeadLimits = HeadLimits { bytes: 4096, fields: 32 };
const SCAN: ScanLimits = ScanLimits { depth: 32, prompt_bytes: 64 };

/// Heads: what is accepted is accepted again as it is written to an engine, with the same framing.
///
/// # Panics
/// The written head is read differently.
pub fn head(data: &[u8]) {
    drop(ResponseHead::parse(data, HEAD));
    let Ok(Some(head)) = RequestHead::parse(data, HEAD) else { return };
    let mut written = Vec::new();
    let additions = RequestAdditions { request_id: None, engine: ([127, 0, 0, 1], 1).into() };
    compose::request(&mut written, data, &head, additions);
    let limits = HeadLimits { bytes: 2 * HEAD.bytes, fields: 2 * HEAD.fields };
    let again = RequestHead::parse(&written, limits).expect("a written head is acceptable");
    let again = again.expect("a written head is complete");
    assert_eq!(again.framing(), head.framing());
    assert_eq!(again.length, written.len());
}

/// Chunked bodies: the end and the data do not depend on the pieces.
///
/// # Panics
/// They do.
pub fn body(data: &[u8]) {
    let follow = |step: usize| {
        let mut reader = BodyReader::new(Framing::Chunked);
        let (mut seen, mut taken) = (Vec::new(), 0);
        for piece in data.chunks(step) {
            let see = |part: Part<'_>| {
                if let Part::Data(bytes) = part {
                    seen.extend_from_slice(bytes);
                }
            };
            taken += reader.advance(piece, see)?;
        }
        Ok::<_, BodyError>((seen, taken, reader.is_done()))
    };
    assert_eq!(follow(1), follow(data.len().max(1)));
}

/// JSON and forms: what is found does not depend on the pieces.
///
/// # Panics
/// It does.
pub fn keys(data: &[u8]) {
    let scan = |step: usize| {
        let mut scanner = JsonScanner::new(SCAN);
        let outcome = data.chunks(step).try_for_each(|piece| scanner.push(piece));
        outcome.map(|()| key::choose(None, &scanner.findings(), |_| None, || 0))
    };
    assert_eq!(scan(1), scan(data.len().max(1)));
    let form = |step: usize| {
        let mut scanner = FormScanner::for_content_type(b"multipart/form-data; boundary=b")?;
        data.chunks(step).for_each(|piece| scanner.push(piece));
        Some((scanner.model, scanner.user))
    };
    assert_eq!(form(1), form(data.len().max(1)));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn arbitrary_bytes_keep_what_the_targets_assert(
            data in prop::collection::vec(prop::sample::select(&b"{}[]\",:\\ a1\r\n-b;=0GET/HTP.\xff"[..]), 0..200),
        ) {
            super::head(&data);
            super::body(&data);
            super::keys(&data);
        }
    }
}
