//! Engines with weights, and the changes that the cases make.
use penstock_table::{EngineKey, WEIGHT_ONE, apportion};

use super::random::Random;

/// Engines by number. A weight of 0 means that the engine is not there.
#[derive(Clone, Debug)]
pub(super) struct Fleet {
    pub(super) keys: Vec<EngineKey>,
    /// In units of 2^-32; the sum is 2^32.
    pub(super) weights: Vec<u64>,
}

impl Fleet {
    /// Engines whose weights differ by up to a factor of three.
    pub(super) fn new(engines: usize) -> Self {
        let mut random = Random::new(engines as u64);
        let keys = (0..engines).map(|number| EngineKey::of(&format!("engine-{number}"))).collect();
        Self { keys, weights: Vec::new() }.with((0..engines).map(|_| 0.5 + random.unit()))
    }

    /// The same engines with other weights, in any unit.
    fn with(&self, weights: impl Iterator<Item = f64>) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "weights are below 2^12")]
        #[expect(clippy::cast_sign_loss, reason = "weights are not negative")]
        let parts = weights.map(|weight| (weight * (1_u64 << 40) as f64) as u64);
        let parts: Vec<(EngineKey, u64)> = self.keys.iter().copied().zip(parts).collect();
        Self { keys: self.keys.clone(), weights: apportion(&parts).unwrap_or_default() }
    }

    fn shares(&self) -> impl Iterator<Item = f64> {
        self.weights.iter().map(|&weight| share(weight) * self.weights.len() as f64)
    }

    /// Each weight off by a normally distributed error.
    pub(super) fn noise(&self, deviation: f64, random: &mut Random) -> Self {
        self.with(self.shares().map(|share| share * (1.0 + deviation * random.normal()).max(0.0)))
    }

    /// Each weight moves up or down by a normally distributed factor.
    pub(super) fn step(&self, deviation: f64, random: &mut Random) -> Self {
        self.with(self.shares().map(|share| share * (deviation * random.normal()).exp()))
    }

    /// `part` of all traffic goes from some engines, which give about half of theirs, to as many others.
    pub(super) fn shift(&self, part: f64, random: &mut Random) -> Self {
        let mut order: Vec<usize> = (0..self.weights.len()).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, random.below(last + 1));
        }
        let mut factors = vec![1.0; order.len()];
        let mut rest = order.into_iter();
        for sign in [-1.0, 1.0] {
            let (mut group, mut sum) = (Vec::new(), 0.0);
            while sum < 2.0 * part
                && let Some(engine) = rest.next()
            {
                group.push(engine);
                sum += share(self.weights[engine]);
            }
            group.into_iter().for_each(|engine| factors[engine] += sign * part / sum);
        }
        self.with(self.shares().zip(&factors).map(|(share, factor)| share * factor))
    }

    /// Without some engines; the others keep their proportions.
    pub(super) fn without(&self, engines: &[usize]) -> Self {
        let gone = |number: usize| engines.contains(&number);
        self.with(self.shares().enumerate().map(|(number, share)| if gone(number) { 0.0 } else { share }))
    }

    /// Total variation between two weight vectors: what must move at least, as a fraction of all slots.
    pub(super) fn variation(&self, other: &Self) -> f64 {
        let sum: u64 = self.weights.iter().zip(&other.weights).map(|(one, other)| one.abs_diff(*other)).sum();
        share(sum) / 2.0
    }
}

#[expect(clippy::cast_precision_loss, reason = "at most 2^33")]
pub(super) fn share(weight: u64) -> f64 {
    weight as f64 / WEIGHT_ONE as f64
}
