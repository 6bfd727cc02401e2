//! From agents' reports to offered demand: sums over a frontend's hosts, smoothed over time.
//!
//! One second of a Poisson stream of 30 requests/s is off by 18 % in the mean; the average over [`MEMORY`] is off by
//! 4 %. A host that falls silent keeps counting with its last rate: hold, don't guess. [`Meter::stale_share`] says how
//! much of the fleet that is.
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use penstock_wire::{ClassId, FrontendId, HostId, ServiceId};

use super::Offered;
use crate::fleet::Fleet;
use crate::fleet::units::Rate;

/// Time constant of the average.
pub const MEMORY: Duration = Duration::from_secs(10);
/// Age of its last report from which a host counts as stale.
pub const STALE_AFTER: Duration = Duration::from_secs(5);

/// What one host was offered within one window.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HostReport {
    pub host: HostId,
    pub frontend: FrontendId,
    pub window: Duration,
    /// New flows by service.
    pub flows: Vec<(ServiceId, u64)>,
}

/// Demand as the agents measure it; until a frontend's first report, as the fleet file states it.
#[derive(Debug)]
pub struct Meter {
    classes: HashMap<ServiceId, ClassId>,
    hosts: BTreeMap<HostId, HostDemand>,
    stated: Offered,
    /// Hosts that the fleet file lists, by frontend.
    expected: BTreeMap<FrontendId, u32>,
}

#[derive(Debug)]
struct HostDemand {
    frontend: FrontendId,
    /// Requests/s by class.
    rates: BTreeMap<ClassId, f64>,
    /// Time covered by the average so far.
    covered: Duration,
    last_report: Instant,
}

impl Meter {
    pub fn new(fleet: &Fleet) -> Self {
        let classes =
            fleet.services.iter().map(|service| (service.id.clone(), service.class.clone())).collect();
        let mut expected = BTreeMap::new();
        for host in &fleet.hosts {
            *expected.entry(host.frontend.clone()).or_insert(0) += 1;
        }
        Self { classes, hosts: BTreeMap::new(), stated: Offered::stated(fleet), expected }
    }

    /// Takes one report. An empty window says nothing and is left out.
    pub fn record(&mut self, report: &HostReport, now: Instant) {
        let window = report.window.as_secs_f64();
        if window <= 0.0 {
            return;
        }
        let mut flows: BTreeMap<&ClassId, u64> = BTreeMap::new();
        for (service, count) in &report.flows {
            if let Some(class) = self.classes.get(service) {
                *flows.entry(class).or_insert(0) += count;
            }
        }
        let host = self.hosts.entry(report.host.clone()).or_insert_with(|| HostDemand {
            frontend: report.frontend.clone(),
            rates: BTreeMap::new(),
            covered: Duration::ZERO,
            last_report: now,
        });
        // The first reports average evenly; from MEMORY on, old ones fade.
        host.covered = (host.covered + report.window).min(MEMORY.max(report.window));
        let newest = (window / host.covered.as_secs_f64()).min(1.0);
        host.last_report = now;
        let classes: BTreeSet<&ClassId> = self.classes.values().collect();
        for class in classes {
            #[expect(clippy::cast_precision_loss, reason = "a window has far fewer than 2^52 flows")]
            let sample = flows.get(class).copied().unwrap_or(0) as f64 / window;
            let rate = host.rates.entry(class.clone()).or_insert(sample);
            *rate += newest * (sample - *rate);
        }
    }

    /// Offered demand of every pair. A frontend counts as measured once all its hosts have reported.
    pub fn offered(&self) -> Offered {
        let mut measured: BTreeMap<&FrontendId, u32> = BTreeMap::new();
        let mut sums: BTreeMap<(&FrontendId, &ClassId), f64> = BTreeMap::new();
        for host in self.hosts.values() {
            *measured.entry(&host.frontend).or_insert(0) += 1;
            for (class, rate) in &host.rates {
                *sums.entry((&host.frontend, class)).or_insert(0.0) += rate;
            }
        }
        let is_measured = |frontend: &FrontendId| {
            let hosts = measured.get(frontend).copied().unwrap_or(0);
            hosts > 0 && hosts >= self.expected.get(frontend).copied().unwrap_or(0)
        };
        let mut offered = Offered::default();
        for (frontend, class, rate) in self.stated.iter().filter(|(frontend, ..)| !is_measured(frontend)) {
            offered.set(frontend.clone(), class.clone(), rate);
        }
        for ((frontend, class), rate) in sums.into_iter().filter(|((frontend, _), _)| is_measured(frontend)) {
            offered.set(frontend.clone(), class.clone(), Rate::try_from(rate).unwrap_or_default());
        }
        offered
    }

    /// Whether every host of the fleet file has reported.
    pub fn is_complete(&self) -> bool {
        let hosts: u32 = self.expected.values().sum();
        self.hosts.len() >= hosts as usize
    }

    /// Share of the hosts that once reported and whose last report is older than [`STALE_AFTER`].
    pub fn stale_share(&self, now: Instant) -> f64 {
        let stale = self
            .hosts
            .values()
            .filter(|host| now.saturating_duration_since(host.last_report) > STALE_AFTER)
            .count();
        if self.hosts.is_empty() {
            return 0.0;
        }
        #[expect(clippy::cast_precision_loss, reason = "a fleet has far fewer than 2^52 hosts")]
        let share = stale as f64 / self.hosts.len() as f64;
        share
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet;

    fn fleet() -> Fleet {
        fleet::parse(include_str!("../../../examples/talk.toml")).unwrap()
    }

    fn report(flows: u64) -> HostReport {
        HostReport {
            host: "host-a".into(),
            frontend: "A".into(),
            window: Duration::from_secs(1),
            flows: vec![("chat".into(), flows), ("chat-v4".into(), 10), ("gone".into(), 7)],
        }
    }

    fn rate(meter: &Meter, frontend: &str) -> f64 {
        meter.offered().rate(&frontend.into(), &"chat".into()).get()
    }

    #[test]
    fn stated_demand_holds_until_the_frontend_reports() {
        let mut meter = Meter::new(&fleet());
        assert_eq!(rate(&meter, "A"), 90.0);

        meter.record(&report(50), Instant::now());

        // Both services of the class count, one that is not in the file does not.
        assert_eq!(rate(&meter, "A"), 60.0);
        assert_eq!(rate(&meter, "B"), 120.0);
    }

    #[test]
    fn the_average_is_even_at_first_and_then_fades() {
        let (mut meter, now) = (Meter::new(&fleet()), Instant::now());

        meter.record(&report(50), now);
        meter.record(&report(90), now);
        assert_eq!(rate(&meter, "A"), 80.0);

        for _ in 0..100 {
            meter.record(&report(190), now);
        }
        assert!((rate(&meter, "A") - 200.0).abs() < 0.1);
    }

    #[test]
    fn a_frontend_with_a_host_that_never_reported_keeps_its_stated_demand() {
        let mut fleet = fleet();
        fleet.hosts.push(crate::fleet::parts::Host { id: "host-a2".into(), frontend: "A".into() });
        let mut meter = Meter::new(&fleet);

        meter.record(&report(50), Instant::now());

        assert_eq!(rate(&meter, "A"), 90.0);
    }

    #[test]
    fn a_silent_host_counts_with_its_last_rate_and_as_stale() {
        let (mut meter, start) = (Meter::new(&fleet()), Instant::now());
        meter.record(&report(50), start);

        let later = start + STALE_AFTER + Duration::from_millis(1);

        assert_eq!(meter.stale_share(start + STALE_AFTER), 0.0);
        assert_eq!(meter.stale_share(later), 1.0);
        assert_eq!(rate(&meter, "A"), 60.0);
    }
}
