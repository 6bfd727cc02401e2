//! Synthetic fleets: 24 metros round the world, RTT from distance, demand and capacity log-normal, three profiles.
use penstock_controller::solve::problem::{Arc, Curve, Group, Problem, Supply};

/// What a fleet looks like.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub supplies: usize,
    pub groups: usize,
    /// Classes that share the supplies: mean tokens, filters and priority differ.
    pub classes: usize,
    /// Work over what the groups may carry.
    pub utilisation: f64,
    /// Share of pairs that the filters allow.
    pub density: f64,
    /// Profiles weigh prefill differently, so that work does not factorise over groups.
    pub mixed: bool,
}

/// SplitMix64: the same fleets on every run.
#[derive(Debug)]
pub struct Random(u64);

/// Degrees north and east.
#[derive(Clone, Copy, Debug)]
struct Place {
    latitude: f64,
    longitude: f64,
}

const METROS: [(f64, f64); 24] = [
    (37.4, -122.1),
    (47.6, -122.3),
    (45.6, -121.2),
    (41.3, -95.9),
    (32.8, -96.8),
    (39.0, -77.5),
    (40.7, -74.0),
    (43.7, -79.4),
    (-23.5, -46.6),
    (51.5, -0.1),
    (53.3, -6.3),
    (50.1, 8.7),
    (52.4, 4.9),
    (48.9, 2.4),
    (59.3, 18.1),
    (25.2, 55.3),
    (19.1, 72.9),
    (12.9, 77.6),
    (1.35, 103.8),
    (22.3, 114.2),
    (37.6, 127.0),
    (35.7, 139.7),
    (-33.9, 151.2),
    (-26.2, 28.0),
];

/// Mean tokens of the reference request: prompt and output.
const REFERENCE: (f64, f64) = (600.0, 200.0);
/// TTFT and ITL of an idle engine, ms, and the profile's prefill weight in a mixed fleet.
const PROFILES: [(f64, f64, f64); 3] = [(60.0, 12.0, 0.06), (110.0, 20.0, 0.10), (200.0, 35.0, 0.14)];
/// Points of a profile after the first.
const POINTS: u32 = 12;

impl Random {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number in 0..1.
    pub fn share(&mut self) -> f64 {
        f64::from(u32::try_from(self.bits() >> 32).expect("32 bits are left")) / 4_294_967_296.0
    }

    /// A normal variate (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let (one, two) = (self.share().max(1e-12), self.share());
        (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * two).cos()
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).expect("small");
        usize::try_from(self.bits() % end).expect("below a usize")
    }
}

/// Builds a fleet; equal shapes and seeds give equal fleets.
#[must_use]
pub fn fleet(shape: Shape, seed: u64) -> Problem {
    let random = &mut Random::new(seed);
    let near = |random: &mut Random| {
        let (latitude, longitude) = METROS[random.below(METROS.len())];
        Place { latitude: latitude + 1.5 * random.normal(), longitude: longitude + 2.0 * random.normal() }
    };
    let frontends: Vec<Place> = (0..shape.supplies.div_ceil(shape.classes)).map(|_| near(random)).collect();
    let kinds: Vec<usize> = (0..shape.groups).map(|_| random.below(PROFILES.len())).collect();
    let sites: Vec<Place> = (0..shape.groups).map(|_| near(random)).collect();
    let mut problem = Problem {
        supplies: Vec::with_capacity(shape.supplies),
        groups: kinds.iter().map(|&kind| group(random, kind)).collect(),
        arc_start: vec![0],
        arcs: Vec::new(),
        move_penalty: None,
    };
    let mut work = 0.0;
    for supply in 0..shape.supplies {
        let class = Class::of(supply % shape.classes);
        let place = frontends[supply / shape.classes];
        let demand = 10.0 * random.normal().exp() / class.work(PROFILES[1].2);
        work += demand * class.work(PROFILES[1].2);
        let shed_price = (0.1 * class.prompt + class.output) * 10f64.powi(7 - class.priority);
        problem.supplies.push(Supply { demand, shed_price });
        let always = random.below(shape.groups);
        for (index, (&kind, &site)) in kinds.iter().zip(&sites).enumerate() {
            if shape.density < 1.0 && index != always && random.share() >= shape.density {
                continue;
            }
            let rtt = ((0.5 + distance_km(place, site) / 100.0 * 1.35) * (1.0 + 0.05 * random.share()))
                .clamp(1.0, 250.0);
            let (ttft, itl, prefill) = PROFILES[kind];
            let gain = class.work(if shape.mixed { prefill } else { PROFILES[1].2 });
            let group = u32::try_from(index).expect("fewer than 2^32 groups");
            problem.arcs.push(Arc { group, cost: rtt + ttft + class.output * itl, gain });
        }
        problem.arc_start.push(problem.arcs.len());
    }
    let room: f64 = problem.groups.iter().map(|group| group.limit).sum();
    for group in &mut problem.groups {
        let scale = work / (shape.utilisation * room);
        group.capacity *= scale;
        group.limit *= scale;
    }
    problem
}

/// Every demand times a factor of about 1 (log-normal with this spread).
pub fn perturb(problem: &mut Problem, spread: f64, seed: u64) {
    let random = &mut Random::new(seed);
    for supply in &mut problem.supplies {
        supply.demand *= (spread * random.normal()).exp();
    }
}

/// A class's mean request.
struct Class {
    prompt: f64,
    output: f64,
    priority: i32,
}

impl Class {
    fn of(index: usize) -> Self {
        let (prompt, output) = [
            REFERENCE,
            (2_000.0, 150.0),
            (300.0, 400.0),
            (8_000.0, 100.0),
            (1_000.0, 1_000.0),
            (150.0, 60.0),
            (4_000.0, 600.0),
            (12_000.0, 300.0),
        ][index % 8];
        let priority = i32::try_from(index % 4).expect("below 4");
        Self { prompt, output, priority }
    }

    /// Reference requests of work in one request, for a prefill weight.
    fn work(&self, prefill: f64) -> f64 {
        (prefill * self.prompt + self.output) / (prefill * REFERENCE.0 + REFERENCE.1)
    }
}

fn group(random: &mut Random, kind: usize) -> Group {
    let (ttft, itl, _) = PROFILES[kind];
    let capacity = 10.0 * (0.7 * random.normal()).exp();
    let jitter = 1.0 + 0.1 * random.share();
    let rise = jitter * (0.3 * ttft + REFERENCE.1 * itl * (0.6 + 0.6 * random.share()));
    let queue = ttft * (0.05 + 0.1 * random.share());
    let delay = |at: f64| rise * at + queue * at / (1.02 - at);
    let points = (0..=POINTS).map(|step| {
        let at = 1.0 - (1.0 - f64::from(step) / f64::from(POINTS)).powf(1.6);
        (at, delay(at))
    });
    Group { capacity, limit: 0.95 * capacity, curve: Curve { points: points.collect() } }
}

/// Great-circle distance.
fn distance_km(one: Place, other: Place) -> f64 {
    let (a, b) = (one.latitude.to_radians(), other.latitude.to_radians());
    let turn = (one.longitude - other.longitude).to_radians();
    let half = ((a - b) / 2.0).sin().powi(2) + a.cos() * b.cos() * (turn / 2.0).sin().powi(2);
    2.0 * 6371.0 * half.sqrt().min(1.0).asin()
}
