//! A door with a table built by hand.
use std::{net::SocketAddr, sync::Arc, time::Duration};

use penstock_abi::Tick;
use penstock_agent::proxy::{
    config::{HttpConfig, RawHttp},
    metrics::Metrics,
    route::Routes,
    server::Server,
};
use penstock_wire::{EngineEntry, EngineState, Epoch, Snapshot, TableEntry};

use super::raw::Client;

pub(crate) const SECRET: [u8; 16] = *b"0123456789abcdef";

pub(crate) struct Door {
    pub(crate) server: Option<Server>,
    pub(crate) routes: Arc<Routes>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) address: SocketAddr,
}

/// One class `chat` with the models `m` and `m2`, on a free port, with `more` in its section.
pub(crate) fn config(more: &str) -> HttpConfig {
    let text = format!(
        "listen = [{{ address = \"127.0.0.1:0\" }}]\nworkers = 1\ndefault_class = \"chat\"\n{more}\n\
         [[class]]\nid = \"chat\"\nmodels = [\"m\", \"m2\"]\n"
    );
    checked(&text)
}

pub(crate) fn checked(text: &str) -> HttpConfig {
    toml::from_str::<RawHttp>(text).unwrap().try_into().unwrap()
}

impl Door {
    /// Opens a door to `engines`, slots dealt in turn.
    pub(crate) fn open(config: HttpConfig, engines: &[SocketAddr]) -> Self {
        let door = Self::open_closed(config);
        door.install(&snapshot(1, engines));
        door
    }

    /// Opens a door without a table.
    pub(crate) fn open_closed(config: HttpConfig) -> Self {
        let routes = Arc::new(Routes::new(config.bound));
        let metrics = Arc::new(Metrics::new(&config));
        let server = Server::start(config, Arc::clone(&routes), Arc::clone(&metrics)).unwrap();
        let address = server.addresses().first().copied().unwrap_or_else(|| ([127, 0, 0, 1], 0).into());
        Self { server: Some(server), routes, metrics, address }
    }

    pub(crate) fn install(&self, snapshot: &Snapshot) {
        self.routes.install(snapshot, None, Tick(1)).unwrap();
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// Sends one request on a connection of its own and reads the answer.
    pub(crate) fn ask(&self, request: &str) -> super::raw::Response {
        let mut client = self.client();
        client.send(request.as_bytes());
        client.response()
    }

    pub(crate) fn shutdown(&mut self, drain: Duration) {
        self.server.take().unwrap().shutdown(drain);
    }
}

/// A snapshot of class `chat` with 64 slots dealt to the engines in turn.
pub(crate) fn snapshot(counter: u64, engines: &[SocketAddr]) -> Snapshot {
    let indexes: Vec<u16> = (0..).take(engines.len()).collect();
    let slots = (0..64).map(|slot| indexes[slot % indexes.len()]).collect();
    Snapshot {
        epoch: Epoch(counter),
        frontend: "A".into(),
        secret: SECRET,
        nat_prefix: None,
        failure_handling: false,
        engines: indexes.iter().zip(engines).map(|(&index, &address)| engine(index, address)).collect(),
        services: vec![],
        tables: vec![TableEntry::from_slots("chat".into(), &indexes, slots)],
    }
}

pub(crate) fn engine(index: u16, address: SocketAddr) -> EngineEntry {
    EngineEntry {
        index,
        id: format!("engine-{index}").as_str().into(),
        group: "g".into(),
        site: "s".into(),
        address,
        address6: None,
        forwarding: None,
        rtt_us: 100,
        state: EngineState::Serving,
    }
}

/// A POST of JSON with more header lines, each with its CR LF.
pub(crate) fn post(path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: door\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    )
}

pub(crate) fn chat(body: &str) -> String {
    post("/v1/chat/completions", "", body)
}
