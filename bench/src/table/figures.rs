//! What one case gave for one method.
use super::fleet::{Fleet, share};

#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    moved: usize,
    /// Moves to engines that did not hold the slot before.
    cold: usize,
    /// Total variation times slots, over all steps.
    bound: f64,
    quota_error: f64,
    build_ms: Vec<f64>,
    /// Where fallbacks were derived.
    pub(super) fallback_ms: Vec<f64>,
    pub(super) survivor_overload: Option<f64>,
}

/// The engines that held each slot so far.
#[derive(Clone, Debug)]
pub(super) struct Held(Vec<Vec<u16>>);

impl Held {
    pub(super) fn new(table: &[u16]) -> Self {
        Self(table.iter().map(|&engine| vec![engine]).collect())
    }
}

impl Figures {
    /// Adds one step from a table to the next one.
    pub(super) fn add(
        &mut self,
        table: &[u16],
        next: &[u16],
        variation: f64,
        build_ms: f64,
        held: &mut Held,
    ) {
        for ((&old, &new), held) in table.iter().zip(next).zip(&mut held.0) {
            if old != new {
                self.moved += 1;
                if !held.contains(&new) {
                    self.cold += 1;
                    held.push(new);
                }
            }
        }
        self.bound += variation * as_f64(table.len());
        self.build_ms.push(build_ms);
    }

    /// Notes how far the counts of a table are from the weights.
    pub(super) fn check(&mut self, table: &[u16], fleet: &Fleet) {
        let mut counts = vec![0_usize; fleet.keys.len()];
        for &engine in table {
            counts[usize::from(engine)] += 1;
        }
        for (&count, &weight) in counts.iter().zip(&fleet.weights) {
            let error = (as_f64(count) - share(weight) * as_f64(table.len())).abs();
            self.quota_error = self.quota_error.max(error);
        }
    }

    /// Metric, unit and value.
    pub(super) fn each(&self) -> Vec<(&'static str, &'static str, f64)> {
        let mut figures = vec![
            ("disruption", "ratio", as_f64(self.moved) / self.bound),
            ("cold_moves", "ratio", as_f64(self.cold) / self.bound),
            ("quota_error_slots", "slots", self.quota_error),
            ("build_ms", "ms", median(&self.build_ms)),
        ];
        if !self.fallback_ms.is_empty() {
            figures.push(("fallback_ms", "ms", median(&self.fallback_ms)));
        }
        figures.extend(self.survivor_overload.map(|overload| ("survivor_overload", "fraction", overload)));
        figures
    }

    pub(super) fn get(&self, metric: &str) -> Option<f64> {
        self.each().into_iter().find(|(name, ..)| *name == metric).map(|(.., value)| value)
    }
}

pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

#[expect(clippy::cast_precision_loss, reason = "slot counts are far below 2^52")]
pub(super) fn as_f64(count: usize) -> f64 {
    count as f64
}
