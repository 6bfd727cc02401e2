//! Snapshots become what hosts should hold: at once, or wave by wave.
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Instant,
};

use penstock_wire::{Epoch, Feed, FrontendId, HostId, Snapshot};

use super::{
    rollout::{Decision, Fault, Health, Rollout},
    roster::{Channel, Roster, lock},
};

/// Publications of a frontend whose times are kept, for lags in seconds.
const TIMES: usize = 64;
impl Roster {
    /// Makes snapshots the newest of their frontends and wakes the sessions. In waves, unless `at_once` or a frontend has
    /// nothing yet.
    pub(super) fn publish(&self, snapshots: &[Arc<Snapshot>], at_once: bool, now: Instant) {
        let mut frontends = lock(&self.frontends);
        for snapshot in snapshots {
            let known = frontends.get(&snapshot.frontend).map(Arc::clone);
            let mut times = known.as_ref().map(|channel| lock(&channel.times).clone()).unwrap_or_default();
            times.push_back((snapshot.epoch, now));
            if times.len() > TIMES {
                times.pop_front();
            }
            let newest = match &known {
                Some(channel) => channel.newest().advance(Arc::clone(snapshot)),
                None => Feed::new(Arc::clone(snapshot)),
            };
            let (stable, candidate) = match known.filter(|_| !at_once) {
                Some(channel) => (lock(&channel.stable).clone(), Some(Mutex::new(newest))),
                None => (newest, None),
            };
            let channel = Channel { stable: Mutex::new(stable), candidate, times: Mutex::new(times) };
            frontends.insert(snapshot.frontend.clone(), Arc::new(channel));
        }
        let in_waves = frontends.values().any(|channel| channel.candidate.is_some());
        drop(frontends);
        let hosts = self.candidates();
        let epoch = snapshots.iter().map(|snapshot| snapshot.epoch).max();
        // With one host or none there is nobody to spare.
        match epoch.filter(|_| in_waves && hosts.len() > 1) {
            Some(epoch) => *lock(&self.rollout) = Some(Rollout::new(epoch, &hosts, now)),
            None => self.settle(),
        }
        self.published.send_modify(|count| *count += 1);
    }

    /// Takes the publication that is on its way a step further. If it must stop, gives the contents to go back to.
    pub(super) fn drive(&self, now: Instant) -> Option<(Fault, Vec<Arc<Snapshot>>)> {
        let hosts = self.candidates();
        let decision = lock(&self.rollout).as_mut()?.decide(&hosts, now);
        match decision {
            Decision::Wait => return None,
            Decision::Advance => {}
            Decision::Complete => self.settle(),
            Decision::Stop(fault) => {
                let before = lock(&self.frontends);
                let withdrawn = before.values().filter(|channel| channel.candidate.is_some());
                let contents =
                    withdrawn.map(|channel| Arc::clone(lock(&channel.stable).snapshot())).collect();
                drop(before);
                *lock(&self.rollout) = None;
                return Some((fault, contents));
            }
        }
        self.published.send_modify(|count| *count += 1);
        None
    }

    /// Ends the waves: every host should hold the newest.
    fn settle(&self) {
        let mut frontends = lock(&self.frontends);
        for channel in frontends.values_mut().filter(|channel| channel.candidate.is_some()) {
            let (stable, times) =
                (Mutex::new(channel.newest().clone()), Mutex::new(lock(&channel.times).clone()));
            *channel = Arc::new(Channel { stable, candidate: None, times });
        }
        drop(frontends);
        *lock(&self.rollout) = None;
    }

    /// Health of the connected hosts whose frontends have something on its way.
    fn candidates(&self) -> BTreeMap<HostId, Health> {
        let concerned: BTreeSet<FrontendId> = lock(&self.frontends)
            .iter()
            .filter(|(_, channel)| channel.candidate.is_some())
            .map(|(frontend, _)| frontend.clone())
            .collect();
        let agents = lock(&self.agents);
        let concerned = agents
            .iter()
            .filter(|(_, agent)| agent.connected && concerned.contains(&agent.identity.frontend));
        concerned.map(|(host, agent)| (host.clone(), agent.health())).collect()
    }

    /// Epoch of the publication that is on its way in waves.
    pub(super) fn on_its_way(&self) -> Option<Epoch> {
        lock(&self.rollout).as_ref().map(|rollout| rollout.epoch)
    }

    pub(super) fn reached(&self, host: &HostId) -> bool {
        lock(&self.rollout).as_ref().is_none_or(|rollout| rollout.reaches(host))
    }
}
