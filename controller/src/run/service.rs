//! The loop of the running controller. It owns the planner and the publisher, and waits on one enum of events.
use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_wire::transport::TlsFiles;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior, interval};
use tracing::{debug, error, info, warn};

use super::tick::{Planned, Planner, Refused, Tick};
use crate::demand::meter::HostReport;
use crate::fleet::Fleet;
use crate::fleet::settings::PolicyName;
use crate::policy;
use crate::publish::{HostDemand, PublishConfig, Publisher, StartError};
use crate::snapshot::Wanted;
use crate::weights::{Cause, Weights};

/// How long a controller without state waits for its agents' tables.
const RECOVERY_WAIT: Duration = Duration::from_secs(5);

/// Why the controller did not run. Agents go on with what they hold.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The file describes a fleet for offline solving. Add what is missing.
    #[error("the fleet file lacks {}", missing.join(", "))]
    NotRunnable { missing: Vec<&'static str> },
    #[error("starting to publish")]
    Start(#[from] StartError),
    #[error("waiting for signals")]
    Signals(#[source] std::io::Error),
}

enum Event {
    Report(HostDemand),
    Tick,
    Stop,
}

struct Events {
    reports: mpsc::Receiver<HostDemand>,
    ticks: Interval,
    stop: Stop,
}

impl Events {
    async fn next(&mut self) -> Event {
        tokio::select! {
            biased;
            () = self.stop.asked() => Event::Stop,
            _ = self.ticks.tick() => Event::Tick,
            report = self.reports.recv() => report.map_or(Event::Stop, Event::Report),
        }
    }
}

/// The signals that ask the process to end.
struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    fn listen() -> std::io::Result<Self> {
        let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Ok(Self { terminate, interrupt })
    }

    async fn asked(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Runs until a signal asks it to stop.
pub async fn run(fleet: Fleet, policy: PolicyName) -> Result<(), RunError> {
    let config = publish_config(&fleet)?;
    let mut stop = Stop::listen().map_err(RunError::Signals)?;
    let mut ticks = interval(fleet.settings.solve_interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut publisher = tokio::select! {
        started = Publisher::start(config) => started?,
        () = stop.asked() => return Ok(()),
    };
    let reports = publisher.take_reports().expect("a new publisher still has its reports");
    info!(?policy, "controller plans for its fleet");

    let mut events = Events { reports, ticks, stop };
    let fleet = Arc::new(fleet);
    let mut service = Service {
        planner: Planner::new(Arc::clone(&fleet), policy::named(policy)),
        fleet,
        publisher,
        wanted: None,
        is_held: false,
        is_refused: false,
    };
    loop {
        match events.next().await {
            Event::Report(demand) => service.planner.record(&host_report(demand), Instant::now()),
            Event::Tick => service.tick(Instant::now()),
            Event::Stop => break,
        }
    }
    info!("stopping; agents go on with what they hold");
    service.publisher.shutdown().await;
    Ok(())
}

fn publish_config(fleet: &Fleet) -> Result<PublishConfig, RunError> {
    let settings = &fleet.settings;
    let lacks = [
        (fleet.engines.is_empty(), "[[engine]]"),
        (fleet.services.is_empty(), "[[service]]"),
        (fleet.hosts.is_empty(), "[[host]]"),
        (settings.tls.is_none(), "controller.tls"),
    ];
    let missing: Vec<&str> = lacks.iter().filter(|(lacks, _)| *lacks).map(|(_, key)| *key).collect();
    match &settings.tls {
        Some(tls) if missing.is_empty() => Ok(PublishConfig {
            listen: settings.listen,
            tls: TlsFiles { ca: tls.ca.clone(), certificate: tls.certificate.clone(), key: tls.key.clone() },
            state_dir: settings.state_dir.clone(),
            table_slots: settings.table_slots,
            hosts: fleet.hosts.iter().map(|host| host.id.clone()).collect(),
            recovery_wait: RECOVERY_WAIT,
        }),
        _ => Err(RunError::NotRunnable { missing }),
    }
}

fn host_report(demand: HostDemand) -> HostReport {
    let HostDemand { identity, report } = demand;
    HostReport {
        host: identity.host,
        frontend: identity.frontend,
        window: Duration::from_millis(report.window_ms.into()),
        flows: report.services.into_iter().map(|demand| (demand.service, demand.flows)).collect(),
    }
}

/// The state that the loop owns.
struct Service {
    fleet: Arc<Fleet>,
    planner: Planner,
    publisher: Publisher,
    /// What should be in force, until all of it is.
    wanted: Option<Weights>,
    /// Whether the last tick was held or refused: said once when it begins and once when it ends.
    is_held: bool,
    is_refused: bool,
}

impl Service {
    fn tick(&mut self, now: Instant) {
        match self.planner.tick(now) {
            Tick::Held(hold) => {
                if !self.is_held {
                    warn!(reason = hold.label(), ?hold, "inputs do not cohere, the split in force is held");
                }
                self.is_held = true;
            }
            Tick::Planned(planned) => {
                if self.is_held {
                    info!("inputs cohere again");
                }
                self.is_held = false;
                self.say_refusal(&planned);
                debug!(saving = planned.saving, due = planned.publish.is_some(), "split planned");
                if planned.publish.is_some() {
                    self.wanted = planned.publish;
                }
            }
        }
        self.publish();
    }

    fn say_refusal(&mut self, planned: &Planned) {
        match (&planned.refused, self.is_refused) {
            (Some(Refused::NotProven(certificate)), false) => error!(
                gap = certificate.gap,
                violations = ?certificate.violations,
                "the optimum has no certificate: the split by distance is published instead"
            ),
            (Some(Refused::NoAnswer(reason)), false) => {
                error!(reason, "the solver has no answer: the split by distance is published instead");
            }
            (None, true) => info!("the optimum is certified again"),
            _ => {}
        }
        self.is_refused = planned.refused.is_some();
    }

    /// Publishes what is wanted; again at the next tick if some of it had to wait.
    fn publish(&mut self) {
        let Some(weights) = &self.wanted else { return };
        let states = self.planner.availability().states();
        let wanted = Wanted { fleet: &self.fleet, weights, states: &states };
        match self.publisher.publish(&wanted) {
            Ok(Some(publication)) if publication.waiting_slots > 0 => {
                // What waits is the rest of this answer, not another failure.
                if let Some(weights) = &mut self.wanted {
                    weights.cause = Cause::Routine;
                }
            }
            Ok(_) => self.wanted = None,
            Err(error) => error!(error = &error as &dyn std::error::Error, "nothing was published"),
        }
    }
}
