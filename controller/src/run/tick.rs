//! One tick: demand, problem, plan, gate and cadence. Takes values and `now`, reads no clock.
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cadence::Cadence;
use super::calm;
use crate::assignment::expand::expand;
use crate::assignment::instance::{Inputs, Instance};
use crate::assignment::published::Published;
use crate::capacity::availability::Availability;
use crate::demand::gate::{Gate, Hold};
use crate::demand::meter::{HostReport, Meter};
use crate::fleet::Fleet;
use crate::policy::{Plan, Policy, by_distance};
use crate::record::entry::{Outcome, TickInputs};
use crate::solve::SolveError;
use crate::solve::certify::Certificate;
use crate::weights::{Cause, Weights};

/// How long a restarted controller waits for the first reports of all hosts before it plans with stated demand for the
/// missing ones.
pub const UNMEASURED_WAIT: Duration = Duration::from_secs(30);

/// State of the running controller between ticks.
#[derive(Debug)]
pub struct Planner {
    fleet: Arc<Fleet>,
    policy: Box<dyn Policy>,
    meter: Meter,
    gate: Gate,
    cadence: Cadence,
    availability: Availability,
    in_force: Option<InForce>,
    /// Until then, a split of an earlier run is not left for demand that nobody measured.
    measured_by: Option<Instant>,
}

/// What was published last.
#[derive(Debug)]
struct InForce {
    split: Published,
    availability: Availability,
}

/// What one tick decided.
#[derive(Clone, Debug, PartialEq)]
pub enum Tick {
    /// Inputs do not cohere: what is in force stays.
    Held(Hold),
    Planned(Box<Planned>),
}

/// A plan, whether or not it is worth publishing.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    pub inputs: TickInputs,
    pub instance: Instance,
    /// What the policy answered, for the record; `None` without an answer.
    pub outcome: Option<Outcome>,
    /// What is planned after certificate and dead band.
    pub plan: Plan,
    /// Set when the policy's own plan was not published: what replaces it is feasible, but not the best.
    pub refused: Option<Refused>,
    /// Fraction of mean delay that the new split saves over the one in force, at this tick's demand.
    pub saving: f64,
    /// What to publish, if it is due.
    pub publish: Option<Weights>,
}

/// Why the policy's own plan was not taken.
#[derive(Clone, Debug, PartialEq)]
pub enum Refused {
    /// The verifier found a violation or a gap above its limit.
    NotProven(Certificate),
    /// The solver gave no answer.
    NoAnswer(String),
}

impl Planner {
    pub fn new(fleet: Arc<Fleet>, policy: Box<dyn Policy>) -> Self {
        Self {
            policy,
            meter: Meter::new(&fleet),
            gate: Gate::default(),
            cadence: Cadence::new(&fleet.settings),
            availability: Availability::stated(&fleet),
            in_force: None,
            measured_by: None,
            fleet,
        }
    }

    /// Takes over what an earlier run published, so that a restart moves no more than a tick does: it stays until demand
    /// is measured again.
    #[must_use]
    pub fn resume(mut self, split: Published, now: Instant) -> Self {
        if !split.is_empty() {
            self.measured_by = Some(now + UNMEASURED_WAIT);
            self.in_force = Some(InForce { split, availability: self.availability.clone() });
        }
        self
    }

    /// Takes over a split that a person put in force.
    pub fn replace_split(&mut self, split: Published) {
        self.in_force = Some(InForce { split, availability: self.availability.clone() });
    }

    /// Takes an agent's report.
    pub fn record(&mut self, report: &HostReport, now: Instant) {
        self.meter.record(report, now);
    }

    /// Which engines take new work, from the next tick on.
    pub fn set_availability(&mut self, availability: Availability) {
        self.availability = availability;
    }

    pub fn availability(&self) -> &Availability {
        &self.availability
    }

    /// The split that was published last.
    pub fn split_in_force(&self) -> Option<&Published> {
        self.in_force.as_ref().map(|last| &last.split)
    }

    /// Plans for the demand measured so far.
    pub fn tick(&mut self, now: Instant) -> Tick {
        if self.measured_by.is_some_and(|until| now < until && !self.meter.is_complete()) {
            return Tick::Held(Hold::Unmeasured);
        }
        self.measured_by = None;
        let offered = self.meter.offered();
        if let Some(hold) = self.gate.judge(&offered, self.meter.stale_share(now)) {
            return Tick::Held(hold);
        }
        let price = self.fleet.settings.move_penalty;
        let move_from = self.in_force.as_ref().filter(|_| price.get() > 0.0).map(|last| (&last.split, price));
        let inputs = TickInputs::of(&offered, &self.availability, move_from);
        let instance = Instance::build(Inputs {
            fleet: &self.fleet,
            offered: &offered,
            availability: &self.availability,
            move_from,
        });
        let answer = self.policy.plan(&instance);
        let outcome = answer.as_ref().map(Outcome::of).ok();
        let (mut plan, refused) = proven(answer, &instance);
        let cause = self.cause();
        let mut saving = 0.0;
        if let Some(last) = &self.in_force {
            let before = instance.weights_of(&last.split);
            calm::hold_small_changes(&instance, &before, &mut plan.weights);
            saving = calm::saving(&instance, &before, &plan.weights);
            if before == plan.weights && cause == Cause::Routine {
                let publish = None;
                let planned = Planned { inputs, outcome, instance, plan, refused, saving, publish };
                return Tick::Planned(Box::new(planned));
            }
        }
        let publish = self.cadence.is_due(cause, saving, now).then(|| {
            let split = Published::of(&instance, &plan.weights);
            self.in_force = Some(InForce { split, availability: self.availability.clone() });
            expand(&self.fleet, &self.availability, &instance, &plan.weights, cause)
        });
        Tick::Planned(Box::new(Planned { inputs, outcome, instance, plan, refused, saving, publish }))
    }

    /// A failure if a group or an engine that was there at the last publish is gone.
    fn cause(&self) -> Cause {
        match &self.in_force {
            Some(last) if self.availability.is_less_than(&last.availability) => Cause::Failure,
            _ => Cause::Routine,
        }
    }
}

/// The policy's plan if it is proven or claims no proof; the plan by distance otherwise.
fn proven(answer: Result<Plan, SolveError>, instance: &Instance) -> (Plan, Option<Refused>) {
    match answer {
        Ok(plan) => match &plan.proof {
            Some(proof) if !proof.certificate.is_publishable() => {
                let refused = Refused::NotProven(proof.certificate.clone());
                (by_distance::plan(instance), Some(refused))
            }
            _ => (plan, None),
        },
        Err(error) => (by_distance::plan(instance), Some(Refused::NoAnswer(error.to_string()))),
    }
}
