//! Messages on a stream: each follows its length as four bytes, least significant first.
use quinn::{ReadExactError, RecvStream, SendStream};

/// Why no message was read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("a message of {length} bytes, at most {limit} are accepted")]
    TooLong { length: usize, limit: usize },
    #[error("the stream ended within a message")]
    CutShort,
    #[error("the stream broke")]
    Broken(#[from] quinn::ReadError),
}

/// The stream broke while a message was written.
#[derive(Debug, thiserror::Error)]
#[error("writing a message of {length} bytes")]
pub struct WriteError {
    length: usize,
    source: quinn::WriteError,
}

/// The next message's bytes, or `None` at the stream's end. Not to be cancelled within a message.
pub async fn read_message(stream: &mut RecvStream, limit: usize) -> Result<Option<Vec<u8>>, ReadError> {
    let mut length = [0; 4];
    match stream.read_exact(&mut length).await {
        Ok(()) => {}
        Err(ReadExactError::FinishedEarly(0)) => return Ok(None),
        Err(ReadExactError::FinishedEarly(_)) => return Err(ReadError::CutShort),
        Err(ReadExactError::ReadError(source)) => return Err(source.into()),
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > limit {
        return Err(ReadError::TooLong { length, limit });
    }
    let mut message = vec![0; length];
    match stream.read_exact(&mut message).await {
        Ok(()) => Ok(Some(message)),
        Err(ReadExactError::FinishedEarly(_)) => Err(ReadError::CutShort),
        Err(ReadExactError::ReadError(source)) => Err(source.into()),
    }
}

pub async fn write_message(stream: &mut SendStream, message: &[u8]) -> Result<(), WriteError> {
    let length = message.len();
    let prefix = u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
    let framed = [&prefix, message].concat();
    stream.write_all(&framed).await.map_err(|source| WriteError { length, source })
}
