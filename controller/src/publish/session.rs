//! One agent's connection: messages to and from the session of `wire`.
use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};

use penstock_wire::{
    Canonical, ControllerSession, Event, HostOrders, MAX_AGENT_MESSAGE, MAX_MESSAGE, ToAgent, ToController,
    Version,
    transport::{
        AgentIdentity, Close, IdentityError, ReadError, certificate_expiry, leaf_of, read_message,
        version_of, write_message,
    },
};
use quinn::{Connection, RecvStream, SendStream};
use tokio::{sync::watch, time::sleep_until};
use tracing::{debug, info, warn};

use super::roster::{Answer, Roster, lock};

/// Messages that an agent may send at once, and then in each second.
const BURST: f64 = 60.0;
const MESSAGES_PER_SECOND: f64 = 20.0;

/// Serves one agent until its connection ends.
pub(super) async fn serve(connection: Connection, number: u64, roster: Arc<Roster>, canonical: Canonical) {
    let (identity, ends) = match identify(&connection) {
        Ok(identified) => identified,
        Err(error) => {
            warn!(address = %connection.remote_address(), %error, "agent turned away");
            return close(&connection, Close::Identity);
        }
    };
    if ends <= SystemTime::now() {
        return close(&connection, Close::Expired);
    }
    // The handshake agreed on one of ours.
    let Some(version) = version_of(&connection) else { return close(&connection, Close::Protocol) };
    let Ok((send, receive)) = connection.accept_bi().await else { return };
    let session = Session {
        identity: identity.clone(),
        connection: connection.clone(),
        number,
        version,
        published: roster.subscribe(),
        roster: Arc::clone(&roster),
        canonical,
        state: ControllerSession::new(),
        send,
        allowance: Allowance { left: BURST, at: Instant::now() },
    };
    let reason = session.run(receive, ends).await;
    roster.leave(&identity.host, number);
    if let Some(reason) = reason {
        warn!(host = %identity.host, reason = reason.reason(), "session ended");
        close(&connection, reason);
    } else {
        info!(host = %identity.host, "session ended");
    }
}

fn identify(connection: &Connection) -> Result<(AgentIdentity, SystemTime), IdentityError> {
    let leaf = leaf_of(connection)?;
    Ok((AgentIdentity::from_certificate(&leaf)?, certificate_expiry(&leaf)?))
}

fn close(connection: &Connection, close: Close) {
    connection.close(close.code(), close.reason().as_bytes());
}

struct Session {
    identity: AgentIdentity,
    connection: Connection,
    number: u64,
    version: Version,
    roster: Arc<Roster>,
    published: watch::Receiver<u64>,
    canonical: Canonical,
    state: ControllerSession,
    send: SendStream,
    allowance: Allowance,
}

/// What a session waits for.
enum Wake {
    Read(RecvStream, Result<Option<Vec<u8>>, ReadError>),
    Published,
    Deadline,
    Expired,
}

impl Session {
    /// Why the connection is to be closed; `None` if it ended by itself.
    async fn run(mut self, receive: RecvStream, ends: SystemTime) -> Option<Close> {
        let lifetime = ends.duration_since(SystemTime::now()).unwrap_or_default();
        let expired = tokio::time::sleep(lifetime);
        tokio::pin!(expired);
        // Only one future reads, and it is kept until it has a whole message.
        let mut reading = Box::pin(read_next(receive, MAX_AGENT_MESSAGE));
        loop {
            let deadline = self.state.deadline();
            let wake = tokio::select! {
                (stream, result) = &mut reading => Wake::Read(stream, result),
                changed = self.published.changed() => match changed {
                    Ok(()) => Wake::Published,
                    Err(_gone) => return Some(Close::Shutdown),
                },
                () = at(deadline) => Wake::Deadline,
                () = &mut expired => Wake::Expired,
            };
            match wake {
                Wake::Expired => return Some(Close::Expired),
                // The first publication of an empty controller may be older than what the agent holds.
                Wake::Published => self.roster.check_conflict(&self.identity, self.state.held()),
                Wake::Deadline => {}
                Wake::Read(stream, result) => {
                    let message = match result {
                        Ok(Some(message)) => message,
                        Ok(None) | Err(ReadError::Broken(_)) => return None,
                        Err(error) => {
                            warn!(host = %self.identity.host, %error, "message refused");
                            return Some(Close::Protocol);
                        }
                    };
                    if let Err(close) = self.receive(&message).await {
                        return Some(close);
                    }
                    reading = Box::pin(read_next(stream, self.limit()));
                }
            }
            if !self.send_due().await {
                return None;
            }
        }
    }

    /// A state is larger than anything else that an agent says, and is only read when it was asked for.
    fn limit(&self) -> usize {
        if lock(&self.roster.recovery).is_some() { MAX_MESSAGE } else { MAX_AGENT_MESSAGE }
    }

    async fn receive(&mut self, bytes: &[u8]) -> Result<(), Close> {
        let now = Instant::now();
        if !self.allowance.take(now) {
            return Err(Close::Rate);
        }
        let message = ToController::decode(bytes, self.version).map_err(|error| {
            warn!(host = %self.identity.host, %error, "message refused");
            Close::Protocol
        })?;
        let orders = match &message {
            ToController::Hello(hello) => hello.orders,
            _ => HostOrders::default(),
        };
        if let ToController::Hello(hello) = &message
            && (hello.host != self.identity.host || hello.frontend != self.identity.frontend)
        {
            return Err(Close::Identity);
        }
        match self.state.receive(message, now) {
            Event::Greeted => self.greeted(orders).await,
            Event::Installed { epoch, after } => {
                self.roster.installed(&self.identity, epoch, now);
                debug!(host = %self.identity.host, %epoch, ?after, "snapshot installed");
            }
            Event::Refused(refused) => {
                let reason = refused.reason.label();
                warn!(host = %self.identity.host, epoch = %refused.offered, reason, detail = refused.detail, "snapshot refused");
                self.roster.refused(&self.identity.host, refused);
            }
            Event::Demand(report) => self.roster.report(&self.identity, report),
            Event::State(update) => self.answer(*update),
        }
        Ok(())
    }

    async fn greeted(&mut self, orders: HostOrders) {
        let ends = certificate_end(&self.connection);
        if let Some(older) = self.roster.enter(&self.identity, self.number, &self.connection, ends) {
            close(&older, Close::Replaced);
        }
        let held = self.state.held();
        self.roster.holds(&self.identity.host, held.map(|(epoch, _)| epoch), orders);
        info!(host = %self.identity.host, frontend = %self.identity.frontend, held = ?held.map(|(epoch, _)| epoch.to_string()), "session started");
        let recovery = lock(&self.roster.recovery).clone();
        if let Some(recovery) = recovery {
            let asked =
                held.is_some() && write_message(&mut self.send, &ToAgent::SendState.encode()).await.is_ok();
            if !asked {
                let nothing = Answer::Nothing(self.identity.host.clone());
                if recovery.try_send(nothing).is_err() {
                    debug!(host = %self.identity.host, "recovery ended before this answer");
                }
            }
        }
        self.roster.check_conflict(&self.identity, held);
    }

    fn answer(&self, update: penstock_wire::Update) {
        let Some(recovery) = lock(&self.roster.recovery).clone() else { return };
        let host = self.identity.host.clone();
        let answer = match update.apply(None, self.canonical) {
            Ok(snapshot) if snapshot.frontend == self.identity.frontend => {
                Answer::State(host, Box::new(snapshot))
            }
            Ok(snapshot) => {
                warn!(%host, frontend = %snapshot.frontend, "state of another frontend left aside");
                Answer::Nothing(host)
            }
            Err(error) => {
                warn!(%host, %error, "state left aside");
                Answer::Nothing(host)
            }
        };
        if recovery.try_send(answer).is_err() {
            debug!(host = %self.identity.host, "recovery ended before this answer");
        }
    }

    /// Sends what is due; `false` if the stream is gone.
    async fn send_due(&mut self) -> bool {
        let Some(target) = self.roster.target(&self.identity) else { return true };
        let Some(due) = self.state.poll(target, Instant::now()) else { return true };
        let Some((message, epoch, form)) =
            self.roster.message(&self.identity, due.held, due.form, self.canonical)
        else {
            return true;
        };
        self.state.sent(epoch, form, Instant::now());
        write_message(&mut self.send, &message).await.is_ok()
    }
}

fn certificate_end(connection: &Connection) -> SystemTime {
    identify(connection).map_or(SystemTime::UNIX_EPOCH, |(_, ends)| ends)
}

async fn read_next(mut stream: RecvStream, limit: usize) -> (RecvStream, Result<Option<Vec<u8>>, ReadError>) {
    let result = read_message(&mut stream, limit).await;
    (stream, result)
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

/// A bucket of messages.
struct Allowance {
    left: f64,
    at: Instant,
}

impl Allowance {
    fn take(&mut self, now: Instant) -> bool {
        let earned = now.duration_since(self.at).as_secs_f64() * MESSAGES_PER_SECOND;
        self.left = (self.left + earned).min(BURST) - 1.0;
        self.at = now;
        self.left >= 0.0
    }
}
