//! By distance: the plan for when the optimizer has no proof. Each supply fills the nearest group that has room, and
//! supplies that want the same room share it in proportion to their demand.
//!
//! Higher priorities go first, and no group goes over its limit, so the plan is feasible; it is not the best one.
use super::Plan;
use crate::assignment::instance::Instance;

/// Room below this share of a group's limit counts as none, so that rounding cannot go on for ever.
const NO_ROOM: f64 = 1e-12;

/// Plans without a solver.
pub fn plan(instance: &Instance) -> Plan {
    let problem = &instance.problem;
    let mut room: Vec<f64> = problem.groups.iter().map(|group| group.limit).collect();
    let mut rates = vec![0.0; problem.arcs.len()];
    let mut left: Vec<f64> = problem.supplies.iter().map(|supply| supply.demand).collect();
    let mut priorities: Vec<u8> = instance.pairs.iter().map(|pair| pair.priority.level()).collect();
    priorities.sort_unstable();
    priorities.dedup();
    for priority in priorities {
        let supplies: Vec<usize> =
            (0..left.len()).filter(|supply| instance.pairs[*supply].priority.level() == priority).collect();
        while fill(instance, &supplies, &mut room, &mut rates, &mut left) {}
    }
    let weights = weights(instance, &rates, &room);
    Plan { weights, rates, shed: left, proof: None }
}

/// One round: every supply asks its nearest group with room. False when nobody could ask.
fn fill(
    instance: &Instance,
    supplies: &[usize],
    room: &mut [f64],
    rates: &mut [f64],
    left: &mut [f64],
) -> bool {
    let problem = &instance.problem;
    let mut asked = vec![0.0; room.len()];
    let mut asking = Vec::new();
    for &supply in supplies.iter().filter(|supply| left[**supply] > 0.0) {
        let Some(arc) = nearest(instance, supply, room) else { continue };
        asked[problem.arcs[arc].group as usize] += problem.arcs[arc].gain * left[supply];
        asking.push((supply, arc));
    }
    for &(supply, arc) in &asking {
        let group = problem.arcs[arc].group as usize;
        let share = (room[group] / asked[group]).min(1.0);
        rates[arc] += share * left[supply];
        left[supply] = if share < 1.0 { (1.0 - share) * left[supply] } else { 0.0 };
    }
    for (room, asked) in room.iter_mut().zip(asked) {
        *room = (*room - asked).max(0.0);
    }
    !asking.is_empty()
}

/// The arc to the nearest group with room.
fn nearest(instance: &Instance, supply: usize, room: &[f64]) -> Option<usize> {
    let problem = &instance.problem;
    let has_room = |arc: &usize| {
        let group = problem.arcs[*arc].group as usize;
        room[group] > NO_ROOM * problem.groups[group].limit
    };
    problem
        .arcs_of(supply)
        .filter(has_room)
        .min_by(|a, b| instance.routes[*a].rtt_ms.total_cmp(&instance.routes[*b].rtt_ms))
}

/// Rates as fractions. A supply that serves nothing would send its next request to the nearest group with room, or
/// with capacity if none has room.
fn weights(instance: &Instance, rates: &[f64], room: &[f64]) -> Vec<f64> {
    let problem = &instance.problem;
    let limits: Vec<f64> = problem.groups.iter().map(|group| group.limit).collect();
    let mut weights = vec![0.0; rates.len()];
    for supply in 0..problem.supplies.len() {
        let arcs = problem.arcs_of(supply);
        let served: f64 = rates[arcs.clone()].iter().sum();
        if served > 0.0 {
            arcs.for_each(|arc| weights[arc] = rates[arc] / served);
        } else if let Some(arc) =
            nearest(instance, supply, room).or_else(|| nearest(instance, supply, &limits))
        {
            weights[arc] = 1.0;
        }
    }
    weights
}
