//! Maglev hashing (Eisenbud et al., "Maglev: a fast and reliable software network load balancer", 2016) with the three
//! ways in which Katran, Envoy and Cilium give engines their weight. Written from their published descriptions.
use super::{
    fleet::{Fleet, share},
    method::{Method, Table},
    random::mix,
};

/// Whose turn it is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Weighting {
    /// Every round an engine earns its weight and pays the largest weight for a slot (`MaglevHashV2`).
    Katran,
    /// In round `i` an engine takes a slot when `i` times its weight has reached its target, which then grows by the
    /// largest weight (`maglev_lb.cc`).
    Envoy,
    /// Turn `n` falls to the next engine from `n` on for which `(n + 1)` times its weight has reached its counter,
    /// which then grows by the sum of all weights; weights are 16-bit numbers (`pkg/maglev`).
    Cilium,
}

#[derive(Debug)]
pub(super) struct Maglev {
    weighting: Weighting,
    /// A prime, so that every skip reaches every slot.
    slots: usize,
}

/// An engine's walk over the slots.
#[derive(Debug)]
struct Walker {
    engine: u16,
    weight: f64,
    place: usize,
    skip: usize,
}

const FREE: u16 = u16::MAX;

impl Maglev {
    pub(super) fn new(weighting: Weighting, bits: u32) -> Self {
        // The primes after 2^16 and 2^18: as near to our own tables as the method allows.
        Self { weighting, slots: if bits == 18 { 262_147 } else { 65_537 } }
    }

    /// The engines that are there, in the order of their keys.
    fn walkers(&self, fleet: &Fleet) -> Vec<Walker> {
        let slots = self.slots as u64;
        let place = |hash: u64| usize::try_from(hash).unwrap_or(0);
        let mut numbered: Vec<_> = (0..).zip(fleet.keys.iter().zip(&fleet.weights)).collect();
        numbered.sort_unstable_by_key(|(_, (key, _))| **key);
        numbered
            .into_iter()
            .filter(|(_, (_, weight))| **weight > 0)
            .map(|(engine, (key, &weight))| Walker {
                engine,
                weight: share(weight),
                place: place(mix(key.0 ^ 1) % slots),
                skip: place(mix(key.0 ^ 2) % (slots - 1) + 1),
            })
            .collect()
    }
}

impl Walker {
    /// Takes this engine's next free slot.
    fn take(&mut self, table: &mut [u16]) {
        while table[self.place] != FREE {
            self.walk(table.len());
        }
        table[self.place] = self.engine;
        self.walk(table.len());
    }

    fn walk(&mut self, slots: usize) {
        self.place += self.skip;
        if self.place >= slots {
            self.place -= slots;
        }
    }
}

fn katran(walkers: &mut [Walker], table: &mut [u16]) {
    // Weights are integers there; these have nine digits.
    let weights: Vec<f64> = walkers.iter().map(|walker| (walker.weight * 1e9).round().max(1.0)).collect();
    let most = weights.iter().copied().fold(0.0, f64::max);
    let mut earned = vec![0.0; walkers.len()];
    let mut left = table.len();
    while left > 0 {
        for ((walker, earned), weight) in walkers.iter_mut().zip(&mut earned).zip(&weights) {
            *earned += weight;
            if *earned >= most && left > 0 {
                *earned -= most;
                walker.take(table);
                left -= 1;
            }
        }
    }
}

fn envoy(walkers: &mut [Walker], table: &mut [u16]) {
    let most = walkers.iter().map(|walker| walker.weight).fold(0.0, f64::max);
    let mut targets = vec![0.0; walkers.len()];
    let (mut left, mut round) = (table.len(), 0.0);
    while left > 0 {
        round += 1.0;
        for (walker, target) in walkers.iter_mut().zip(&mut targets) {
            if round * walker.weight >= *target && left > 0 {
                *target += most;
                walker.take(table);
                left -= 1;
            }
        }
    }
}

fn cilium(walkers: &mut [Walker], table: &mut [u16]) {
    let most = walkers.iter().map(|walker| walker.weight).fold(0.0, f64::max);
    let weights: Vec<f64> =
        walkers.iter().map(|walker| (walker.weight / most * 65_535.0).round().max(1.0)).collect();
    let (sum, engines) = (weights.iter().sum::<f64>(), walkers.len());
    let mut counters: Vec<f64> =
        weights.iter().map(|weight| weight / super::figures::as_f64(engines)).collect();
    for turn in 0..table.len() {
        let mut engine = turn % engines;
        while super::figures::as_f64(turn + 1) * weights[engine] < counters[engine] {
            engine = (engine + 1) % engines;
        }
        counters[engine] += sum;
        walkers[engine].take(table);
    }
}

impl Method for Maglev {
    fn name(&self) -> &'static str {
        match self.weighting {
            Weighting::Katran => "maglev_katran",
            Weighting::Envoy => "maglev_envoy",
            Weighting::Cilium => "maglev_cilium",
        }
    }

    fn start(&mut self, fleet: &Fleet) -> anyhow::Result<Table> {
        let mut walkers = self.walkers(fleet);
        let mut table = vec![FREE; self.slots];
        match self.weighting {
            Weighting::Katran => katran(&mut walkers, &mut table),
            Weighting::Envoy => envoy(&mut walkers, &mut table),
            Weighting::Cilium => cilium(&mut walkers, &mut table),
        }
        Ok(table)
    }

    fn next(&mut self, _: &[u16], fleet: &Fleet, _: &[u16]) -> anyhow::Result<Table> {
        self.start(fleet)
    }

    fn fallbacks(
        &mut self,
        _: Option<(&[u16], &[u16])>,
        _: &[u16],
        _: &Fleet,
    ) -> anyhow::Result<Option<Vec<u16>>> {
        Ok(None)
    }

    fn builds(&self, _: &Fleet) -> usize {
        200
    }
}
