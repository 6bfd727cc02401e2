//! Both sides over a link that loses, delays, repeats and overtakes, on virtual time.
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use proptest::prelude::{any, prop_assert_eq, proptest};

use super::{AgentSession, ControllerSession, Event, Form, Step};
use crate::{Epoch, Feed, HostOrders, Snapshot, ToAgent, ToController, Version, fixture};

/// Uniform numbers from a seed (xorshift64*).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit
    }
}

enum Parcel {
    ToAgent(usize, Vec<u8>),
    ToController(usize, Vec<u8>),
}

struct World {
    now: Instant,
    dice: Dice,
    /// Percent of messages lost.
    loss: u64,
    feed: Feed,
    published: HashMap<Epoch, Arc<Snapshot>>,
    sessions: Vec<ControllerSession>,
    agents: Vec<AgentSession>,
    under_way: BTreeMap<(Instant, u64), Parcel>,
    parcels: u64,
}

impl World {
    fn new(seed: u64, agents: usize, loss: u64) -> Self {
        let first = Arc::new(fixture::snapshot());
        let agent = |number| {
            AgentSession::new(format!("a-{number}").as_str().into(), "A".into(), None, fixture::canonical)
        };
        let mut world = Self {
            now: Instant::now(),
            dice: Dice(seed | 1),
            loss,
            feed: Feed::new(Arc::clone(&first)),
            published: HashMap::from([(first.epoch, first)]),
            sessions: vec![ControllerSession::new(); agents],
            agents: (0..agents).map(agent).collect(),
            under_way: BTreeMap::new(),
            parcels: 0,
        };
        (0..agents).for_each(|agent| world.connect(agent));
        world
    }

    /// The greeting opens a connection, so it is neither lost nor late.
    fn connect(&mut self, agent: usize) {
        let lost = |parcel: &Parcel| matches!(parcel, Parcel::ToAgent(to, _) | Parcel::ToController(to, _) if *to == agent);
        self.under_way.retain(|_, parcel| !lost(parcel));
        let hello = self.agents[agent].hello(HostOrders::default());
        self.sessions[agent].receive(hello, self.now);
        self.poll(agent);
    }

    fn publish(&mut self) {
        let first = usize::try_from(self.dice.below(60)).unwrap();
        let next = Arc::new(fixture::moved(self.feed.snapshot(), first, 4));
        self.feed = self.feed.advance(Arc::clone(&next));
        self.published.insert(next.epoch, next);
        (0..self.agents.len()).for_each(|agent| self.poll(agent));
    }

    fn restart_controller(&mut self) {
        self.feed = Feed::new(Arc::clone(self.feed.snapshot()));
        self.sessions.fill_with(ControllerSession::new);
        (0..self.agents.len()).for_each(|agent| self.connect(agent));
    }

    /// It comes back with what it held, or with nothing if its disk is gone.
    fn restart_agent(&mut self, agent: usize, keeps_disk: bool) {
        let held = self.agents[agent].held().filter(|_| keeps_disk).cloned();
        let name = format!("a-{agent}");
        self.agents[agent] = AgentSession::new(name.as_str().into(), "A".into(), held, fixture::canonical);
        self.connect(agent);
    }

    fn poll(&mut self, agent: usize) {
        let Some(send) = self.sessions[agent].poll(self.feed.epoch(), self.now) else { return };
        let (message, form) = self.feed.message(send.held, send.form, fixture::canonical);
        self.sessions[agent].sent(self.feed.epoch(), form, self.now);
        self.post(Parcel::ToAgent(agent, message.to_vec()));
    }

    fn post(&mut self, parcel: Parcel) {
        if self.dice.below(100) < self.loss {
            return;
        }
        let delay = Duration::from_millis(1 + self.dice.below(400));
        self.parcels += 1;
        self.under_way.insert((self.now + delay, self.parcels), parcel);
    }

    /// Delivers all that is due within `span`, and polls each session every 100 ms.
    fn run(&mut self, span: Duration) {
        let end = self.now + span;
        while self.now < end {
            self.now += Duration::from_millis(100);
            while let Some(entry) = self.under_way.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let parcel = entry.remove();
                self.deliver(parcel);
            }
            (0..self.agents.len()).for_each(|agent| self.poll(agent));
        }
    }

    fn deliver(&mut self, parcel: Parcel) {
        match parcel {
            Parcel::ToAgent(agent, bytes) => {
                let reply = match self.agents[agent].receive(ToAgent::decode(&bytes).unwrap()) {
                    None => return,
                    Some(Step::Reply(reply)) => reply,
                    Some(Step::Install(snapshot)) => {
                        // What is installed is what was published under that epoch, and newer than what was held.
                        assert!(self.agents[agent].held_epoch().is_none_or(|held| held < snapshot.epoch));
                        assert_eq!(snapshot, self.published[&snapshot.epoch]);
                        self.agents[agent].installed(snapshot)
                    }
                };
                self.post(Parcel::ToController(agent, reply.encode(Version::NEWEST)));
            }
            Parcel::ToController(agent, bytes) => {
                let event = self.sessions[agent]
                    .receive(ToController::decode(&bytes, Version::NEWEST).unwrap(), self.now);
                assert!(!matches!(event, Event::Greeted));
                self.poll(agent);
            }
        }
    }
}

proptest! {
    #[test]
    fn every_agent_reaches_the_newest_epoch_under_loss_delay_reorder_and_restarts(seed in any::<u64>()) {
        let mut world = World::new(seed, 4, 20);
        for _ in 0..30 {
            world.publish();
            world.run(Duration::from_millis(300));
            match world.dice.below(8) {
                0 => world.restart_controller(),
                1 => {
                    let keeps_disk = world.dice.below(2) == 0;
                    world.restart_agent(2, keeps_disk);
                }
                _ => {}
            }
            // One update and its answer under way for each agent; repeats after a lost answer add one more each.
            assert!(world.under_way.len() <= 4 * 4);
        }

        world.loss = 0;
        world.run(Duration::from_secs(60));

        for agent in &world.agents {
            prop_assert_eq!(agent.held(), Some(world.feed.snapshot()));
            prop_assert_eq!(agent.mismatches(), 0);
        }
    }
}

#[test]
fn an_agent_whose_memory_was_damaged_is_repaired_by_a_keyframe_and_counts_it() {
    let mut world = World::new(7, 1, 0);
    world.run(Duration::from_secs(1));
    let mut damaged = Snapshot::clone(world.agents[0].held().unwrap());
    damaged.tables[0].slots.swap(0, 3);
    let honest = world.agents[0].hello(HostOrders::default());
    world.agents[0] =
        AgentSession::new("a-0".into(), "A".into(), Some(Arc::new(damaged)), fixture::canonical);
    // The damage came after the greeting: the controller believes that the agent holds the right state.
    world.sessions[0].receive(honest, world.now);

    world.publish();
    world.run(Duration::from_secs(2));

    assert_eq!(world.agents[0].mismatches(), 1);
    assert_eq!(world.agents[0].held(), Some(world.feed.snapshot()));
}

#[test]
fn agents_that_compute_another_table_get_whole_tables() {
    let mut world = World::new(7, 1, 0);
    world.agents[0] = AgentSession::new("a-0".into(), "A".into(), None, |engines, slots| {
        let mut positions = fixture::canonical(engines, slots)?;
        positions.rotate_left(1);
        Some(positions)
    });
    world.connect(0);

    world.run(Duration::from_secs(3));

    assert_eq!(world.agents[0].mismatches(), 1);
    assert_eq!(world.agents[0].held(), Some(world.feed.snapshot()));
    assert_eq!(world.sessions[0].poll(world.feed.epoch(), world.now), None);
    assert_eq!(Form::Keyframe.after_mismatch(), Form::Whole);
}
