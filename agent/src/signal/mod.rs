//! Signal path: what clients offered to this host, for the controller.
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use penstock_wire::{DemandReport, ServiceDemand, ServiceEntry};

use crate::datapath::ServiceFlows;

/// Turns counters that only grow into demand a window.
#[derive(Debug, Default)]
pub struct DemandMeter {
    last: Option<(Instant, BTreeMap<u16, ServiceFlows>)>,
}

impl DemandMeter {
    /// Demand since the last call, `None` at the first. A count that went back means that the data path was set up anew.
    pub fn report(
        &mut self,
        counts: Vec<ServiceFlows>,
        services: &[ServiceEntry],
        now: Instant,
    ) -> Option<DemandReport> {
        let counts: BTreeMap<u16, ServiceFlows> =
            counts.into_iter().map(|flows| (flows.service, flows)).collect();
        let (since, before) = self.last.replace((now, counts.clone()))?;
        let demand = |service: &ServiceEntry| {
            let count = counts.get(&service.index).copied().unwrap_or_default();
            let earlier = before.get(&service.index).copied().unwrap_or_default();
            ServiceDemand {
                service: service.id.clone(),
                flows: count.new.checked_sub(earlier.new).unwrap_or(count.new),
                refused: count.refused.checked_sub(earlier.refused).unwrap_or(count.refused),
            }
        };
        Some(DemandReport {
            window_ms: milliseconds(now.duration_since(since)),
            services: services.iter().map(demand).collect(),
        })
    }
}

fn milliseconds(window: Duration) -> u32 {
    u32::try_from(window.as_millis()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use penstock_wire::{Forwarding, KeyMode, Protocol, Vip};

    use super::*;

    fn service(index: u16, id: &str) -> ServiceEntry {
        ServiceEntry {
            index,
            id: id.into(),
            class: "chat".into(),
            vip: Vip::V4([192, 0, 2, 1].into()),
            port: 80,
            protocol: Protocol::Tcp,
            key: KeyMode::Flow,
            forwarding: Forwarding::L2,
        }
    }

    fn flows(service: u16, new: u64, refused: u64) -> ServiceFlows {
        ServiceFlows { service, new, refused }
    }

    #[test]
    fn demand_is_the_difference_of_counts_over_the_time_that_passed() {
        let start = Instant::now();
        let services = [service(3, "chat"), service(4, "batch")];
        let mut meter = DemandMeter::default();

        assert_eq!(meter.report(vec![flows(3, 100, 0)], &services, start), None);
        let report = meter
            .report(vec![flows(3, 190, 2), flows(4, 7, 0)], &services, start + Duration::from_millis(1500))
            .unwrap();

        assert_eq!(report.window_ms, 1500);
        assert_eq!(
            report.services.iter().map(|s| (s.flows, s.refused)).collect::<Vec<_>>(),
            [(90, 2), (7, 0)]
        );
    }

    #[test]
    fn a_count_that_went_back_starts_anew() {
        let start = Instant::now();
        let services = [service(3, "chat")];
        let mut meter = DemandMeter::default();
        meter.report(vec![flows(3, 100, 0)], &services, start);

        let report = meter.report(vec![flows(3, 8, 0)], &services, start + Duration::from_secs(1)).unwrap();

        assert_eq!(report.services[0].flows, 8);
    }
}
