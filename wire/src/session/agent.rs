//! The agent's side.
use std::sync::Arc;

use crate::{
    ApplyError, Canonical, Digests, Epoch, FrontendId, Hello, HostId, HostOrders, Refusal, Refused, Snapshot,
    ToAgent, ToController, Update,
};

/// What the agent holds, across connections.
#[derive(Debug)]
pub struct AgentSession {
    host: HostId,
    frontend: FrontendId,
    canonical: Canonical,
    held: Option<Held>,
    mismatches: u64,
}

#[derive(Debug)]
struct Held {
    snapshot: Arc<Snapshot>,
    digest: u64,
}

/// What is to be done after a message.
#[derive(Debug)]
#[must_use]
pub enum Step {
    Reply(ToController),
    /// Install it, then report with [`AgentSession::installed`] or [`AgentSession::refused`].
    Install(Arc<Snapshot>),
}

impl AgentSession {
    /// `held` is what is in force already, from disk.
    pub fn new(
        host: HostId,
        frontend: FrontendId,
        held: Option<Arc<Snapshot>>,
        canonical: Canonical,
    ) -> Self {
        let mut session = Self { host, frontend, canonical, held: None, mismatches: 0 };
        session.held = held.map(Held::of);
        session
    }

    pub fn held(&self) -> Option<&Arc<Snapshot>> {
        self.held.as_ref().map(|held| &held.snapshot)
    }

    pub fn held_epoch(&self) -> Option<Epoch> {
        self.held().map(|snapshot| snapshot.epoch)
    }

    /// Updates whose result had other hashes than the controller's.
    pub fn mismatches(&self) -> u64 {
        self.mismatches
    }

    /// The greeting on a new connection, and after a change of orders.
    pub fn hello(&self, orders: HostOrders) -> ToController {
        ToController::Hello(Hello {
            host: self.host.clone(),
            frontend: self.frontend.clone(),
            held: self.held.as_ref().map(|held| (held.snapshot.epoch, held.digest)),
            orders,
        })
    }

    pub fn receive(&mut self, message: ToAgent) -> Option<Step> {
        match message {
            ToAgent::Update(update) => Some(self.update(*update)),
            ToAgent::SendState => {
                let snapshot = self.held()?;
                let update = Update::keyframe(snapshot, &Digests::of(snapshot), None);
                Some(Step::Reply(ToController::State(Box::new(update))))
            }
        }
    }

    /// The snapshot of the last [`Step::Install`] is in force.
    pub fn installed(&mut self, snapshot: Arc<Snapshot>) -> ToController {
        let held = self.held.insert(Held::of(snapshot));
        ToController::Installed { epoch: held.snapshot.epoch, digest: held.digest }
    }

    /// The offered epoch was not taken: the held one stays.
    pub fn refused(&self, offered: Epoch, reason: Refusal, detail: String) -> ToController {
        ToController::Refused(Refused { offered, held: self.held_epoch(), reason, detail })
    }

    fn update(&mut self, update: Update) -> Step {
        let offered = update.epoch;
        if let Some(held) = &self.held
            && offered <= held.snapshot.epoch
        {
            return Step::Reply(self.not_newer(offered, held));
        }
        let result = update.apply(self.held().map(|held| &**held), self.canonical);
        match result {
            Ok(snapshot) if snapshot.frontend != self.frontend => {
                let detail = format!("the update is for frontend {}", snapshot.frontend);
                Step::Reply(self.refused(offered, Refusal::NotInstalled, detail))
            }
            Ok(snapshot) => Step::Install(Arc::new(snapshot)),
            Err(error @ ApplyError::OtherBase { .. }) => {
                Step::Reply(self.refused(offered, Refusal::OtherBase, error.to_string()))
            }
            Err(error) => {
                self.mismatches += 1;
                Step::Reply(self.refused(offered, Refusal::Mismatch, error.to_string()))
            }
        }
    }

    /// A repeated offer of what is held is acknowledged again, for the first answer may be lost.
    fn not_newer(&self, offered: Epoch, held: &Held) -> ToController {
        if offered == held.snapshot.epoch {
            return ToController::Installed { epoch: offered, digest: held.digest };
        }
        let detail = format!("epoch {offered} is not newer than epoch {}", held.snapshot.epoch);
        self.refused(offered, Refusal::Stale, detail)
    }
}

impl Held {
    fn of(snapshot: Arc<Snapshot>) -> Self {
        let digest = Digests::of(&snapshot).overall();
        Self { snapshot, digest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Touched, fixture};

    fn session(held: Option<Snapshot>) -> AgentSession {
        AgentSession::new("a-1".into(), "A".into(), held.map(Arc::new), fixture::canonical)
    }

    fn keyframe(snapshot: &Snapshot) -> ToAgent {
        ToAgent::Update(Box::new(Update::keyframe(snapshot, &Digests::of(snapshot), None)))
    }

    fn refusal(step: Option<Step>) -> Refusal {
        match step {
            Some(Step::Reply(ToController::Refused(refused))) => refused.reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_older_epoch_is_refused_and_the_held_one_stays() {
        let older = fixture::snapshot();
        let newer = fixture::moved(&older, 8, 5);
        let mut agent = session(Some(newer.clone()));

        let step = agent.receive(keyframe(&older));

        assert_eq!(refusal(step), Refusal::Stale);
        assert_eq!(agent.held_epoch(), Some(newer.epoch));
    }

    #[test]
    fn a_state_of_another_frontend_is_refused() {
        let mut snapshot = fixture::snapshot();
        snapshot.frontend = "B".into();

        let step = session(None).receive(keyframe(&snapshot));

        assert_eq!(refusal(step), Refusal::NotInstalled);
    }

    #[test]
    fn a_delta_from_an_epoch_that_is_not_held_is_refused_without_a_mismatch() {
        let first = fixture::snapshot();
        let second = fixture::moved(&first, 8, 5);
        let touched = Touched::between(&first, &second);
        let update = Update::delta(first.epoch, &second, &Digests::of(&second), &touched).unwrap();
        let mut agent = session(None);

        let step = agent.receive(ToAgent::Update(Box::new(update)));

        assert_eq!(refusal(step), Refusal::OtherBase);
        assert_eq!(agent.mismatches(), 0);
    }

    #[test]
    fn other_hashes_are_refused_and_counted() {
        let snapshot = fixture::snapshot();
        let mut digests = Digests::of(&snapshot);
        digests.tables[0] ^= 1;
        let mut agent = session(None);

        let step = agent.receive(ToAgent::Update(Box::new(Update::keyframe(&snapshot, &digests, None))));

        assert_eq!(refusal(step), Refusal::Mismatch);
        assert_eq!(agent.mismatches(), 1);
    }

    #[test]
    fn a_repeated_offer_of_what_is_held_is_acknowledged_again() {
        let snapshot = fixture::snapshot();
        let mut agent = session(Some(snapshot.clone()));

        let step = agent.receive(keyframe(&snapshot));

        let Some(Step::Reply(ToController::Installed { epoch, digest })) = step else { panic!("{step:?}") };
        assert_eq!((epoch, digest), (snapshot.epoch, Digests::of(&snapshot).overall()));
    }
}
