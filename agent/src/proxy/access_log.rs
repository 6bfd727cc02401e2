//! One JSON line a request, written by a thread of its own.
use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
    sync::{
        Arc,
        atomic::Ordering::Relaxed,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::JoinHandle,
};

use serde::Serialize;

use super::metrics::Metrics;

/// Lines that wait for the writer; more are dropped and counted.
const WAITING: usize = 8192;

/// What a line says. Times in milliseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Line<'a> {
    pub(crate) time: f64,
    pub(crate) request_id: &'a str,
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) class: &'a str,
    pub(crate) key_source: &'a str,
    pub(crate) engine: &'a str,
    pub(crate) why: &'a str,
    pub(crate) status: u16,
    pub(crate) attempts: u32,
    pub(crate) ttft_ms: Option<f64>,
    pub(crate) e2e_ms: f64,
    pub(crate) prompt_tokens: Option<u64>,
    pub(crate) output_tokens: u64,
    pub(crate) error: Option<&'a str>,
}

/// Takes lines without waiting.
#[derive(Clone, Debug)]
pub(crate) struct AccessLog {
    lines: SyncSender<Vec<u8>>,
    metrics: Arc<Metrics>,
}

impl AccessLog {
    /// Starts the writer, which ends when the last sender is gone.
    pub(crate) fn open(path: &Path, metrics: Arc<Metrics>) -> io::Result<(Self, JoinHandle<()>)> {
        let file = File::options().create(true).append(true).open(path)?;
        let (lines, waiting) = sync_channel(WAITING);
        let writer =
            std::thread::Builder::new().name("access-log".to_owned()).spawn(move || write(&waiting, file))?;
        Ok((Self { lines, metrics }, writer))
    }

    pub(crate) fn put(&self, line: &Line<'_>) {
        let mut text = serde_json::to_vec(line).expect("a line holds text and numbers");
        text.push(b'\n');
        if self.lines.try_send(text).is_err() {
            self.metrics.log_lines_dropped.fetch_add(1, Relaxed);
        }
    }
}

/// Writes what waits, and flushes when nothing does.
fn write(waiting: &Receiver<Vec<u8>>, file: File) {
    let mut out = BufWriter::with_capacity(64 << 10, file);
    while let Ok(line) = waiting.recv() {
        let mut outcome = out.write_all(&line);
        while let Ok(line) = waiting.try_recv() {
            outcome = outcome.and_then(|()| out.write_all(&line));
        }
        if let Err(error) = outcome.and_then(|()| out.flush()) {
            tracing::warn!(%error, "access log line not written");
        }
    }
}
