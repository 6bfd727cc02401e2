//! What the control loop talks to.
use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use penstock_wire::{Epoch, HostId, Snapshot, canonical, transport::TlsFiles};
use tokio::sync::mpsc;
use tracing::{error, info, warn};

use super::{
    adopt,
    roster::{AgentStatus, HostDemand, Roster},
    server::{ListenError, Server, ServerConfig},
};
use crate::{
    snapshot::{Ledger, OpenError, PlanError, Publication, Wanted},
    weights::Cause,
};

/// How often certificate files are looked at.
const RELOAD_EVERY: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub struct PublishConfig {
    pub listen: SocketAddr,
    pub tls: TlsFiles,
    /// Folder of the ledger; made when missing.
    pub state_dir: PathBuf,
    /// Slots of each table.
    pub table_slots: usize,
    /// Every host of the fleet: an empty controller waits for their answers.
    pub hosts: Vec<HostId>,
    /// Longest wait for them.
    pub recovery_wait: Duration,
    /// Publish to nobody and write nothing: only say what would change.
    pub shadow: bool,
}

/// Why the publisher did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("opening the ledger")]
    Ledger(#[from] OpenError),
    #[error("starting the server")]
    Listen(#[from] ListenError),
}

/// Why nothing was published. What is in force stays in force.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    #[error("planning the next epoch")]
    Plan(#[from] PlanError),
    /// The state folder is older than the agents: it was restored from a backup, or is another fleet's. Stop the
    /// controller, move the folder away and start again: it rebuilds the tables from the agents, in a later term.
    #[error(
        "agent {host} holds epoch {held}, which this controller (at epoch {newest}) never published: the state folder {} is not the newest; move it away and start again, and the tables are rebuilt from the agents",
        folder.display()
    )]
    AgentsAhead { host: HostId, held: Epoch, newest: Epoch, folder: PathBuf },
}

/// Ledger and server.
#[derive(Debug)]
pub struct Publisher {
    ledger: Ledger,
    shadow: bool,
    server: Server,
    roster: Arc<Roster>,
    reports: Option<mpsc::Receiver<HostDemand>>,
}

impl Publisher {
    /// Opens the ledger, listens, and publishes what was in force. An empty ledger first takes over what agents hold.
    pub async fn start(config: PublishConfig) -> Result<Self, StartError> {
        let (mut ledger, damaged) = Ledger::open(&config.state_dir, config.table_slots)?;
        for path in damaged {
            warn!(path = %path.display(), "damaged publication kept aside");
        }
        let (roster, reports) = Roster::new();
        if !ledger.is_empty() && !config.shadow {
            let snapshots: Vec<_> = ledger.snapshots().cloned().collect();
            roster.publish(&snapshots, true, Instant::now());
        }
        let server =
            ServerConfig { listen: config.listen, tls: config.tls, reload_every: RELOAD_EVERY, canonical };
        let server = Server::start(server, Arc::clone(&roster))?;
        if ledger.is_empty() || config.shadow {
            let states = adopt::collect(&roster, &config.hosts, config.recovery_wait).await;
            match ledger.adopt(states) {
                Some(adopted) => info!(
                    frontends = adopted.frontends.len(),
                    highest = %adopted.highest,
                    term = ledger.epoch().term(),
                    "state was empty: tables, indexes and secret taken over from agents"
                ),
                None => info!("state was empty and no agent holds any: tables start without history"),
            }
        }
        Ok(Self { ledger, shadow: config.shadow, server, roster, reports: Some(reports) })
    }

    /// Where agents connect.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Demand reports of all agents. Given once.
    pub fn take_reports(&mut self) -> Option<mpsc::Receiver<HostDemand>> {
        self.reports.take()
    }

    /// Keeps and publishes what should be in force; `None` if it is already, or must wait ([`Publisher::must_wait`]).
    pub fn publish(&mut self, wanted: &Wanted<'_>) -> Result<Option<Publication>, PublishError> {
        if let Some((host, conflict)) = self.roster.conflict() {
            let folder = self.ledger.folder().to_owned();
            let (held, newest) = (conflict.held, conflict.newest);
            return Err(PublishError::AgentsAhead { host, held, newest, folder });
        }
        let now = Instant::now();
        if self.shadow {
            let shadow = self.ledger.shadow(wanted, now)?;
            for ((frontend, class), moved_slots) in &shadow.moved {
                info!(%frontend, %class, moved_slots, "shadow: slots would move");
            }
            info!(
                frontends = shadow.frontends.len(),
                waiting_slots = shadow.waiting,
                "shadow: nothing published"
            );
            return Ok(None);
        }
        if self.must_wait(wanted.weights.cause) {
            return Ok(None);
        }
        let publication = self.ledger.plan(wanted, now)?;
        if let Some(publication) = &publication {
            self.send(publication, publication.failure_handling, now);
        }
        Ok(publication)
    }

    /// Takes a publication that goes out in waves a step further, or back. Call it every second.
    pub fn drive(&mut self) -> Result<(), PublishError> {
        let now = Instant::now();
        let Some((fault, contents)) = self.roster.drive(now) else { return Ok(()) };
        error!(?fault, "publication stopped in its first waves: what was in force before is published again");
        let publication = self.ledger.republish(&contents)?;
        self.send(&publication, true, now);
        Ok(())
    }

    /// Publishes what was in force at `to` as a new epoch, and nothing else until [`Publisher::release`].
    pub fn rollback(&mut self, to: Epoch) -> Result<Publication, PublishError> {
        let publication = self.ledger.rollback(to)?;
        warn!(%to, "rolled back by a person's order: nothing else is published until it is released");
        self.send(&publication, true, Instant::now());
        Ok(publication)
    }

    /// Ends a rollback: publications go on.
    pub fn release(&mut self) -> Result<(), PublishError> {
        self.ledger.release()?;
        info!("rollback released");
        Ok(())
    }

    /// Whether a publication must wait: for the end of a rollback, or, if it is routine, for the one that is going out in
    /// waves, which would otherwise never reach the last hosts.
    pub fn must_wait(&self, cause: Cause) -> bool {
        self.ledger.rolled_back().is_some() || (cause == Cause::Routine && self.roster.on_its_way().is_some())
    }

    /// Epoch whose content is in force by a person's order.
    pub fn rolled_back(&self) -> Option<Epoch> {
        self.ledger.rolled_back()
    }

    /// Epochs that can be rolled back to, oldest first.
    pub fn epochs(&self) -> Result<Vec<Epoch>, PublishError> {
        Ok(self.ledger.epochs()?)
    }

    /// Epoch of the publication that is on its way in waves.
    pub fn on_its_way(&self) -> Option<Epoch> {
        self.roster.on_its_way()
    }

    fn send(&self, publication: &Publication, at_once: bool, now: Instant) {
        self.roster.publish(&publication.snapshots, at_once, now);
        info!(
            epoch = %publication.epoch,
            frontends = publication.snapshots.len(),
            moved_slots = publication.moved_slots,
            waiting_slots = publication.waiting_slots,
            "snapshot published"
        );
    }

    /// What every frontend should hold.
    pub fn snapshots(&self) -> impl Iterator<Item = &Arc<Snapshot>> {
        self.ledger.snapshots()
    }

    /// Newest epoch.
    pub fn epoch(&self) -> Epoch {
        self.ledger.epoch()
    }

    /// All agents that connected since the start, by host.
    pub fn agents(&self) -> Vec<AgentStatus> {
        self.roster.agents(Instant::now())
    }

    /// Demand reports that were dropped because the control loop did not read them.
    pub fn dropped_reports(&self) -> u64 {
        self.roster.dropped_reports()
    }

    /// Closes every session. Agents go on with what they hold.
    pub async fn shutdown(self) {
        self.server.shutdown().await;
    }
}
