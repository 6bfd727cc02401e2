//! One client's connection from its first byte to its last.
use std::{pin::Pin, rc::Rc, sync::atomic::Ordering::Relaxed};

use tokio::{io::AsyncWriteExt, time::timeout};

use super::{
    client::Client,
    exchange::{self, After},
    h2::{self, prefixed::Prefixed},
    io::Io,
    listen::Accepted,
    request::{self, Read},
    tls,
    worker::Worker,
};

/// Counts a connection until it is dropped.
pub(crate) struct Counted {
    worker: Rc<Worker>,
}

impl Counted {
    /// `None`: the worker has all that it may have.
    pub(crate) fn new(worker: &Rc<Worker>) -> Option<Self> {
        if worker.connections.get() >= worker.config.limits.connections {
            worker.metrics.connections_refused.fetch_add(1, Relaxed);
            return None;
        }
        worker.connections.set(worker.connections.get() + 1);
        worker.metrics.connections.fetch_add(1, Relaxed);
        Some(Self { worker: Rc::clone(worker) })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.worker.connections.set(self.worker.connections.get() - 1);
        self.worker.metrics.connections.fetch_sub(1, Relaxed);
    }
}

/// Serves a connection that was accepted.
pub(crate) async fn serve(worker: &Rc<Worker>, accepted: Accepted) {
    let (io, http2) = match accepted {
        Accepted::Plain(io) => (io, false),
        Accepted::Tls(stream, acceptor) => {
            let handshake = tls::accept(&acceptor, stream);
            match timeout(worker.config.limits.head_timeout, handshake).await {
                Ok(Ok(agreed)) => agreed,
                Ok(Err(_)) | Err(_) => return worker.shard().refused("tls_handshake"),
            }
        }
    };
    if http2 {
        boxed(worker, Prefixed::new(Vec::new(), io)).await
    } else {
        serve_http1(worker, io, true).await
    }
}

/// Boxed, so that connections of HTTP/1.1 need no room for it.
fn boxed(worker: &Rc<Worker>, io: Prefixed) -> Pin<Box<dyn Future<Output = ()> + '_>> {
    Box::pin(h2::server::serve(worker, io))
}

/// Serves requests in turn until either side has had enough. With `http2`, a client may begin with its preface.
pub(crate) async fn serve_http1(worker: &Rc<Worker>, io: Io, http2: bool) {
    let mut client = Client::new(io, worker);
    let mut first = http2;
    loop {
        match request::read(worker, &mut client, first).await {
            Ok(Read::Request(mut request)) => match exchange::run(worker, &mut client, &mut request).await {
                After::KeepAlive => first = false,
                After::Close => return client.linger(worker).await,
                After::Drop => {
                    // A reset of an HTTP/2 stream discards what its connection has not yet written: let it write.
                    tokio::task::yield_now().await;
                    return;
                }
            },
            Ok(Read::Http2) => return boxed(worker, Prefixed::new(client.carry, client.io)).await,
            Ok(Read::Closed) => {
                // The client is gone, or has nothing more to say: there is nobody to tell of an error.
                drop(client.io.shutdown().await);
                return;
            }
            Err(error) => {
                worker.shard().refused(error.code());
                if client.put(worker, &error.answer("", true)).await.is_ok() {
                    client.linger(worker).await;
                }
                return;
            }
        }
    }
}
