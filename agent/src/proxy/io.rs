//! A connection's byte stream, whatever carries it.
use std::{
    fmt,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, Waker},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream},
};

/// TLS, or one stream of HTTP/2 in the form of HTTP/1.1.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Unpin + fmt::Debug {}
impl<T: AsyncRead + AsyncWrite + Unpin + fmt::Debug> Duplex for T {}

/// Dropping it ends the connection as it is: a message that is not complete stays visibly so.
#[derive(Debug)]
pub(crate) enum Io {
    Tcp(TcpStream),
    Unix(UnixStream),
    Other(Box<dyn Duplex>),
}

impl Io {
    /// Reads what is there into `buffer`; 0 is the end of the stream.
    pub(crate) fn poll_fill(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut read = ReadBuf::new(buffer);
        match Pin::new(self).poll_read(cx, &mut read) {
            Poll::Ready(Ok(())) => Poll::Ready(Ok(read.filled().len())),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        }
    }

    pub(crate) fn poll_put(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(self).poll_write(cx, bytes)
    }

    /// Whether nothing has arrived, as it must be with an idle connection.
    pub(crate) fn is_quiet(&mut self) -> bool {
        let mut one = [0];
        self.poll_fill(&mut Context::from_waker(Waker::noop()), &mut one).is_pending()
    }
}

impl AsyncRead for Io {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Other(stream) => Pin::new(stream.as_mut()).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Io {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Other(stream) => Pin::new(stream.as_mut()).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
            Self::Other(stream) => Pin::new(stream.as_mut()).poll_write_vectored(cx, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
            Self::Other(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Other(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
        }
    }
}
