//! What the loop owns: planner, publisher, record, and what the last tick found.
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use penstock_wire::Epoch;
use tracing::{debug, error, info, warn};

use super::tick::{Planned, Planner, Refused, Tick};
use crate::admin::status::{AgentRow, Counters, DemandRow, Mode, SplitRow, Status};
use crate::admin::{Answer, Request, RunningInputs};
use crate::assignment::instance::Instance;
use crate::assignment::published::Published;
use crate::assignment::report::Report;
use crate::demand::meter::HostReport;
use crate::fleet::Fleet;
use crate::fleet::settings::PolicyName;
use crate::policy::{self, Plan};
use crate::publish::{AgentStatus, Publisher};
use crate::record::entry::Entry;
use crate::record::ring::Ring;
use crate::reserve::Reserve;
use crate::snapshot::Wanted;
use crate::solve::SolveError;
use crate::solve::certify::PUBLISHABLE_GAP;
use crate::weights::{Cause, Weights};

/// Ticks from one look at the plan's reserve to the next.
const RESERVE_EVERY: u64 = 60;

/// State of the running controller.
#[derive(Debug)]
pub(super) struct State {
    fleet: Arc<Fleet>,
    fleet_text: String,
    policy: PolicyName,
    planner: Planner,
    publisher: Publisher,
    records: Option<Ring>,
    /// What should be in force, until all of it is.
    wanted: Option<Weights>,
    mode: Mode,
    counters: Counters,
    tick_ms: f64,
    last: Option<Box<Planned>>,
    reserve: Option<Reserve>,
}

impl State {
    pub(super) fn new(
        fleet: Arc<Fleet>,
        fleet_text: String,
        policy: PolicyName,
        publisher: Publisher,
        records: Option<Ring>,
    ) -> Self {
        let split = Published::of_snapshots(publisher.snapshots().map(Arc::as_ref));
        Self {
            planner: Planner::new(Arc::clone(&fleet), policy::named(policy)).resume(split, Instant::now()),
            fleet,
            fleet_text,
            policy,
            publisher,
            records,
            wanted: None,
            mode: Mode::Starting,
            counters: Counters::default(),
            tick_ms: 0.0,
            last: None,
            reserve: None,
        }
    }

    pub(super) fn record_demand(&mut self, report: &HostReport, now: Instant) {
        self.planner.record(report, now);
    }

    /// Plans, publishes what is due or had to wait, and records the solve.
    pub(super) fn tick(&mut self, now: Instant) {
        self.counters.ticks += 1;
        if let Err(error) = self.publisher.drive() {
            self.counters.publish_errors += 1;
            error!(error = &error as &dyn std::error::Error, "a publication was not taken back");
        }
        match self.planner.tick(now) {
            Tick::Held(hold) => {
                self.counters.held_ticks += 1;
                if self.mode != Mode::Held {
                    warn!(reason = hold.label(), ?hold, "inputs do not cohere, the split in force is held");
                }
                self.mode = Mode::Held;
                self.publish();
            }
            Tick::Planned(mut planned) => {
                self.say(&planned);
                debug!(saving = planned.saving, due = planned.publish.is_some(), "split planned");
                if let Some(weights) = planned.publish.take() {
                    self.wanted = Some(weights);
                }
                let epoch = self.publish();
                self.record(&planned, epoch);
                self.last = Some(planned);
            }
        }
        self.tick_ms = now.elapsed().as_secs_f64() * 1e3;
    }

    /// Says a change of mode once, when it begins.
    fn say(&mut self, planned: &Planned) {
        let mode = if planned.refused.is_some() { Mode::ByDistance } else { Mode::Planned };
        match &planned.refused {
            Some(_) if self.mode == Mode::ByDistance => {}
            Some(Refused::NotProven(certificate)) => error!(
                gap = certificate.gap,
                violations = ?certificate.violations,
                "the optimum has no certificate: the split by distance is published instead"
            ),
            Some(Refused::NoAnswer(reason)) => {
                error!(reason, "the solver has no answer: the split by distance is published instead");
            }
            None if self.mode != mode => info!(policy = ?self.policy, "planning by the policy"),
            None => {}
        }
        self.counters.by_distance_ticks += u64::from(mode == Mode::ByDistance);
        self.mode = mode;
    }

    /// Publishes what is wanted; again at the next tick if some of it had to wait.
    fn publish(&mut self) -> Option<Epoch> {
        let weights = self.wanted.as_mut()?;
        if self.publisher.must_wait(weights.cause) {
            return None;
        }
        let states = self.planner.availability().states();
        match self.publisher.publish(&Wanted { fleet: &self.fleet, weights, states: &states }) {
            Ok(Some(publication)) => {
                self.counters.publishes += 1;
                self.counters.moved_slots += publication.moved_slots as u64;
                self.counters.waiting_slots = publication.waiting_slots as u64;
                // What waits is the rest of this answer, not another failure.
                weights.cause = Cause::Routine;
                if publication.waiting_slots == 0 {
                    self.wanted = None;
                }
                Some(publication.epoch)
            }
            Ok(None) => {
                self.counters.waiting_slots = 0;
                self.wanted = None;
                None
            }
            Err(error) => {
                self.counters.publish_errors += 1;
                error!(error = &error as &dyn std::error::Error, "nothing was published");
                None
            }
        }
    }

    fn record(&mut self, planned: &Planned, epoch: Option<Epoch>) {
        let (Some(ring), Some(outcome)) = (&mut self.records, &planned.outcome) else { return };
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let entry = Entry {
            unix_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
            epoch,
            policy: self.policy,
            inputs: planned.inputs.clone(),
            outcome: outcome.clone(),
        };
        if let Err(error) = ring.append(&entry) {
            if self.counters.record_errors == 0 {
                warn!(error = &error as &dyn std::error::Error, "a solve was not recorded");
            }
            self.counters.record_errors += 1;
        }
    }

    /// The last plan and its problem, once every [`RESERVE_EVERY`] ticks.
    pub(super) fn reserve_due(&self) -> Option<(Instance, Plan)> {
        let is_due = self.mode != Mode::Held && self.counters.ticks % RESERVE_EVERY == 1;
        let last = self.last.as_deref().filter(|_| is_due)?;
        Some((last.instance.clone(), last.plan.clone()))
    }

    pub(super) fn take_reserve(&mut self, found: Result<Reserve, SolveError>) {
        match found {
            Ok(reserve) => {
                if let Some(difference) =
                    reserve.second_opinion.filter(|difference| *difference > PUBLISHABLE_GAP)
                {
                    error!(difference, "the readable solver found a better optimum: report this record");
                }
                self.reserve = Some(reserve);
            }
            Err(error) => warn!(error = &error as &dyn std::error::Error, "the plan's reserve is not known"),
        }
    }

    pub(super) fn answer(&mut self, request: Request) -> Answer {
        match request {
            Request::Rollback { to } => match self.publisher.rollback(to) {
                Ok(publication) => {
                    self.wanted = None;
                    let split = Published::of_snapshots(self.publisher.snapshots().map(Arc::as_ref));
                    self.planner.replace_split(split);
                    Answer::Published { epoch: publication.epoch, moved_slots: publication.moved_slots }
                }
                Err(error) => Answer::Error(with_causes(&error)),
            },
            Request::Release {} => match self.publisher.release() {
                Ok(()) => Answer::Released,
                Err(error) => Answer::Error(with_causes(&error)),
            },
            Request::Epochs {} => match self.publisher.epochs() {
                Ok(epochs) => Answer::Epochs(epochs),
                Err(error) => Answer::Error(with_causes(&error)),
            },
            Request::Status {} => Answer::Status(Box::new(self.status())),
            Request::Inputs {} => match &self.last {
                Some(planned) => Answer::Inputs(Box::new(RunningInputs {
                    fleet: self.fleet_text.clone(),
                    inputs: planned.inputs.clone(),
                })),
                None => Answer::Error("nothing was solved yet".to_owned()),
            },
        }
    }

    fn status(&self) -> Status {
        let epoch = self.publisher.epoch();
        let last = self.last.as_deref();
        let certificate =
            last.and_then(|planned| planned.plan.proof.as_ref()).map(|proof| &proof.certificate);
        let demand = last.map(|planned| &planned.inputs.offered[..]).unwrap_or_default();
        let demand = demand
            .iter()
            .map(|(frontend, class, rps)| DemandRow {
                frontend: frontend.clone(),
                class: class.clone(),
                rps: *rps,
            })
            .collect();
        let mut counters = self.counters;
        counters.dropped_reports = self.publisher.dropped_reports();
        Status {
            policy: self.policy,
            epoch: epoch.to_string(),
            epoch_number: epoch.0,
            mode: self.mode,
            counters,
            tick_ms: self.tick_ms,
            saving: last.map_or(0.0, |planned| planned.saving),
            excess: certificate.map(|certificate| certificate.excess),
            demand,
            plan: last.map(|planned| Report::of(&planned.instance, &planned.plan)),
            reserve: self.reserve.clone(),
            published: self.published(),
            agents: self.publisher.agents().into_iter().map(agent_row).collect(),
            rolled_back: self.publisher.rolled_back().map(|epoch| epoch.to_string()),
            on_its_way: self.publisher.on_its_way().map(|epoch| epoch.to_string()),
        }
    }

    fn published(&self) -> Vec<SplitRow> {
        let mut rows = Vec::new();
        let split = self.planner.split_in_force();
        for (frontend, class, row) in split.into_iter().flat_map(|split| split.iter()) {
            for (group, weight) in row {
                rows.push(SplitRow {
                    frontend: frontend.clone(),
                    class: class.clone(),
                    group: group.clone(),
                    weight: *weight,
                });
            }
        }
        rows
    }

    pub(super) async fn shutdown(self) {
        self.publisher.shutdown().await;
    }
}

/// The error and its causes in one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |error| error.source())
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}

fn agent_row(agent: AgentStatus) -> AgentRow {
    AgentRow {
        host: agent.host,
        frontend: agent.frontend,
        connected: agent.connected,
        address: agent.address,
        installed: agent.installed.map(|epoch| epoch.to_string()),
        lag_epochs: agent.lag.epochs,
        lag_seconds: agent.lag.time.as_secs_f64(),
        mismatches: agent.mismatches,
        orders: agent.orders.labels().into_iter().map(str::to_owned).collect(),
        last_refusal: agent.last_refusal.map(|refusal| {
            format!("epoch {}: {}: {}", refusal.offered, refusal.reason.label(), refusal.detail)
        }),
    }
}
