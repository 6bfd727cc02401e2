//! Ctrl-C and SIGTERM as a flag, so that everything is removed in order.
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use tokio::signal::unix::{SignalKind, signal};

/// Set once a person or the system asks the demo to end.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

/// The demo was asked to end. What it made is removed all the same.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("stopped by a signal")]
pub struct Stopped;

impl Stop {
    /// Listens from now on, on a thread of its own.
    ///
    /// # Errors
    /// The thread or the handlers cannot be set up.
    pub fn listen() -> io::Result<Self> {
        let stop = Self::default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (mut interrupt, mut terminate) = {
            let _inside = runtime.enter();
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
        };
        let flag = stop.clone();
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                flag.0.store(true, Ordering::Relaxed);
                // A further signal changes nothing: the removal is under way.
                std::future::pending::<()>().await;
            });
        })?;
        Ok(stop)
    }

    /// # Errors
    /// A signal has come.
    pub fn check(&self) -> Result<(), Stopped> {
        if self.0.load(Ordering::Relaxed) { Err(Stopped) } else { Ok(()) }
    }
}
