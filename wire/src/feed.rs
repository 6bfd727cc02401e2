//! One frontend's states in the order of their publication, as a controller keeps them to answer any agent.
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use crate::{Canonical, Digests, Epoch, Snapshot, ToAgent, Touched, Update, session::Form};

/// Steps kept; an agent further behind gets a keyframe.
const MAX_STEPS: usize = 64;

/// The newest state and what changed on the way to it. Cheap to clone: states and steps are shared.
#[derive(Clone, Debug)]
pub struct Feed {
    snapshot: Arc<Snapshot>,
    digests: Digests,
    digest: u64,
    steps: VecDeque<Step>,
    /// Encoded once for all agents that hold the same.
    messages: BTreeMap<(Option<Epoch>, Form), Arc<[u8]>>,
}

/// From one state to the next.
#[derive(Clone, Debug)]
struct Step {
    base: Epoch,
    base_digest: u64,
    touched: Arc<Touched>,
}

impl Feed {
    pub fn new(snapshot: Arc<Snapshot>) -> Self {
        let digests = Digests::of(&snapshot);
        let digest = digests.overall();
        Self { snapshot, digests, digest, steps: VecDeque::new(), messages: BTreeMap::new() }
    }

    /// The feed whose newest state is `next`.
    #[must_use]
    pub fn advance(&self, next: Arc<Snapshot>) -> Self {
        let touched = Arc::new(Touched::between(&self.snapshot, &next));
        let mut feed = Self::new(next);
        if !touched.needs_keyframe {
            feed.steps.clone_from(&self.steps);
            feed.steps.push_back(Step { base: self.snapshot.epoch, base_digest: self.digest, touched });
        }
        // A delta over half of the slots is no smaller than a keyframe.
        let limit = feed.snapshot.tables.iter().map(|table| table.slots.len()).sum::<usize>() / 2;
        while feed.steps.len() > MAX_STEPS || feed.touched_slots() > limit {
            feed.steps.pop_front();
        }
        feed
    }

    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    pub fn epoch(&self) -> Epoch {
        self.snapshot.epoch
    }

    /// Hash of the newest state's content.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// The encoded update that leads an agent with `held` to the newest state, and its form: a delta if that is
    /// asked for and the held state is known here, with the same content.
    pub fn message(
        &mut self,
        held: Option<(Epoch, u64)>,
        form: Form,
        canonical: Canonical,
    ) -> (Arc<[u8]>, Form) {
        let known = held.filter(|held| form == Form::Delta && self.start(*held).is_some());
        let form = if form == Form::Delta && known.is_none() { Form::Keyframe } else { form };
        let base = known.map(|(epoch, _)| epoch);
        if let Some(message) = self.messages.get(&(base, form)) {
            return (Arc::clone(message), form);
        }
        let update = known.and_then(|held| self.delta(held)).unwrap_or_else(|| {
            let canonical = Some(canonical).filter(|_| form != Form::Whole);
            Update::keyframe(&self.snapshot, &self.digests, canonical)
        });
        let message: Arc<[u8]> = ToAgent::Update(Box::new(update)).encode().into();
        self.messages.insert((base, form), Arc::clone(&message));
        (message, form)
    }

    /// Position of the step that starts from what is held.
    fn start(&self, (epoch, digest): (Epoch, u64)) -> Option<usize> {
        self.steps.iter().position(|step| step.base == epoch && step.base_digest == digest)
    }

    fn delta(&self, held: (Epoch, u64)) -> Option<Update> {
        let start = self.start(held)?;
        let mut touched = Touched::default();
        for step in self.steps.range(start..) {
            touched.merge(&step.touched);
        }
        Update::delta(held.0, &self.snapshot, &self.digests, &touched)
    }

    fn touched_slots(&self) -> usize {
        self.steps.iter().map(|step| step.touched.slots()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TableEntry, fixture};

    fn base_of(message: &[u8]) -> Option<Epoch> {
        match ToAgent::decode(message).unwrap() {
            ToAgent::Update(update) => update.base(),
            ToAgent::SendState => panic!("another kind"),
        }
    }

    #[test]
    fn an_agent_gets_a_delta_from_an_epoch_that_is_known_with_the_same_content() {
        let first = fixture::snapshot();
        let second = fixture::moved(&first, 8, 5);
        let start = Feed::new(Arc::new(first.clone()));
        let mut feed = start.advance(Arc::new(second));

        let same = feed.message(Some((first.epoch, start.digest())), Form::Delta, fixture::canonical);
        let other = feed.message(Some((first.epoch, start.digest() ^ 1)), Form::Delta, fixture::canonical);
        let unknown = feed.message(Some((Epoch(3), 1)), Form::Delta, fixture::canonical);

        assert_eq!((base_of(&same.0), same.1), (Some(first.epoch), Form::Delta));
        assert_eq!((base_of(&other.0), other.1), (None, Form::Keyframe));
        assert_eq!((base_of(&unknown.0), unknown.1), (None, Form::Keyframe));
    }

    #[test]
    fn an_agent_too_far_behind_gets_a_keyframe() {
        let first = Arc::new(fixture::snapshot());
        let mut feed = Feed::new(Arc::clone(&first));
        let digest = feed.digest();
        // Slot 0 goes to and fro: each step counts, up to half of the 64 slots.
        for step in 0..32 {
            let mut next = Snapshot::clone(feed.snapshot());
            let mut slots = next.tables[0].slots.clone();
            slots[0] = [5, 0][step % 2];
            next.tables[0] = TableEntry::from_slots("chat".into(), &[0, 2, 5], slots);
            next.epoch = next.epoch.next().unwrap();
            feed = feed.advance(Arc::new(next));
        }
        let message = feed.message(Some((first.epoch, digest)), Form::Delta, fixture::canonical);
        assert_eq!(base_of(&message.0), Some(first.epoch));
        let mut feed = feed.advance(Arc::new(fixture::moved(feed.snapshot(), 1, 1)));

        let message = feed.message(Some((first.epoch, digest)), Form::Delta, fixture::canonical);

        assert_eq!(base_of(&message.0), None);
    }

    #[test]
    fn agents_that_hold_the_same_share_one_message() {
        let first = fixture::snapshot();
        let start = Feed::new(Arc::new(first.clone()));
        let mut feed = start.advance(Arc::new(fixture::moved(&first, 8, 5)));
        let held = Some((first.epoch, start.digest()));

        let (a, _) = feed.message(held, Form::Delta, fixture::canonical);
        let (b, _) = feed.message(held, Form::Delta, fixture::canonical);

        assert!(Arc::ptr_eq(&a, &b));
    }
}
