//! The running agent: reads clocks and sockets, waits on one enum of events.
use std::{
    fmt, io,
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use penstock_wire::{Epoch, Snapshot};
use tokio::{
    sync::{mpsc, watch},
    time::{MissedTickBehavior, interval},
};
use tracing::{error, info, warn};

use super::Owner;
use crate::{
    admin::{self, Answer, MetricsServer, Question, Request, Status},
    config::Config,
    datapath::DataPath,
    orders::{Orders, OrdersFile},
    subscribe::{PeerServer, Store, Uplink, UplinkConfig, UplinkEvent, Writer, with_causes},
};

/// Events that wait for the owner. While it is full, sockets are not read.
const EVENTS: usize = 16;

/// Why the agent does not run. What is in force in the kernel stays in force.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("preparing the state folder {}", path.display())]
    State { path: PathBuf, source: io::Error },
    /// Another process has the port.
    #[error("serving metrics on {address}")]
    Metrics { address: SocketAddr, source: io::Error },
    /// Another agent of this host runs, or the folder does not exist.
    #[error("opening the admin socket {}", path.display())]
    Admin { path: PathBuf, source: io::Error },
}

enum Event {
    Uplink(UplinkEvent),
    Admin(Question),
    Tick,
    Stop,
}

/// The orders in force. Orders that cannot be read freeze the host until `resume`: nobody knows what they said.
pub fn load_orders(config: &Config) -> Orders {
    OrdersFile::in_folder(&config.state_dir).load().unwrap_or_else(|error| {
        error!(
            error = &error as &dyn std::error::Error,
            "orders not read: frozen until `penstock-agent resume`"
        );
        Orders { frozen: Some(0), ..Orders::default() }
    })
}

/// Runs until `stop` is ready. `path` is detached if the orders say so. Leaves the data path working.
pub async fn run<D: DataPath + fmt::Debug>(
    config: &Config,
    orders: Orders,
    path: D,
    stop: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let state = |source| RunError::State { path: config.state_dir.clone(), source };
    let store = Store::open(&config.state_dir).map_err(state)?;
    let loaded = store.load();
    for (path, error) in loaded.damaged {
        warn!(path = %path.display(), error = &error as &dyn std::error::Error, "damaged snapshot kept aside");
    }
    let mut owner = Owner::new(config.host.clone(), path, orders);
    let on_disk = loaded.snapshot.as_ref().map(|snapshot| snapshot.epoch);
    if let Some(snapshot) = loaded.snapshot {
        owner.restore(snapshot, SystemTime::now());
    }
    let admin_fault = |source| RunError::Admin { path: config.admin_socket.clone(), source };
    let (questions, asked) = mpsc::channel(EVENTS);
    let admin = admin::Server::start(&config.admin_socket, questions.clone()).map_err(admin_fault)?;
    let metrics = match config.metrics {
        Some(address) => {
            let fault = |source| RunError::Metrics { address, source };
            Some(MetricsServer::start(address, questions).await.map_err(fault)?)
        }
        None => None,
    };
    let held = watch::Sender::new(owner.held().cloned());
    let peers =
        config.peers.listen.map(|listen| PeerServer::start(listen, config.tls.clone(), held.subscribe()));
    let peers = peers.transpose().unwrap_or_else(|error| {
        warn!(error = &error as &dyn std::error::Error, "new hosts get no snapshot from this one");
        None
    });
    let writer = Writer::start(store, on_disk);
    let (events, news) = mpsc::channel(EVENTS);
    let uplink = Uplink::start(uplink_config(config), held.subscribe(), events);

    let orders_file = OrdersFile::in_folder(&config.state_dir);
    let shell = Shell { writer: &writer, orders: &orders_file, held: &held };
    serve(&mut owner, &shell, news, asked, stop).await;

    uplink.shutdown().await;
    // Askers that wait get their refusal before the tasks that carry it end.
    admin.shutdown().await;
    if let Some(metrics) = metrics {
        metrics.shutdown().await;
    }
    if let Some(peers) = peers {
        peers.shutdown().await;
    }
    writer.finish().await;
    info!("agent stopped: the data path goes on with the snapshot in force");
    Ok(())
}

fn uplink_config(config: &Config) -> UplinkConfig {
    UplinkConfig {
        host: config.host.clone(),
        controllers: config.controllers.clone(),
        peers: config.peers.from.clone(),
        tls: config.tls.clone(),
        controller_name: config.controller_name.clone(),
    }
}

/// Where the owner's results go.
struct Shell<'a> {
    writer: &'a Writer,
    orders: &'a OrdersFile,
    held: &'a watch::Sender<Option<Arc<Snapshot>>>,
}

async fn serve<D: DataPath>(
    owner: &mut Owner<D>,
    shell: &Shell<'_>,
    mut news: mpsc::Receiver<UplinkEvent>,
    mut asked: mpsc::Receiver<Question>,
    stop: impl Future<Output = ()>,
) {
    let mut ticks = interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tokio::pin!(stop);
    loop {
        let event = tokio::select! {
            Some(event) = news.recv() => Event::Uplink(event),
            Some(question) = asked.recv() => Event::Admin(question),
            _ = ticks.tick() => Event::Tick,
            () = &mut stop => Event::Stop,
        };
        match event {
            Event::Uplink(event) => {
                if let Some(snapshot) = owner.uplink(event, SystemTime::now()) {
                    shell.held.send_replace(Some(Arc::clone(&snapshot)));
                    shell.writer.save(snapshot);
                }
            }
            Event::Admin(question) => {
                let answer = match &question.request {
                    Request::Status {} => {
                        Answer::Status(Box::new(with_disk(owner.status(), shell.writer.outcome())))
                    }
                    Request::Order { order } => {
                        match owner.order(order, SystemTime::now(), |orders| shell.orders.save(orders)) {
                            Ok(orders) => Answer::Orders(orders.clone()),
                            Err(error) => Answer::Error(with_causes(&error)),
                        }
                    }
                };
                question.answer(answer);
            }
            Event::Tick => owner.tick(Instant::now()),
            Event::Stop => return,
        }
    }
}

fn with_disk(status: Status, (saved, error): (Option<Epoch>, Option<String>)) -> Status {
    Status { saved_epoch: saved.map(|epoch| epoch.to_string()), save_error: error, ..status }
}
