//! Problems that tests share: the two example fleets, built here from their figures, and random fleets.
use super::problem::{Arc, Curve, Group, MovePenalty, Problem, Supply};

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

/// SplitMix64: the same fleets on every run.
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    pub(super) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number in `low..high`.
    pub(super) fn within(&mut self, low: f64, high: f64) -> f64 {
        let share = f64::from(u32::try_from(self.bits() >> 32).unwrap()) / 4_294_967_296.0;
        low + share * (high - low)
    }

    pub(super) fn below(&mut self, end: u64) -> usize {
        usize::try_from(self.bits() % end).unwrap()
    }

    pub(super) fn chance(&mut self, share: f64) -> bool {
        self.within(0.0, 1.0) < share
    }
}

/// What a random fleet may contain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) supplies: u64,
    pub(super) groups: u64,
    /// Gains differ between profiles.
    pub(super) mixed: bool,
    /// Costs and capacities are small whole numbers, so that optima tie.
    pub(super) tied: bool,
    /// A move penalty around random rates.
    pub(super) penalty: bool,
}

/// A random fleet of at most the shape's size: several classes with priorities, filters, flat, convex, concave and
/// jumping curves, groups without capacity, supplies without demand, and up to twice the capacity in demand.
pub(super) fn random(seed: u64, shape: Shape) -> Problem {
    let random = &mut Random::new(seed);
    let supplies = 1 + random.below(shape.supplies);
    let groups = 1 + random.below(shape.groups);
    let round = |value: f64| if shape.tied { value.round() } else { value };
    let profiles: Vec<(Curve, f64)> =
        (0..3).map(|_| (random_curve(random, shape.tied), random.within(0.4, 1.0))).collect();
    let kinds: Vec<usize> = (0..groups).map(|_| random.below(3)).collect();
    let groups: Vec<Group> = kinds
        .iter()
        .map(|&kind| {
            let scale = if random.chance(0.05) { 1e-3 } else { 10.0 };
            let capacity = if random.chance(0.08) { 0.0 } else { round(random.within(1.0, 6.0)) * scale };
            Group { capacity, limit: 0.95 * capacity, curve: profiles[kind].0.clone() }
        })
        .collect();
    let total: f64 = groups.iter().map(|group| group.limit).sum();
    let use_of_all = [0.3, 0.8, 0.95, 1.1, 2.0][random.below(5)];
    let mut problem =
        Problem { supplies: Vec::new(), groups, arc_start: vec![0], arcs: Vec::new(), move_penalty: None };
    for _ in 0..supplies {
        let work = random.within(0.5, 3.0);
        let demand = if random.chance(0.05) {
            0.0
        } else {
            let mean = (total.max(1.0) * use_of_all) / f64::from(u32::try_from(supplies).unwrap());
            round(mean * random.within(0.2, 1.8) / work)
        };
        let priority = i32::try_from(random.below(4)).unwrap();
        problem.supplies.push(Supply { demand, shed_price: work * 200.0 * 10f64.powi(7 - priority) });
        let density = [0.3, 1.0][random.below(2)];
        for (group, &kind) in (0u32..).zip(&kinds) {
            if !random.chance(density) {
                continue;
            }
            let cost = round(random.within(1.0, 25.0)) * 10.0 + 500.0;
            let gain = if shape.mixed { work * (1.0 + profiles[kind].1 * (work - 1.0)) } else { work };
            problem.arcs.push(Arc { group, cost, gain });
        }
        problem.arc_start.push(problem.arcs.len());
    }
    if shape.penalty {
        problem.move_penalty = Some(random_penalty(random, &problem));
    }
    problem
}

/// Published rates that serve each supply from some of its groups, not always within limits.
fn random_penalty(random: &mut Random, problem: &Problem) -> MovePenalty {
    let mut previous = vec![0.0; problem.arcs.len()];
    for (supply, terms) in problem.supplies.iter().enumerate() {
        let arcs = problem.arcs_of(supply);
        let weights: Vec<f64> =
            arcs.clone().map(|_| if random.chance(0.4) { random.within(0.1, 1.0) } else { 0.0 }).collect();
        let sum: f64 = weights.iter().sum();
        if sum > 0.0 {
            for (position, weight) in arcs.zip(weights) {
                previous[position] = weight / sum * terms.demand;
            }
        }
    }
    let price = problem.arcs.iter().map(|_| 5.0).collect();
    MovePenalty { previous, price }
}

fn random_curve(random: &mut Random, tied: bool) -> Curve {
    let mut points = vec![(0.0, 0.0)];
    let kind = random.below(5);
    let (mut at, mut delay) = (0.0, 0.0);
    while at < 1.0 {
        at += if tied { 0.25 } else { random.within(0.05, 0.4) };
        let rise = random.within(0.0, 400.0);
        delay += match kind {
            0 => 0.0,
            1 => rise * (1.0 - at.min(1.0)),
            2 if random.chance(0.3) => 3_000.0,
            _ => rise * at,
        };
        points.push((at, delay));
    }
    Curve { points }
}
