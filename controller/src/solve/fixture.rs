//! Problems that tests share: the two example fleets, built here from their figures, and random fleets.
use super::problem::{Arc, Curve, Group, Problem, Supply};

/// A profile's points: `(utilisation, ttft_ms, itl_ms)`.
type Profile = [(f64, f64, f64)];

const H100: &Profile =
    &[(0.0, 120.0, 18.0), (0.5, 160.0, 20.0), (0.8, 260.0, 24.0), (0.9, 420.0, 29.0), (1.0, 900.0, 40.0)];
const H200: &Profile = &[(0.0, 100.0, 13.0), (0.6, 140.0, 15.0), (0.85, 240.0, 19.0), (1.0, 700.0, 30.0)];

/// Three regions of equal hardware: demand 90, 120, 40 beside 100, 100, 80 requests/s.
pub(super) fn talk() -> Problem {
    let rtt = [[0.5, 70.0, 90.0], [70.0, 0.5, 40.0], [90.0, 40.0, 0.5]];
    let demand = [90.0, 120.0, 40.0];
    let group = |replicas: f64| {
        let capacity = replicas * 20.0;
        Group { capacity, limit: 0.95 * capacity, curve: curve(H100, 100.0) }
    };
    let shed_price = (0.1 * 600.0 + 100.0) * 1e6;
    Problem {
        supplies: demand.iter().map(|&demand| Supply { demand, shed_price }).collect(),
        groups: vec![group(5.0), group(5.0), group(4.0)],
        arc_start: vec![0, 3, 6, 9],
        arcs: rtt
            .iter()
            .flat_map(|row| {
                (0u32..).zip(row).map(|(group, rtt)| Arc { group, cost: rtt + 1920.0, gain: 1.0 })
            })
            .collect(),
        move_penalty: None,
    }
}

/// Two kinds of hardware with different prefill, an EU-only class, long prompts beside short ones.
pub(super) fn mixed() -> Problem {
    // Sites iad, pdx, fra, dub; groups iad-h100, pdx-h200, fra-h100, dub-h200.
    let rtt = [[0.5, 62.0, 88.0, 72.0], [62.0, 0.5, 142.0, 128.0], [88.0, 142.0, 0.5, 24.0]];
    let profiles = [(H100, 20.0, 0.10), (H200, 31.0, 0.06), (H100, 20.0, 0.10), (H200, 31.0, 0.06)];
    let replicas = [6.0, 3.0, 3.0, 2.0];
    // (frontend, demand, prompt tokens, output tokens, priority, round trips, EU only)
    let supplies = [
        (0, 110.0, 600.0, 150.0, 0, 1.0, false),
        (1, 40.0, 600.0, 150.0, 0, 1.0, false),
        (2, 20.0, 600.0, 150.0, 0, 1.0, false),
        (2, 60.0, 600.0, 150.0, 0, 1.0, true),
        (0, 5.0, 12_000.0, 300.0, 2, 2.0, false),
        (1, 3.0, 12_000.0, 300.0, 2, 2.0, false),
    ];
    let mut problem = Problem {
        supplies: Vec::new(),
        groups: Vec::new(),
        arc_start: vec![0],
        arcs: Vec::new(),
        move_penalty: None,
    };
    for ((profile, rps, _), replicas) in profiles.iter().zip(replicas) {
        let capacity = rps * replicas;
        problem.groups.push(Group { capacity, limit: 0.95 * capacity, curve: curve(profile, 150.0) });
    }
    for (frontend, demand, prompt, output, priority, round_trips, eu) in supplies {
        let shed_price = (0.1 * prompt + output) * 10f64.powi(7 - priority);
        problem.supplies.push(Supply { demand, shed_price });
        for (group, (&(profile, _, prefill), network)) in (0u32..).zip(profiles.iter().zip(rtt[frontend])) {
            if eu && group < 2 {
                continue;
            }
            let cost = round_trips * network + profile[0].1 + output * profile[0].2;
            let gain = (prefill * prompt + output) / (prefill * 600.0 + 150.0);
            problem.arcs.push(Arc { group, cost, gain });
        }
        problem.arc_start.push(problem.arcs.len());
    }
    problem
}

fn curve(profile: &Profile, output_tokens: f64) -> Curve {
    let latency = |ttft: f64, itl: f64| ttft + output_tokens * itl;
    let idle = latency(profile[0].1, profile[0].2);
    Curve { points: profile.iter().map(|&(at, ttft, itl)| (at, latency(ttft, itl) - idle)).collect() }
}
