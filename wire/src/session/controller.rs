//! The controller's side of one agent's session.
use std::time::{Duration, Instant};

use super::Form;
use crate::{DemandReport, Epoch, Refusal, Refused, ToController, Update};

/// An answer later than this is taken for lost.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// A refused epoch is offered again after this: the agent may have been released.
const RETRY_REFUSED: Duration = Duration::from_secs(30);

/// What one agent holds, and what is on its way to it.
#[derive(Clone, Debug, Default)]
pub struct ControllerSession {
    greeted: bool,
    held: Option<(Epoch, u64)>,
    sent: Option<Sent>,
    refused: Option<(Epoch, Instant)>,
    form: Option<Form>,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    epoch: Epoch,
    form: Form,
    at: Instant,
}

/// An update to send: from what is held, in this form.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub struct Send {
    pub held: Option<(Epoch, u64)>,
    pub form: Form,
}

/// What a message means to the controller.
#[derive(Debug, PartialEq)]
pub enum Event {
    Greeted,
    /// `after` the update was sent; `None` when no update was on its way.
    Installed {
        epoch: Epoch,
        after: Option<Duration>,
    },
    Refused(Refused),
    Demand(DemandReport),
    State(Box<Update>),
}

impl ControllerSession {
    pub fn new() -> Self {
        Self::default()
    }

    /// Epoch in force at the agent and the hash of its content, as it last said.
    pub fn held(&self) -> Option<(Epoch, u64)> {
        self.held
    }

    pub fn receive(&mut self, message: ToController, now: Instant) -> Event {
        match message {
            ToController::Hello(hello) => {
                *self = Self { greeted: true, held: hello.held, ..Self::default() };
                Event::Greeted
            }
            ToController::Installed { epoch, digest } => {
                self.hold(epoch, digest);
                let answered = self.sent.take_if(|sent| sent.epoch <= epoch);
                self.form = self.form.filter(|_| answered.is_none());
                Event::Installed { epoch, after: answered.map(|sent| now.duration_since(sent.at)) }
            }
            ToController::Refused(refused) => {
                self.refuse(&refused, now);
                Event::Refused(refused)
            }
            ToController::Demand(report) => Event::Demand(report),
            ToController::State(update) => Event::State(update),
        }
    }

    /// Whether an update should go out now to an agent that should hold `target`. After sending, say so with
    /// [`ControllerSession::sent`].
    pub fn poll(&self, target: Epoch, now: Instant) -> Option<Send> {
        let on_its_way = self.sent.is_some_and(|sent| now.duration_since(sent.at) < ANSWER_TIMEOUT);
        let refused =
            self.refused.is_some_and(|(epoch, at)| epoch == target && now.duration_since(at) < RETRY_REFUSED);
        let up_to_date = self.held.is_some_and(|(epoch, _)| epoch >= target);
        if !self.greeted || on_its_way || refused || up_to_date {
            return None;
        }
        // Whether an unanswered update was installed is not known.
        let fallback = if self.sent.is_some() { Form::Keyframe } else { Form::Delta };
        Some(Send { held: self.held, form: self.form.unwrap_or(fallback) })
    }

    pub fn sent(&mut self, epoch: Epoch, form: Form, now: Instant) {
        self.sent = Some(Sent { epoch, form, at: now });
    }

    /// When to poll again although nothing happened.
    pub fn deadline(&self) -> Option<Instant> {
        let answer = self.sent.map(|sent| sent.at + ANSWER_TIMEOUT);
        let retry = self.refused.map(|(_, at)| at + RETRY_REFUSED);
        answer.into_iter().chain(retry).min()
    }

    /// Answers may overtake each other: what is held never goes back.
    fn hold(&mut self, epoch: Epoch, digest: u64) {
        if self.held.is_none_or(|(held, _)| held <= epoch) {
            self.held = Some((epoch, digest));
        }
    }

    fn refuse(&mut self, refused: &Refused, now: Instant) {
        let Some(sent) = self.sent.take_if(|sent| sent.epoch == refused.offered) else {
            return;
        };
        match refused.reason {
            Refusal::Mismatch if sent.form == Form::Whole => self.refused = Some((sent.epoch, now)),
            Refusal::Mismatch => self.form = Some(sent.form.after_mismatch()),
            Refusal::OtherBase => self.form = Some(Form::Keyframe),
            // It holds something newer than it last said; its next answer says what.
            Refusal::Stale => self.refused = Some((sent.epoch, now)),
            Refusal::TooManyMoves | Refusal::Held | Refusal::NotInstalled => {
                self.refused = Some((sent.epoch, now));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Hello, HostOrders};

    fn hello(held: Option<(Epoch, u64)>) -> ToController {
        ToController::Hello(Hello {
            host: "a-1".into(),
            frontend: "A".into(),
            held,
            orders: HostOrders::default(),
        })
    }

    fn refused(offered: Epoch, reason: Refusal) -> ToController {
        ToController::Refused(Refused { offered, held: None, reason, detail: String::new() })
    }

    fn greeted(held: Option<(Epoch, u64)>, now: Instant) -> ControllerSession {
        let mut session = ControllerSession::new();
        assert_eq!(session.receive(hello(held), now), Event::Greeted);
        session
    }

    #[test]
    fn nothing_is_sent_before_the_greeting_or_while_an_update_is_on_its_way() {
        let now = Instant::now();
        assert_eq!(ControllerSession::new().poll(Epoch(5), now), None);
        let mut session = greeted(Some((Epoch(3), 7)), now);

        assert_eq!(session.poll(Epoch(5), now), Some(Send { held: Some((Epoch(3), 7)), form: Form::Delta }));
        session.sent(Epoch(5), Form::Delta, now);

        assert_eq!(session.poll(Epoch(9), now), None);
    }

    #[test]
    fn epochs_published_meanwhile_are_skipped() {
        let now = Instant::now();
        let mut session = greeted(Some((Epoch(3), 7)), now);
        session.sent(Epoch(4), Form::Delta, now);

        let event = session.receive(ToController::Installed { epoch: Epoch(4), digest: 8 }, now);

        assert_eq!(event, Event::Installed { epoch: Epoch(4), after: Some(Duration::ZERO) });
        assert_eq!(session.poll(Epoch(9), now), Some(Send { held: Some((Epoch(4), 8)), form: Form::Delta }));
    }

    #[test]
    fn a_mismatch_asks_for_a_keyframe_then_for_whole_tables_then_waits() {
        let now = Instant::now();
        let mut session = greeted(Some((Epoch(3), 7)), now);
        let mut forms = Vec::new();
        while let Some(send) = session.poll(Epoch(4), now) {
            forms.push(send.form);
            session.sent(Epoch(4), send.form, now);
            session.receive(refused(Epoch(4), Refusal::Mismatch), now);
        }

        assert_eq!(forms, [Form::Delta, Form::Keyframe, Form::Whole]);
        assert!(session.poll(Epoch(4), now + RETRY_REFUSED).is_some());
    }

    #[test]
    fn a_refused_epoch_waits_but_a_newer_one_does_not() {
        let now = Instant::now();
        let mut session = greeted(None, now);
        session.sent(Epoch(4), Form::Keyframe, now);
        session.receive(refused(Epoch(4), Refusal::TooManyMoves), now);

        assert_eq!(session.poll(Epoch(4), now), None);
        assert!(session.poll(Epoch(5), now).is_some());
    }

    #[test]
    fn a_lost_answer_leads_to_a_keyframe() {
        let now = Instant::now();
        let mut session = greeted(Some((Epoch(3), 7)), now);
        session.sent(Epoch(4), Form::Delta, now);

        let later = session.deadline().unwrap();

        assert_eq!(session.poll(Epoch(4), later).unwrap().form, Form::Keyframe);
    }

    #[test]
    fn an_agent_ahead_gets_nothing() {
        let now = Instant::now();
        let session = greeted(Some((Epoch(9), 7)), now);

        assert_eq!(session.poll(Epoch(4), now), None);
        assert_eq!(session.held(), Some((Epoch(9), 7)));
    }
}
