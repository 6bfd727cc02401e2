//! Which input changed the split: the inputs of two recorded solves, and what each difference does by itself.
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use penstock_wire::{ClassId, EngineId, Epoch, FrontendId, GroupId};

use crate::assignment::instance::Instance;
use crate::fleet::fault::Faults;
use crate::fleet::{self, Fleet};
use crate::policy;
use crate::record::entry::{Entry, TickInputs};
use crate::record::ring::Recorded;
use crate::solve::SolveError;

/// Demand that differs by less, relatively, is the same.
const LEAST_DEMAND_CHANGE: f64 = 1e-3;

/// An input that differs between two solves.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Input {
    Demand {
        frontend: FrontendId,
        class: ClassId,
        from_rps: f64,
        to_rps: f64,
    },
    Replicas {
        group: GroupId,
        from: u32,
        to: u32,
    },
    Draining {
        engine: EngineId,
    },
    Serving {
        engine: EngineId,
    },
    /// The fleet file itself, with the parts that differ.
    File {
        parts: Vec<String>,
    },
}

/// A changed input and what it does by itself.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Cause {
    pub input: Input,
    /// Share of all traffic whose group changes when this input alone changes.
    pub moves_alone: f64,
}

/// Why there is no cause to tell.
#[derive(Debug, thiserror::Error)]
pub enum CauseError {
    /// Older than the ring, from another controller, or `record_mib` is 0.
    #[error("no solve of epoch {epoch} is recorded")]
    NotRecorded { epoch: Epoch },
    #[error("the recorded fleet file has faults")]
    Fleet(#[from] Faults),
    #[error("solving with one input changed")]
    Solve(#[from] SolveError),
}

/// Inputs that differ between the solves of two epochs, those that move most first.
pub fn causes(recorded: &[Recorded], from: Epoch, to: Epoch) -> Result<Vec<Cause>, CauseError> {
    let ((old_text, old), (new_text, new)) = (find(recorded, from)?, find(recorded, to)?);
    let (old_fleet, new_fleet) = (fleet::parse(old_text)?, fleet::parse(new_text)?);
    let before = split(&old_fleet, &old.inputs, old)?;
    let mut causes = Vec::new();
    for input in differences((&old_fleet, &old.inputs), (&new_fleet, &new.inputs)) {
        let fleet = if matches!(input, Input::File { .. }) { &new_fleet } else { &old_fleet };
        let after = split(fleet, &with(&input, &old.inputs), old)?;
        causes.push(Cause { input, moves_alone: moved(&before, &after) });
    }
    causes.sort_by(|a, b| b.moves_alone.total_cmp(&a.moves_alone));
    Ok(causes)
}

fn find(recorded: &[Recorded], epoch: Epoch) -> Result<(&str, &Entry), CauseError> {
    recorded
        .iter()
        .rev()
        .find_map(|segment| {
            let entry = segment.entries.iter().rev().find(|entry| entry.epoch == Some(epoch))?;
            Some((segment.fleet_text.as_str(), entry))
        })
        .ok_or(CauseError::NotRecorded { epoch })
}

/// What changed in the fleet file is one input; its replicas and demand are inputs of their own.
fn differences(
    (old_fleet, old): (&Fleet, &TickInputs),
    (new_fleet, new): (&Fleet, &TickInputs),
) -> Vec<Input> {
    let mut inputs = Vec::new();
    let parts = parts(old_fleet, new_fleet);
    if !parts.is_empty() {
        inputs.push(Input::File { parts });
    }
    let rates = |inputs: &TickInputs| -> BTreeMap<(FrontendId, ClassId), f64> {
        inputs.offered.iter().map(|(f, c, rate)| ((f.clone(), c.clone()), *rate)).collect()
    };
    let (was, is) = (rates(old), rates(new));
    let pairs: BTreeSet<_> = was.keys().chain(is.keys()).collect();
    for pair in pairs {
        let rate = |rates: &BTreeMap<_, f64>| rates.get(pair).copied().unwrap_or(0.0);
        let (from_rps, to_rps) = (rate(&was), rate(&is));
        if (to_rps - from_rps).abs() > LEAST_DEMAND_CHANGE * from_rps.max(to_rps) {
            let (frontend, class) = pair.clone();
            inputs.push(Input::Demand { frontend, class, from_rps, to_rps });
        }
    }
    let counts =
        |inputs: &TickInputs| -> BTreeMap<GroupId, u32> { inputs.replicas.iter().cloned().collect() };
    let (was, is) = (counts(old), counts(new));
    for (group, from) in &was {
        let to = is.get(group).copied().unwrap_or(0);
        if *from != to {
            inputs.push(Input::Replicas { group: group.clone(), from: *from, to });
        }
    }
    let drains = |inputs: &TickInputs| -> BTreeSet<EngineId> { inputs.draining.iter().cloned().collect() };
    let (was, is) = (drains(old), drains(new));
    inputs.extend(is.difference(&was).map(|engine| Input::Draining { engine: engine.clone() }));
    inputs.extend(was.difference(&is).map(|engine| Input::Serving { engine: engine.clone() }));
    inputs
}

/// Parts of the fleet file that the assignment depends on and that differ, by name.
fn parts(old: &Fleet, new: &Fleet) -> Vec<String> {
    let mut parts = Vec::new();
    if old.headroom != new.headroom {
        parts.push(format!("headroom {} to {}", old.headroom.get(), new.headroom.get()));
    }
    let sites: Vec<_> = new.network.sites().collect();
    for (at, from) in sites.iter().enumerate() {
        for to in &sites[at..] {
            let (was, is) = (old.rtt(from, to), new.rtt(from, to));
            if let (Some(was), Some(is)) = (was, is)
                && was != is
            {
                parts.push(format!("rtt_ms.{from}.{to} {was} to {is}"));
            }
        }
    }
    parts.extend(changed("profile", &old.profiles, &new.profiles, |profile| profile.id.clone()));
    parts.extend(changed("class", &old.classes, &new.classes, |class| class.id.to_string()));
    parts.extend(changed("frontend", &old.frontends, &new.frontends, |frontend| frontend.id.to_string()));
    let groups = |fleet: &Fleet| {
        let mut groups = fleet.groups.clone();
        // Replicas are an input of their own.
        groups.iter_mut().for_each(|group| group.replicas = 0);
        groups
    };
    parts.extend(changed("engine_group", &groups(old), &groups(new), |group| group.id.to_string()));
    parts
}

fn changed<T: PartialEq>(kind: &str, old: &[T], new: &[T], id: impl Fn(&T) -> String) -> Vec<String> {
    let find = |parts: &[T], wanted: &str| parts.iter().position(|part| id(part) == wanted);
    let names: BTreeSet<String> = old.iter().chain(new).map(&id).collect();
    names
        .into_iter()
        .filter(|name| match (find(old, name), find(new, name)) {
            (Some(was), Some(is)) => old[was] != new[is],
            _ => true,
        })
        .map(|name| format!("{kind} {name}"))
        .collect()
}

/// The old inputs with one of them changed.
fn with(input: &Input, old: &TickInputs) -> TickInputs {
    let mut inputs = old.clone();
    match input {
        Input::Demand { frontend, class, to_rps, .. } => {
            inputs.offered.retain(|(f, c, _)| f != frontend || c != class);
            inputs.offered.push((frontend.clone(), class.clone(), *to_rps));
        }
        Input::Replicas { group, to, .. } => {
            inputs.replicas.retain(|(id, _)| id != group);
            inputs.replicas.push((group.clone(), *to));
        }
        Input::Draining { engine } => inputs.draining.push(engine.clone()),
        Input::Serving { engine } => inputs.draining.retain(|id| id != engine),
        Input::File { .. } => {}
    }
    inputs
}

/// Rates by pair and group.
type Split = BTreeMap<(FrontendId, ClassId, GroupId), f64>;

/// The weights of a solve without move penalty, each with its pair's part of all demand.
fn split(fleet: &Fleet, inputs: &TickInputs, entry: &Entry) -> Result<Split, SolveError> {
    let instance: Instance = TickInputs { move_from: None, ..inputs.clone() }.instance(fleet);
    let plan = policy::named(entry.policy).plan(&instance)?;
    let total: f64 = inputs.offered.iter().map(|(.., rate)| rate).sum();
    let mut split = Split::new();
    for (supply, pair) in instance.pairs.iter().enumerate() {
        let part = instance.problem.supplies[supply].demand / total.max(f64::MIN_POSITIVE);
        for arc in instance.problem.arcs_of(supply) {
            let key = (pair.frontend.clone(), pair.class.clone(), instance.group_of(arc).clone());
            split.insert(key, part * plan.weights[arc]);
        }
    }
    Ok(split)
}

fn moved(before: &Split, after: &Split) -> f64 {
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let weight = |split: &Split, key| split.get(key).copied().unwrap_or(0.0);
    keys.into_iter().map(|key| (weight(after, key) - weight(before, key)).abs()).sum::<f64>() / 2.0
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.input {
            Input::Demand { frontend, class, from_rps, to_rps } => {
                write!(f, "demand of {frontend} {class}: {from_rps:.2} to {to_rps:.2} requests/s")?;
            }
            Input::Replicas { group, from, to } => write!(f, "replicas of {group}: {from} to {to}")?,
            Input::Draining { engine } => write!(f, "engine {engine} drains")?,
            Input::Serving { engine } => write!(f, "engine {engine} serves again")?,
            Input::File { parts } => write!(f, "the fleet file: {}", parts.join(", "))?,
        }
        write!(f, "; alone, it changes the group of {:.2} % of all traffic", 100.0 * self.moves_alone)
    }
}
