//! Solving recorded ticks again, and comparing every bit.
use std::fmt;

use penstock_wire::{ClassId, Epoch, FrontendId, GroupId};

use super::entry::{Entry, Outcome};
use super::ring::Recorded;
use crate::assignment::instance::Instance;
use crate::fleet::{self, fault::Faults};
use crate::policy;
use crate::solve::SolveError;

/// What came out of a replay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replayed {
    pub identical: usize,
    /// Ticks of a policy with memory, which cannot start in the middle.
    pub skipped: usize,
    pub differences: Vec<Difference>,
}

/// A tick that came out differently.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    pub unix_ms: u64,
    pub epoch: Option<Epoch>,
    /// The weight that differs most: recorded and now. `None` if only rates or prices differ.
    pub largest: Option<(FrontendId, ClassId, GroupId, f64, f64)>,
}

#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// This version no longer takes the file that the ticks were made from.
    #[error("the recorded fleet file has faults")]
    Fleet(#[from] Faults),
    #[error("solving a recorded tick")]
    Solve(#[from] SolveError),
}

/// Solves every tick of a segment again.
pub fn replay(recorded: &Recorded) -> Result<Replayed, ReplayError> {
    let fleet = fleet::parse(&recorded.fleet_text)?;
    let mut replayed = Replayed::default();
    for entry in &recorded.entries {
        let mut policy = policy::named(entry.policy);
        if policy.ticks_to_settle() > 1 {
            replayed.skipped += 1;
            continue;
        }
        let instance = entry.inputs.instance(&fleet);
        let now = Outcome::of(&policy.plan(&instance)?);
        if now == entry.outcome {
            replayed.identical += 1;
        } else {
            replayed.differences.push(difference(&instance, entry, &now));
        }
    }
    Ok(replayed)
}

fn difference(instance: &Instance, entry: &Entry, now: &Outcome) -> Difference {
    let dense = |outcome: &Outcome| {
        let mut weights = vec![0.0; instance.problem.arcs.len()];
        for (arc, weight) in &outcome.weights {
            if let Some(place) = weights.get_mut(*arc as usize) {
                *place = *weight;
            }
        }
        weights
    };
    let (before, after) = (dense(&entry.outcome), dense(now));
    let change = |arc: usize| (after[arc] - before[arc]).abs();
    let arc = (0..before.len()).max_by(|a, b| change(*a).total_cmp(&change(*b)));
    let largest = arc.filter(|arc| change(*arc) > 0.0).map(|arc| {
        let supply = instance.problem.arc_start.partition_point(|start| *start <= arc) - 1;
        let pair = &instance.pairs[supply];
        let group = instance.group_of(arc).clone();
        (pair.frontend.clone(), pair.class.clone(), group, before[arc], after[arc])
    });
    Difference { unix_ms: entry.unix_ms, epoch: entry.epoch, largest }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the solve at {} ms", self.unix_ms)?;
        if let Some(epoch) = self.epoch {
            write!(f, " (epoch {epoch})")?;
        }
        match &self.largest {
            Some((frontend, class, group, before, after)) => {
                write!(f, " differs: {frontend} {class} to {group} was {before}, is {after}")
            }
            None => write!(f, " differs in rates or prices, not in weights"),
        }
    }
}
