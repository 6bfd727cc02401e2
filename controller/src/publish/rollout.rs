//! A routine publication goes out in waves: a few hosts first, the rest while those do well. Decisions only.
use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::{Duration, Instant},
};

use penstock_wire::{Epoch, HostId};

/// Percent of the hosts that have the publication in each wave; at least one host.
const WAVES: [usize; 3] = [5, 25, 100];
/// A wave is watched for this long after all of it installed.
const WATCH: Duration = Duration::from_secs(2);
/// Hosts that have not answered by then are not waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// Rise of the share of flows that nobody took, over what it was before, that stops a publication.
const WORSE: f64 = 0.05;

/// What is known of a connected host.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Health {
    pub(super) installed: Option<Epoch>,
    /// It could not install what it was offered last.
    pub(super) failed: Option<Epoch>,
    /// Flows that nobody took over all flows, lately; `None` without flows.
    pub(super) error_share: Option<f64>,
}

/// A publication on its way out.
#[derive(Clone, Debug)]
pub(super) struct Rollout {
    pub(super) epoch: Epoch,
    /// All hosts concerned, in the order in which they are reached.
    order: Vec<HostId>,
    wave: usize,
    entered: Instant,
    /// When all of the wave had installed.
    complete: Option<Instant>,
    /// Error share of each host before it was reached.
    before: BTreeMap<HostId, f64>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub(super) enum Decision {
    Wait,
    /// More hosts are reached.
    Advance,
    /// All are: the publication is what everybody should hold.
    Complete,
    Stop(Fault),
}

/// Why a publication does not go further.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Fault {
    NotInstalled { host: HostId },
    Errors { before: f64, now: f64 },
}

impl Rollout {
    /// The order depends on hosts and epoch, so that it is not always the same host that goes first.
    pub(super) fn new(epoch: Epoch, hosts: &BTreeMap<HostId, Health>, now: Instant) -> Self {
        let mut order: Vec<_> = hosts.keys().cloned().collect();
        order.sort_by_cached_key(|host| {
            let mut hasher = DefaultHasher::new();
            (epoch, host).hash(&mut hasher);
            hasher.finish()
        });
        let before = hosts.iter().filter_map(|(host, health)| Some((host.clone(), health.error_share?)));
        Self { epoch, order, wave: 0, entered: now, complete: None, before: before.collect() }
    }

    /// Whether a host should hold the publication by now. One that came later is reached with the last wave.
    pub(super) fn reaches(&self, host: &HostId) -> bool {
        self.order.iter().take(self.size()).any(|reached| reached == host)
    }

    pub(super) fn decide(&mut self, hosts: &BTreeMap<HostId, Health>, now: Instant) -> Decision {
        let reached: Vec<_> =
            self.order.iter().take(self.size()).filter_map(|host| Some((host, hosts.get(host)?))).collect();
        if let Some((host, _)) = reached.iter().find(|(_, health)| health.failed == Some(self.epoch)) {
            return Decision::Stop(Fault::NotInstalled { host: (*host).clone() });
        }
        let have = |health: &Health| health.installed.is_some_and(|held| held >= self.epoch);
        let all = reached.iter().all(|(_, health)| have(health));
        if !all && now.duration_since(self.entered) < PATIENCE {
            return Decision::Wait;
        }
        let complete = *self.complete.get_or_insert(now);
        if now.duration_since(complete) < WATCH {
            return Decision::Wait;
        }
        let shares = reached.iter().filter_map(|(host, health)| {
            Some((self.before.get(*host).copied().unwrap_or(0.0), health.error_share?))
        });
        let shares: Vec<_> = shares.collect();
        let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / shares.len().max(1) as f64;
        let before = mean(&mut shares.iter().map(|(before, _)| *before));
        let after = mean(&mut shares.iter().map(|(_, after)| *after));
        if after > before + WORSE {
            return Decision::Stop(Fault::Errors { before, now: after });
        }
        if self.wave + 1 == WAVES.len() {
            return Decision::Complete;
        }
        self.wave += 1;
        (self.entered, self.complete) = (now, None);
        // The last wave needs no watching: there is nobody left to spare.
        if self.size() == self.order.len() { Decision::Complete } else { Decision::Advance }
    }

    fn size(&self) -> usize {
        (self.order.len() * WAVES[self.wave]).div_ceil(100)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const EPOCH: Epoch = Epoch(9);

    fn hosts(count: usize) -> BTreeMap<HostId, Health> {
        (0..count).map(|number| (HostId(format!("h{number:03}")), Health::default())).collect()
    }

    fn reached(rollout: &Rollout) -> BTreeSet<HostId> {
        rollout.order.iter().filter(|host| rollout.reaches(host)).cloned().collect()
    }

    fn install(hosts: &mut BTreeMap<HostId, Health>, rollout: &Rollout) {
        for host in reached(rollout) {
            hosts.get_mut(&host).unwrap().installed = Some(EPOCH);
        }
    }

    #[test]
    fn a_publication_reaches_a_twentieth_then_a_quarter_then_all() {
        let (mut hosts, start) = (hosts(100), Instant::now());
        let mut rollout = Rollout::new(EPOCH, &hosts, start);
        assert_eq!(reached(&rollout).len(), 5);

        assert_eq!(rollout.decide(&hosts, start), Decision::Wait);
        install(&mut hosts, &rollout);
        assert_eq!(rollout.decide(&hosts, start), Decision::Wait);
        assert_eq!(rollout.decide(&hosts, start + WATCH), Decision::Advance);
        assert_eq!(reached(&rollout).len(), 25);
        install(&mut hosts, &rollout);
        assert_eq!(rollout.decide(&hosts, start + WATCH), Decision::Wait);

        assert_eq!(rollout.decide(&hosts, start + WATCH * 2), Decision::Complete);
    }

    #[test]
    fn a_host_that_cannot_install_stops_it() {
        let (mut hosts, start) = (hosts(10), Instant::now());
        let mut rollout = Rollout::new(EPOCH, &hosts, start);
        let first = reached(&rollout).pop_first().unwrap();
        hosts.get_mut(&first).unwrap().failed = Some(EPOCH);

        assert_eq!(rollout.decide(&hosts, start), Decision::Stop(Fault::NotInstalled { host: first }));
    }

    #[test]
    fn more_errors_than_before_stop_it_and_as_many_do_not() {
        let (mut hosts, start) = (hosts(10), Instant::now());
        hosts.values_mut().for_each(|health| health.error_share = Some(0.3));
        let mut same = Rollout::new(EPOCH, &hosts, start);
        let mut worse = same.clone();
        install(&mut hosts, &same);
        assert_eq!(same.decide(&hosts, start), Decision::Wait);
        assert_eq!(worse.decide(&hosts, start), Decision::Wait);

        assert_eq!(same.decide(&hosts, start + WATCH), Decision::Advance);
        hosts.values_mut().for_each(|health| health.error_share = Some(0.5));
        let stopped = worse.decide(&hosts, start + WATCH);

        let Decision::Stop(Fault::Errors { before, now }) = stopped else { panic!("{stopped:?}") };
        assert!((before - 0.3).abs() < 1e-9 && (now - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_host_that_is_gone_or_silent_holds_nothing_up_forever() {
        let (mut hosts, start) = (hosts(10), Instant::now());
        let mut rollout = Rollout::new(EPOCH, &hosts, start);
        let mut silent = rollout.clone();
        let first = reached(&rollout).pop_first().unwrap();

        assert_eq!(silent.decide(&hosts, start + PATIENCE), Decision::Wait);
        assert_eq!(silent.decide(&hosts, start + PATIENCE + WATCH), Decision::Advance);
        hosts.remove(&first);
        assert_eq!(rollout.decide(&hosts, start), Decision::Wait);
        assert_eq!(rollout.decide(&hosts, start + WATCH), Decision::Advance);
    }
}
