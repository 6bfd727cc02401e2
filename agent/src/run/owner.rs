//! Decisions of the running agent. Reads no clock and no socket.
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::Arc,
    time::{Instant, SystemTime},
};

use penstock_wire::{
    AgentSession, Epoch, FrontendId, HostId, Refusal, Snapshot, Step, ToAgent, ToController, canonical,
    transport::AgentIdentity,
};
use tracing::{info, warn};

use crate::{
    admin::{Connection, LastRefusal, Status},
    datapath::{DataPath, NotInstalled},
    orders::{Order, Orders, OrdersError, SteerError, steer},
    signal::DemandMeter,
    subscribe::{Line, UplinkEvent},
};

/// Why an order was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    #[error("there is no snapshot to steer")]
    NoSnapshot,
    #[error(transparent)]
    Steer(#[from] SteerError),
    #[error("keeping the order")]
    Save(#[from] OrdersError),
    /// The order is kept, and is tried again at the next start.
    #[error("the order is kept, but the data path did not follow")]
    DataPath(#[from] NotInstalled),
}

/// State of the running agent.
#[derive(Debug)]
pub struct Owner<D> {
    host: HostId,
    frontend: Option<FrontendId>,
    path: D,
    orders: Orders,
    /// The newest snapshot that was taken from a controller or from disk: in force, but for a person's orders.
    held: Option<Arc<Snapshot>>,
    session: Option<AgentSession>,
    line: Option<Line>,
    connection: Connection,
    meter: DemandMeter,
    installed_at: Option<SystemTime>,
    mismatches: u64,
    refusals: BTreeMap<Refusal, u64>,
    last_refusal: Option<LastRefusal>,
    slots_in_transition: u64,
}

impl<D: DataPath> Owner<D> {
    /// `path` is detached if the orders say so.
    pub fn new(host: HostId, path: D, orders: Orders) -> Self {
        Self {
            host,
            frontend: None,
            path,
            orders,
            held: None,
            session: None,
            line: None,
            connection: Connection::default(),
            meter: DemandMeter::default(),
            installed_at: None,
            mismatches: 0,
            refusals: BTreeMap::new(),
            last_refusal: None,
            slots_in_transition: 0,
        }
    }

    /// Takes the snapshot from disk: installs it, unless an earlier agent left a newer one in force. A newer one is not
    /// known in full, so the next keyframe replaces it.
    pub fn restore(&mut self, snapshot: Arc<Snapshot>, now: SystemTime) {
        let in_force = self.path.epoch();
        if in_force > snapshot.epoch {
            warn!(%in_force, on_disk = %snapshot.epoch, "the snapshot in force is newer than the one on disk");
            return;
        }
        if self.orders.detached.is_none()
            && !self.path.resume(&snapshot)
            && let Err(refused) = self.put_in_force(&snapshot)
        {
            warn!(epoch = %snapshot.epoch, detail = refused.detail, "the snapshot from disk was not installed");
            self.count(snapshot.epoch, refused.reason, &refused.detail);
            return;
        }
        info!(epoch = %snapshot.epoch, "routing from the snapshot on disk");
        self.frontend = Some(snapshot.frontend.clone());
        self.installed_at = Some(now);
        self.held = Some(snapshot);
    }

    pub fn held(&self) -> Option<&Arc<Snapshot>> {
        self.held.as_ref()
    }

    /// Handles news from the connection. A snapshot that came into force is returned, to be saved.
    pub fn uplink(&mut self, event: UplinkEvent, now: SystemTime) -> Option<Arc<Snapshot>> {
        match event {
            UplinkEvent::Connected { line, identity, controller } => {
                self.connected(line, identity, controller);
                None
            }
            UplinkEvent::Message(message) => self.message(message, now),
            UplinkEvent::Disconnected { reason } => {
                if self.connection.error.as_ref() != Some(&reason) {
                    warn!(
                        reason,
                        "no connection to a controller: routing goes on from the snapshot in force"
                    );
                }
                self.line = None;
                self.connection = Connection { controller: None, error: Some(reason) };
                None
            }
        }
    }

    /// Carries out an order, once `save` has kept the orders that follow. On an error, nothing has changed but what the
    /// error says.
    pub fn order(
        &mut self,
        order: &Order,
        now: SystemTime,
        save: impl FnOnce(&Orders) -> Result<(), OrdersError>,
    ) -> Result<&Orders, OrderError> {
        let next = self.orders.after(order, unix_seconds(now));
        let steered = match &self.held {
            Some(held) => Some(steer(held, &next)?),
            // A pin that names nothing known would fail only when the first snapshot comes.
            None if matches!(order, Order::Pin { .. } | Order::Nearest) => {
                return Err(OrderError::NoSnapshot);
            }
            None => None,
        };
        save(&next)?;
        let before = std::mem::replace(&mut self.orders, next);
        info!(orders = ?self.orders.lines(), "order carried out");
        if self.orders.detached.is_some() {
            if before.detached.is_none() {
                self.path.detach()?;
            }
        } else {
            if before.detached.is_some() {
                self.path.attach()?;
            }
            let changed = before.detached.is_some()
                || (before.is_steering() || self.orders.is_steering()) && before != self.orders;
            if let Some(steered) = steered.filter(|_| changed) {
                self.path.replace(&steered)?;
            }
        }
        // The controller learns of it, and offers again what was refused.
        if let (Some(session), Some(line)) = (&self.session, &self.line)
            && !line.send(session.hello(self.orders.kinds()))
        {
            warn!("the controller was not told: the line is full");
        }
        Ok(&self.orders)
    }

    /// Every second: the clock of the data path, and demand to the controller.
    pub fn tick(&mut self, now: Instant) {
        self.slots_in_transition = self.path.maintain();
        let Some(held) = &self.held else { return };
        let counts = match self.path.flows_per_service() {
            Ok(counts) => counts,
            Err(error) => return warn!(error = &error as &dyn std::error::Error, "demand not measured"),
        };
        let report = self.meter.report(counts, &held.services, now);
        if let (Some(report), Some(line)) = (report, &self.line)
            && !line.send(ToController::Demand(report))
        {
            warn!("demand not reported: the line to the controller is full");
        }
    }

    pub fn status(&self) -> Status {
        let epoch = self.path.epoch();
        Status {
            host: self.host.clone(),
            frontend: self.frontend.clone(),
            epoch: epoch.to_string(),
            epoch_number: epoch.0,
            installed_unix_s: self.installed_at.map(unix_seconds),
            connection: self.connection.clone(),
            devices: self.path.devices().into_iter().collect(),
            orders: self.orders.clone(),
            slots_in_transition: self.slots_in_transition,
            mismatches: self.mismatches,
            refusals: self
                .refusals
                .iter()
                .map(|(reason, count)| (reason.label().to_owned(), *count))
                .collect(),
            last_refusal: self.last_refusal.clone(),
            saved_epoch: None,
            save_error: None,
            packets: self.packets(),
        }
    }

    fn packets(&self) -> BTreeMap<String, u64> {
        match self.path.reasons() {
            Ok(reasons) => reasons.into_iter().map(|(reason, count)| (reason.to_owned(), count)).collect(),
            Err(error) => {
                warn!(error = &error as &dyn std::error::Error, "packets not counted");
                BTreeMap::new()
            }
        }
    }

    fn connected(&mut self, line: Line, identity: AgentIdentity, controller: SocketAddr) {
        let frontend = identity.frontend;
        if self.held.as_ref().is_some_and(|held| held.frontend != frontend) {
            warn!(%frontend, "the certificate is for another frontend than the snapshot in force");
        }
        let session = AgentSession::new(self.host.clone(), frontend.clone(), self.held.clone(), canonical);
        let greeted = line.send(session.hello(self.orders.kinds()));
        info!(%controller, %frontend, greeted, "connected");
        self.frontend = Some(frontend);
        self.connection = Connection { controller: Some(controller), error: None };
        self.session = Some(session);
        self.line = Some(line);
    }

    fn message(&mut self, message: ToAgent, now: SystemTime) -> Option<Arc<Snapshot>> {
        let mut session = self.session.take()?;
        let before = session.mismatches();
        let (reply, installed) = match session.receive(message) {
            None => (None, None),
            Some(Step::Reply(reply)) => (Some(reply), None),
            Some(Step::Install(snapshot)) => match self.install(&snapshot) {
                Ok(moved_slots) => {
                    info!(epoch = %snapshot.epoch, moved_slots, "snapshot installed");
                    self.held = Some(Arc::clone(&snapshot));
                    self.installed_at = Some(now);
                    (Some(session.installed(Arc::clone(&snapshot))), Some(snapshot))
                }
                Err(refused) => (Some(session.refused(snapshot.epoch, refused.reason, refused.detail)), None),
            },
        };
        self.mismatches += session.mismatches() - before;
        self.session = Some(session);
        if let Some(reply) = reply {
            self.answer(reply);
        }
        installed
    }

    fn install(&mut self, snapshot: &Snapshot) -> Result<usize, NotInstalled> {
        // An earlier agent put it in force, but did not get to save it.
        if self.held.is_none() && self.path.resume(snapshot) {
            return Ok(0);
        }
        if let Some(refusal) = self.orders.refusal() {
            return Err(NotInstalled { reason: Refusal::Held, detail: refusal.to_owned() });
        }
        self.put_in_force(snapshot)
    }

    /// Installs a snapshot with the orders in its tables.
    fn put_in_force(&mut self, snapshot: &Snapshot) -> Result<usize, NotInstalled> {
        let held_back = |error: SteerError| NotInstalled { reason: Refusal::Held, detail: error.to_string() };
        let steered = steer(snapshot, &self.orders).map_err(held_back)?;
        Ok(self.path.install(&steered)?.moved_slots)
    }

    fn answer(&mut self, reply: ToController) {
        if let ToController::Refused(refused) = &reply {
            let reason = refused.reason.label();
            warn!(epoch = %refused.offered, reason, detail = refused.detail, "snapshot refused");
            self.count(refused.offered, refused.reason, &refused.detail);
        }
        if !self.line.as_ref().is_some_and(|line| line.send(reply)) {
            warn!("answer not sent: the line to the controller is full");
        }
    }

    fn count(&mut self, offered: Epoch, reason: Refusal, detail: &str) {
        *self.refusals.entry(reason).or_default() += 1;
        let (offered, reason, detail) = (offered.to_string(), reason.label().to_owned(), detail.to_owned());
        self.last_refusal = Some(LastRefusal { offered, reason, detail });
    }
}

fn unix_seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}
