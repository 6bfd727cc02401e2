//! Where a body ends, found while its bytes pass through as they are.
use super::field::{Framing, is_field_value};

/// Bytes of all trailers together.
const MAX_TRAILERS: u32 = 8 * 1024;

/// Follows a body over pieces of any size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyReader {
    state: State,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Length(u64),
    UntilClose,
    /// In a chunk's size, with the digits so far.
    Size {
        digits: u8,
        size: u64,
    },
    SizeEnd {
        size: u64,
    },
    Data(u64),
    DataEnd,
    DataLineEnd,
    /// At the start of a trailer line, or of the empty line that ends the body.
    TrailerStart {
        bytes: u32,
    },
    Trailer {
        bytes: u32,
    },
    TrailerEnd {
        bytes: u32,
    },
    LastLineEnd,
    Done,
}

/// What a piece of a body's bytes is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Part<'a> {
    Data(&'a [u8]),
    /// Part of the trailer lines, CR LF included.
    Trailer(&'a [u8]),
}

/// Why a body cannot be followed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("a chunk's size is malformed or has an extension")]
    ChunkSize,
    #[error("a chunk does not end where its size says")]
    ChunkEnd,
    #[error("a trailer is malformed")]
    Trailer,
    #[error("the trailers are longer than {MAX_TRAILERS} bytes")]
    TrailersTooLong,
}

impl BodyReader {
    pub(crate) fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::None | Framing::Length(0) => State::Done,
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::Size { digits: 0, size: 0 },
            Framing::UntilClose => State::UntilClose,
        };
        Self { state }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Whether the body ends with the connection.
    pub(crate) fn ends_with_connection(&self) -> bool {
        self.state == State::UntilClose
    }

    /// Bytes still to come, where the head told.
    pub(crate) fn remaining(&self) -> Option<u64> {
        match self.state {
            State::Length(left) => Some(left),
            State::Done => Some(0),
            _ => None,
        }
    }

    /// Bytes of the current chunk still to come, for what is put in place of a stream's lost end.
    pub(crate) fn chunk_rest(&self) -> ChunkRest {
        match self.state {
            State::Size { digits: 0, .. } => ChunkRest::AtBoundary,
            State::Data(left) => ChunkRest::InData(left),
            State::DataEnd => ChunkRest::AtDataEnd,
            _ => ChunkRest::Elsewhere,
        }
    }

    /// Takes the bytes of `input` that belong to the body, tells `see` what they are, and returns how many they are.
    pub(crate) fn advance(
        &mut self,
        input: &[u8],
        mut see: impl FnMut(Part<'_>),
    ) -> Result<usize, BodyError> {
        let mut at = 0;
        while at < input.len() && self.state != State::Done {
            at += self.step(&input[at..], &mut see)?;
        }
        Ok(at)
    }

    /// One step over a non-empty input; returns how many bytes it took.
    fn step(&mut self, input: &[u8], see: &mut impl FnMut(Part<'_>)) -> Result<usize, BodyError> {
        let first = input[0];
        let expect =
            |wanted: u8, next: State, error: BodyError| if first == wanted { Ok(next) } else { Err(error) };
        self.state = match self.state {
            State::Length(left) | State::Data(left) => {
                let taken = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
                see(Part::Data(&input[..taken]));
                let left = left - taken as u64;
                self.state = match self.state {
                    State::Length(_) if left == 0 => State::Done,
                    State::Length(_) => State::Length(left),
                    _ if left == 0 => State::DataEnd,
                    _ => State::Data(left),
                };
                return Ok(taken);
            }
            State::UntilClose => {
                see(Part::Data(input));
                return Ok(input.len());
            }
            State::Size { digits, size } => match hex(first) {
                Some(digit) if digits < 15 => State::Size { digits: digits + 1, size: size << 4 | digit },
                None if first == b'\r' && digits > 0 => State::SizeEnd { size },
                _ => return Err(BodyError::ChunkSize),
            },
            State::SizeEnd { size: 0 } => {
                expect(b'\n', State::TrailerStart { bytes: 0 }, BodyError::ChunkSize)?
            }
            State::SizeEnd { size } => expect(b'\n', State::Data(size), BodyError::ChunkSize)?,
            State::DataEnd => expect(b'\r', State::DataLineEnd, BodyError::ChunkEnd)?,
            State::DataLineEnd => expect(b'\n', State::Size { digits: 0, size: 0 }, BodyError::ChunkEnd)?,
            State::TrailerStart { bytes: _ } if first == b'\r' => State::LastLineEnd,
            State::TrailerStart { bytes } | State::Trailer { bytes } => {
                return self.trailer(input, bytes, see);
            }
            State::TrailerEnd { bytes } => {
                see(Part::Trailer(b"\r\n"));
                expect(b'\n', State::TrailerStart { bytes }, BodyError::Trailer)?
            }
            State::LastLineEnd => expect(b'\n', State::Done, BodyError::Trailer)?,
            State::Done => return Ok(0),
        };
        Ok(1)
    }

    fn trailer(
        &mut self,
        input: &[u8],
        bytes: u32,
        see: &mut impl FnMut(Part<'_>),
    ) -> Result<usize, BodyError> {
        let end = memchr::memchr(b'\r', input);
        let text = &input[..end.unwrap_or(input.len())];
        let starts = matches!(self.state, State::TrailerStart { .. });
        if !is_field_value(text) || (starts && matches!(text.first(), Some(b' ' | b'\t' | b':'))) {
            return Err(BodyError::Trailer);
        }
        let bytes = u32::try_from(text.len()).map_or(u32::MAX, |length| bytes.saturating_add(length));
        if bytes > MAX_TRAILERS {
            return Err(BodyError::TrailersTooLong);
        }
        see(Part::Trailer(text));
        self.state = if end.is_some() { State::TrailerEnd { bytes } } else { State::Trailer { bytes } };
        Ok(text.len() + usize::from(end.is_some()))
    }
}

/// Where a chunked body stands when its sender is lost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ChunkRest {
    /// A new chunk may start.
    AtBoundary,
    InData(u64),
    /// The chunk's data is complete; its CR LF is missing.
    AtDataEnd,
    /// In a size, a line end or the trailers.
    Elsewhere,
}

fn hex(byte: u8) -> Option<u64> {
    char::from(byte).to_digit(16).map(u64::from)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Feeds `input` in pieces of `step` bytes. Returns data, trailers and how much was taken.
    fn follow(
        framing: Framing,
        input: &[u8],
        step: usize,
    ) -> Result<(Vec<u8>, Vec<u8>, usize, bool), BodyError> {
        let mut reader = BodyReader::new(framing);
        let (mut data, mut trailers, mut taken) = (Vec::new(), Vec::new(), 0);
        for piece in input.chunks(step) {
            let took = reader.advance(piece, |part| match part {
                Part::Data(bytes) => data.extend_from_slice(bytes),
                Part::Trailer(bytes) => trailers.extend_from_slice(bytes),
            })?;
            taken += took;
            if took < piece.len() {
                break;
            }
        }
        Ok((data, trailers, taken, reader.is_done()))
    }

    #[test]
    fn chunks_and_trailers_are_found_in_pieces_of_any_size() {
        let input = b"5\r\nhello\r\n00A\r\n, chunked \r\n0\r\nx-a: 1\r\nx-b: 2\r\n\r\nnext";

        for step in 1..=input.len() {
            let (data, trailers, taken, done) = follow(Framing::Chunked, input, step).unwrap();

            assert_eq!(data, b"hello, chunked ");
            assert_eq!(trailers, b"x-a: 1\r\nx-b: 2\r\n");
            assert_eq!(&input[taken..], b"next");
            assert!(done);
        }
    }

    #[test]
    fn a_length_leaves_what_follows() {
        let (data, _, taken, done) = follow(Framing::Length(3), b"abcdef", 2).unwrap();

        assert_eq!((data.as_slice(), taken, done), (&b"abc"[..], 3, true));
    }

    #[test]
    fn malformed_chunks_are_refused() {
        for (input, expected) in [
            (&b"5;name=value\r\nhello\r\n"[..], BodyError::ChunkSize),
            (b"5 \r\nhello\r\n", BodyError::ChunkSize),
            (b"\r\n", BodyError::ChunkSize),
            (b"0x5\r\n", BodyError::ChunkSize),
            (b"-1\r\n", BodyError::ChunkSize),
            (b"5\nhello\r\n", BodyError::ChunkSize),
            (b"5\rhello\r\n", BodyError::ChunkSize),
            (b"1000000000000000\r\n", BodyError::ChunkSize),
            (b"3\r\nhello\r\n", BodyError::ChunkEnd),
            (b"5\r\nhello\n", BodyError::ChunkEnd),
            (b"0\r\n folded\r\n\r\n", BodyError::Trailer),
            (b"0\r\na: b\nc: d\r\n\r\n", BodyError::Trailer),
            (b"0\r\n\rX", BodyError::Trailer),
        ] {
            for step in [1, 100] {
                assert_eq!(
                    follow(Framing::Chunked, input, step).map(drop).unwrap_err(),
                    expected,
                    "{input:?}"
                );
            }
        }
    }

    #[test]
    fn endless_trailers_are_refused() {
        let mut input = b"0\r\n".to_vec();
        input.extend_from_slice("x: y\r\n".repeat(3000).as_bytes());

        assert_eq!(follow(Framing::Chunked, &input, 700).map(drop).unwrap_err(), BodyError::TrailersTooLong);
    }

    proptest! {
        #[test]
        fn a_body_is_the_same_however_it_is_chunked_and_cut(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..50), 0..10),
            step in 1_usize..60,
        ) {
            let mut input = Vec::new();
            for chunk in &chunks {
                input.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                input.extend_from_slice(chunk);
                input.extend_from_slice(b"\r\n");
            }
            input.extend_from_slice(b"0\r\n\r\n");

            let (data, _, taken, done) = follow(Framing::Chunked, &input, step).unwrap();

            prop_assert_eq!(data, chunks.concat());
            prop_assert_eq!(taken, input.len());
            prop_assert!(done);
        }

        #[test]
        fn arbitrary_bytes_never_panic(input in prop::collection::vec(any::<u8>(), 0..200), step in 1_usize..20) {
            follow(Framing::Chunked, &input, step).map(drop).unwrap_or_default();
        }
    }
}
