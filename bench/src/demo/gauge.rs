//! What the engines say of themselves, scraped from `/metrics` inside their namespaces.
use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use penstock_tests::Netns;
use penstock_wire::EngineId;

const PERIOD: Duration = Duration::from_millis(500);
const TIMEOUT: Duration = Duration::from_secs(2);

/// One engine's state at its last scrape.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct EngineState {
    pub(super) running: f64,
    pub(super) waiting: f64,
    pub(super) utilisation: f64,
    pub(super) finished: f64,
}

/// Scrapes until it is dropped, one thread for each namespace.
#[derive(Debug)]
pub(super) struct Gauges {
    latest: Arc<Mutex<BTreeMap<EngineId, EngineState>>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Gauges {
    pub(super) fn start(nodes: Vec<(Netns, Vec<(EngineId, SocketAddr)>)>) -> Self {
        let latest = Arc::new(Mutex::new(BTreeMap::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let threads = nodes
            .into_iter()
            .map(|(netns, engines)| {
                let (latest, stop) = (Arc::clone(&latest), Arc::clone(&stop));
                thread::spawn(move || {
                    // A namespace that cannot be entered leaves its engines without a state on the screen.
                    if let Err(error) = netns.enter(|| watch(&engines, &latest, &stop)) {
                        eprintln!("engines are not scraped: {error}");
                    }
                })
            })
            .collect();
        Self { latest, stop, threads }
    }

    pub(super) fn latest(&self) -> BTreeMap<EngineId, EngineState> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Gauges {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            if thread.join().is_err() {
                eprintln!("a scraping thread had panicked");
            }
        }
    }
}

fn watch(
    engines: &[(EngineId, SocketAddr)],
    latest: &Mutex<BTreeMap<EngineId, EngineState>>,
    stop: &AtomicBool,
) {
    while !stop.load(Ordering::Relaxed) {
        for (id, address) in engines {
            // An engine that does not answer keeps its last state.
            if let Ok(text) = scrape(*address) {
                let mut latest = latest.lock().unwrap_or_else(PoisonError::into_inner);
                latest.insert(id.clone(), parse(&text));
            }
        }
        thread::park_timeout(PERIOD);
    }
}

fn scrape(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: engine\r\nconnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

fn parse(text: &str) -> EngineState {
    let value = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name) && line[name.len()..].starts_with('{'));
        line.and_then(|line| line.rsplit_once(' ')?.1.parse().ok()).unwrap_or_default()
    };
    EngineState {
        running: value("vllm:num_requests_running"),
        waiting: value("vllm:num_requests_waiting"),
        utilisation: value("penstock_engine_utilisation_ratio"),
        finished: value("vllm:request_success_total"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gauges_are_found_by_their_whole_name() {
        let text = "HTTP/1.1 200 OK\r\n\r\n# TYPE vllm:num_requests_running gauge\n\
                    vllm:num_requests_running_more{model_name=\"m\"} 9\n\
                    vllm:num_requests_running{model_name=\"m\"} 3\n\
                    penstock_engine_utilisation_ratio{model_name=\"m\"} 0.25\n";

        let state = parse(text);

        assert_eq!(state, EngineState { running: 3.0, utilisation: 0.25, ..EngineState::default() });
    }
}
