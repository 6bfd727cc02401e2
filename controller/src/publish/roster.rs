//! What is known of every agent, and what each frontend should hold.
use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use penstock_wire::{
    Canonical, DemandReport, Epoch, Feed, Form, FrontendId, HostId, HostOrders, Refusal, Refused,
    ServiceDemand, Snapshot, transport::AgentIdentity,
};
use tokio::sync::{mpsc, watch};

use super::rollout::{Health, Rollout};

/// Reports that wait for the control loop; when full, the report is dropped and counted: the next one is a second away.
const REPORTS: usize = 4096;

/// A demand report and whose it is.
#[derive(Clone, Debug, PartialEq)]
pub struct HostDemand {
    pub identity: AgentIdentity,
    pub report: DemandReport,
}

/// One agent as the controller sees it.
#[derive(Clone, Debug)]
pub struct AgentStatus {
    pub host: HostId,
    pub frontend: FrontendId,
    pub connected: bool,
    pub address: SocketAddr,
    /// Epoch in force at the agent.
    pub installed: Option<Epoch>,
    /// From the publication of that epoch to the agent's word that it is in force; `None` if the agent held it already.
    pub installed_after: Option<Duration>,
    pub lag: Lag,
    /// Bytes of UDP payload to and from the agent on this connection, handshake and acknowledgements included.
    pub sent_bytes: u64,
    pub received_bytes: u64,
    /// Updates whose result had other hashes at the agent, since this controller started.
    pub mismatches: u64,
    pub last_refusal: Option<LastRefusal>,
    /// What a person ordered on the host.
    pub orders: HostOrders,
    pub certificate_ends: SystemTime,
}

/// How far an agent is behind its frontend's newest epoch.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Lag {
    pub epochs: u64,
    /// Age of the oldest publication that it does not have.
    pub time: Duration,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LastRefusal {
    pub offered: Epoch,
    pub reason: Refusal,
    pub detail: String,
}

/// Shared by the sessions and the publisher. Every lock is held for a few field accesses, or the encoding of one
/// message.
#[derive(Debug)]
pub(super) struct Roster {
    pub(super) agents: Mutex<BTreeMap<HostId, Agent>>,
    pub(super) frontends: Mutex<BTreeMap<FrontendId, Arc<Channel>>>,
    /// The publication on its way in waves.
    pub(super) rollout: Mutex<Option<Rollout>>,
    /// Counts publications, to wake the sessions.
    pub(super) published: watch::Sender<u64>,
    reports: mpsc::Sender<HostDemand>,
    dropped_reports: Mutex<u64>,
    /// Connected agents whose word contradicts this controller's state.
    conflicts: Mutex<BTreeMap<HostId, Conflict>>,
    /// Set while an empty controller asks agents for their state.
    pub(super) recovery: Mutex<Option<mpsc::Sender<Answer>>>,
}

/// An agent that holds what this controller never published.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Conflict {
    pub(super) held: Epoch,
    pub(super) newest: Epoch,
}

/// An agent's answer to an empty controller.
#[derive(Debug)]
pub(super) enum Answer {
    Nothing(HostId),
    State(HostId, Box<Snapshot>),
}

#[derive(Debug)]
pub(super) struct Agent {
    pub(super) identity: AgentIdentity,
    session: u64,
    connection: quinn::Connection,
    pub(super) connected: bool,
    installed: Option<Epoch>,
    installed_after: Option<Duration>,
    mismatches: u64,
    last_refusal: Option<LastRefusal>,
    orders: HostOrders,
    /// Flows of the last report, and those among them that nobody took.
    flows: (u64, u64),
    certificate_ends: SystemTime,
}

impl Agent {
    pub(super) fn health(&self) -> Health {
        let failed = self
            .last_refusal
            .as_ref()
            .filter(|refusal| matches!(refusal.reason, Refusal::NotInstalled | Refusal::TooManyMoves));
        let (flows, refused) = self.flows;
        Health {
            installed: self.installed,
            failed: failed.map(|refusal| refusal.offered),
            error_share: (flows > 0).then(|| refused as f64 / flows as f64),
        }
    }
}

/// What one frontend should hold.
#[derive(Debug)]
pub(super) struct Channel {
    /// What every host should hold that no wave has reached.
    pub(super) stable: Mutex<Feed>,
    /// What hosts should hold that a wave has reached.
    pub(super) candidate: Option<Mutex<Feed>>,
    pub(super) times: Mutex<VecDeque<(Epoch, Instant)>>,
}

impl Channel {
    pub(super) fn newest(&self) -> MutexGuard<'_, Feed> {
        lock(self.candidate.as_ref().unwrap_or(&self.stable))
    }

    fn of(&self, reached: bool) -> MutexGuard<'_, Feed> {
        if reached { self.newest() } else { lock(&self.stable) }
    }
}

impl Roster {
    pub(super) fn new() -> (Arc<Self>, mpsc::Receiver<HostDemand>) {
        let (reports, receiver) = mpsc::channel(REPORTS);
        let roster = Self {
            agents: Mutex::default(),
            frontends: Mutex::default(),
            rollout: Mutex::default(),
            published: watch::Sender::new(0),
            reports,
            dropped_reports: Mutex::default(),
            conflicts: Mutex::default(),
            recovery: Mutex::default(),
        };
        (Arc::new(roster), receiver)
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.published.subscribe()
    }

    /// Epoch that a host should hold.
    pub(super) fn target(&self, identity: &AgentIdentity) -> Option<Epoch> {
        let channel = lock(&self.frontends).get(&identity.frontend).map(Arc::clone)?;
        let feed = channel.of(self.reached(&identity.host));
        Some(feed.epoch())
    }

    /// The encoded update for an agent, its epoch and form.
    pub(super) fn message(
        &self,
        identity: &AgentIdentity,
        held: Option<(Epoch, u64)>,
        form: Form,
        canonical: Canonical,
    ) -> Option<(Arc<[u8]>, Epoch, Form)> {
        let channel = lock(&self.frontends).get(&identity.frontend).map(Arc::clone)?;
        let mut feed = channel.of(self.reached(&identity.host));
        let (message, form) = feed.message(held, form, canonical);
        Some((message, feed.epoch(), form))
    }

    /// Registers a session. An older one of the same host is returned, to be closed.
    pub(super) fn enter(
        &self,
        identity: &AgentIdentity,
        session: u64,
        connection: &quinn::Connection,
        certificate_ends: SystemTime,
    ) -> Option<quinn::Connection> {
        let mut agents = lock(&self.agents);
        let before = agents.remove(&identity.host);
        let agent = Agent {
            identity: identity.clone(),
            session,
            connection: connection.clone(),
            connected: true,
            installed: None,
            installed_after: None,
            mismatches: before.as_ref().map_or(0, |before| before.mismatches),
            last_refusal: None,
            orders: HostOrders::default(),
            flows: (0, 0),
            certificate_ends,
        };
        agents.insert(identity.host.clone(), agent);
        // A second greeting on one connection is no second session.
        before.filter(|before| before.connected && before.session != session).map(|before| before.connection)
    }

    pub(super) fn leave(&self, host: &HostId, session: u64) {
        if let Some(agent) = lock(&self.agents).get_mut(host).filter(|agent| agent.session == session) {
            agent.connected = false;
            lock(&self.conflicts).remove(host);
        }
    }

    /// What an agent holds must be known here: something older, or the very same.
    pub(super) fn check_conflict(&self, identity: &AgentIdentity, held: Option<(Epoch, u64)>) {
        let mut conflicts = lock(&self.conflicts);
        conflicts.remove(&identity.host);
        let channel = lock(&self.frontends).get(&identity.frontend).map(Arc::clone);
        let (Some((held, digest)), Some(channel)) = (held, channel) else { return };
        let feed = channel.newest();
        let newest = feed.epoch();
        if held > newest || (held == newest && digest != feed.digest()) {
            conflicts.insert(identity.host.clone(), Conflict { held, newest });
        }
    }

    /// Any agent that is ahead of this controller.
    pub(super) fn conflict(&self) -> Option<(HostId, Conflict)> {
        lock(&self.conflicts).iter().next().map(|(host, conflict)| (host.clone(), conflict.clone()))
    }

    /// What an agent holds as it greets.
    pub(super) fn holds(&self, host: &HostId, epoch: Option<Epoch>, orders: HostOrders) {
        if let Some(agent) = lock(&self.agents).get_mut(host) {
            agent.installed = epoch;
            agent.orders = orders;
        }
    }

    /// An update came into force.
    pub(super) fn installed(&self, identity: &AgentIdentity, epoch: Epoch, now: Instant) {
        let published = self.published_at(&identity.frontend, epoch);
        if let Some(agent) = lock(&self.agents).get_mut(&identity.host) {
            agent.installed = Some(epoch);
            agent.installed_after = published.map(|published| now.duration_since(published));
        }
    }

    fn published_at(&self, frontend: &FrontendId, epoch: Epoch) -> Option<Instant> {
        let channel = lock(&self.frontends).get(frontend).map(Arc::clone)?;
        let times = lock(&channel.times);
        times.iter().find(|(published, _)| *published == epoch).map(|(_, at)| *at)
    }

    pub(super) fn refused(&self, host: &HostId, refused: Refused) {
        if let Some(agent) = lock(&self.agents).get_mut(host) {
            agent.mismatches += u64::from(refused.reason == Refusal::Mismatch);
            let Refused { offered, reason, detail, .. } = refused;
            agent.last_refusal = Some(LastRefusal { offered, reason, detail });
        }
    }

    pub(super) fn report(&self, identity: &AgentIdentity, report: DemandReport) {
        if let Some(agent) = lock(&self.agents).get_mut(&identity.host) {
            let sum = |of: fn(&ServiceDemand) -> u64| report.services.iter().map(of).sum();
            agent.flows = (sum(|demand| demand.flows), sum(|demand| demand.refused));
        }
        if self.reports.try_send(HostDemand { identity: identity.clone(), report }).is_err() {
            *lock(&self.dropped_reports) += 1;
        }
    }

    pub(super) fn dropped_reports(&self) -> u64 {
        *lock(&self.dropped_reports)
    }

    /// All agents that ever connected, by host.
    pub(super) fn agents(&self, now: Instant) -> Vec<AgentStatus> {
        let agents = lock(&self.agents);
        let status = |(host, agent): (&HostId, &Agent)| {
            let stats = agent.connection.stats();
            AgentStatus {
                host: host.clone(),
                frontend: agent.identity.frontend.clone(),
                connected: agent.connected,
                address: agent.connection.remote_address(),
                installed: agent.installed,
                installed_after: agent.installed_after,
                lag: self.lag(&agent.identity.frontend, agent.installed, now),
                sent_bytes: stats.udp_tx.bytes,
                received_bytes: stats.udp_rx.bytes,
                mismatches: agent.mismatches,
                last_refusal: agent.last_refusal.clone(),
                orders: agent.orders,
                certificate_ends: agent.certificate_ends,
            }
        };
        agents.iter().map(status).collect()
    }

    fn lag(&self, frontend: &FrontendId, installed: Option<Epoch>, now: Instant) -> Lag {
        let Some(channel) = lock(&self.frontends).get(frontend).map(Arc::clone) else {
            return Lag::default();
        };
        let times = lock(&channel.times);
        let mut missing = times.iter().filter(|(epoch, _)| installed.is_none_or(|held| held < *epoch));
        let Some((_, oldest)) = missing.next() else { return Lag::default() };
        Lag { epochs: 1 + missing.count() as u64, time: now.duration_since(*oldest) }
    }
}

/// A panic elsewhere leaves these maps whole: each change is a single assignment or insertion.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
