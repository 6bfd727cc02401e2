//! Counts and quantiles of many requests.
use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::record::{Failure, Outcome, Record};

/// Longest time that a histogram tells apart, microseconds: ten minutes.
const LONGEST_US: u64 = 600_000_000;
const DIGITS: u8 = 3;

/// What a load generator measured. Histograms are in microseconds.
#[derive(Clone, Debug)]
pub struct Summary {
    pub ttft: Histogram<u64>,
    pub e2e: Histogram<u64>,
    pub connect: Histogram<u64>,
    pub overhead: Histogram<u64>,
    /// Complete answers of each engine.
    pub engines: BTreeMap<String, u64>,
    pub failures: BTreeMap<String, u64>,
}

/// A histogram in milliseconds, as JSON carries it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Quantiles {
    pub mean_ms: f64,
    pub p50_ms: f64,
    pub p90_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub answered: u64,
    pub failed: u64,
    pub failures: BTreeMap<String, u64>,
    pub ttft: Quantiles,
    pub e2e: Quantiles,
    pub connect: Quantiles,
    /// End to end less the engine's own time.
    pub overhead: Quantiles,
    pub engines: BTreeMap<String, u64>,
}

impl Default for Summary {
    fn default() -> Self {
        let histogram =
            || Histogram::new_with_bounds(1, LONGEST_US, DIGITS).expect("the bounds and digits are fixed");
        Self {
            ttft: histogram(),
            e2e: histogram(),
            connect: histogram(),
            overhead: histogram(),
            engines: BTreeMap::new(),
            failures: BTreeMap::new(),
        }
    }
}

impl Summary {
    pub fn of<'a>(records: impl IntoIterator<Item = &'a Record>) -> Self {
        let mut summary = Self::default();
        for record in records {
            summary.add(record);
        }
        summary
    }

    pub fn add(&mut self, record: &Record) {
        match &record.outcome {
            Outcome::Answered(answered) => {
                self.ttft.saturating_record(answered.ttft_us);
                self.e2e.saturating_record(answered.e2e_us);
                self.connect.saturating_record(answered.connect_us);
                self.overhead.saturating_record(answered.overhead_us());
                *self.engines.entry(answered.engine.clone()).or_default() += 1;
            }
            Outcome::Failed(failure) => *self.failures.entry(label(*failure)).or_default() += 1,
        }
    }

    pub fn answered(&self) -> u64 {
        self.e2e.len()
    }

    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }

    pub fn report(&self) -> Report {
        Report {
            answered: self.answered(),
            failed: self.failed(),
            failures: self.failures.clone(),
            ttft: Quantiles::of(&self.ttft),
            e2e: Quantiles::of(&self.e2e),
            connect: Quantiles::of(&self.connect),
            overhead: Quantiles::of(&self.overhead),
            engines: self.engines.clone(),
        }
    }
}

impl Quantiles {
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let ms = |micros: u64| micros as f64 / 1_000.0;
        Self {
            mean_ms: histogram.mean() / 1_000.0,
            p50_ms: ms(histogram.value_at_quantile(0.5)),
            p90_ms: ms(histogram.value_at_quantile(0.9)),
            p99_ms: ms(histogram.value_at_quantile(0.99)),
            max_ms: ms(histogram.max()),
        }
    }
}

fn label(failure: Failure) -> String {
    match failure {
        Failure::Connect => "connect".to_owned(),
        Failure::Broken => "broken".to_owned(),
        Failure::Malformed => "malformed".to_owned(),
        Failure::Status(status) => format!("status-{status}"),
        Failure::Timeout => "timeout".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::record::Answered;

    #[test]
    fn answers_and_failures_are_counted_apart() {
        let record = |outcome| Record { at_us: 0, key: 0, turn: 1, outcome };
        let answered = |e2e_us| {
            record(Outcome::Answered(Answered {
                engine: "e".to_owned(),
                connect_us: 10,
                ttft_us: 100,
                e2e_us,
                engine_us: e2e_us - 40,
            }))
        };
        let records = [answered(1_000), answered(3_000), record(Outcome::Failed(Failure::Status(503)))];

        let report = Summary::of(&records).report();

        assert_eq!((report.answered, report.failed, report.engines["e"]), (2, 1, 2));
        assert_eq!(report.failures["status-503"], 1);
        assert!((report.e2e.mean_ms - 2.0).abs() < 0.01, "{}", report.e2e.mean_ms);
        assert!((report.overhead.mean_ms - 0.04).abs() < 0.001, "{}", report.overhead.mean_ms);
    }
}
