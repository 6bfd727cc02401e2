//! From weights of groups to weights of engines.
use std::collections::BTreeMap;

use penstock_wire::{EngineId, GroupId};

use super::instance::Instance;
use crate::capacity::availability::Availability;
use crate::fleet::Fleet;
use crate::weights::{Cause, TableWeights, Weights};

/// Deals each group's weight to its ready engines alike. Draining engines stay candidates with weight 0; where none
/// is ready, the split is even over all candidates, since agents may still know better.
pub fn expand(
    fleet: &Fleet,
    availability: &Availability,
    instance: &Instance,
    weights: &[f64],
    cause: Cause,
) -> Weights {
    let mut members: BTreeMap<&GroupId, Vec<&EngineId>> = BTreeMap::new();
    for engine in &fleet.engines {
        members.entry(&engine.group).or_default().push(&engine.id);
    }
    let mut tables = Vec::with_capacity(instance.pairs.len());
    for (supply, pair) in instance.pairs.iter().enumerate() {
        let mut engines: Vec<(EngineId, f64)> = Vec::new();
        for arc in instance.problem.arcs_of(supply) {
            let members = members.get(instance.group_of(arc)).map_or(&[][..], Vec::as_slice);
            let ready = members.iter().filter(|engine| !availability.drains(engine)).count();
            for engine in members {
                #[expect(clippy::cast_precision_loss, reason = "a group has far fewer than 2^52 engines")]
                let share = if availability.drains(engine) { 0.0 } else { weights[arc] / ready as f64 };
                engines.push(((*engine).clone(), share));
            }
        }
        engines.sort_by(|a, b| a.0.cmp(&b.0));
        normalise(&mut engines);
        tables.push(TableWeights { frontend: pair.frontend.clone(), class: pair.class.clone(), engines });
    }
    Weights { cause, tables }
}

fn normalise(engines: &mut [(EngineId, f64)]) {
    let total: f64 = engines.iter().map(|(_, weight)| weight).sum();
    #[expect(clippy::cast_precision_loss, reason = "a class has far fewer than 2^52 engines")]
    let even = 1.0 / engines.len() as f64;
    for (_, weight) in engines {
        *weight = if total > 0.0 { *weight / total } else { even };
    }
}
