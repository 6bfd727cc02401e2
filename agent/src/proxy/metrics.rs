//! What the door measured: by engine, class and model, one shard a worker.
use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use hdrhistogram::Histogram;

use super::{config::HttpConfig, engine::Engine, usage::Usage};

/// Significant digits of a duration in microseconds.
const DIGITS: u8 = 2;
/// Bounds of exported buckets: powers of two from 2^-10 s (1 ms) to 2^9 s, as native histograms of schema 0 have.
const BUCKETS: std::ops::RangeInclusive<i32> = -10..=9;

/// Which series a request counts to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct SeriesKey {
    pub(crate) class: u16,
    /// Position in the class's models; [`NO_MODEL`] for a request that named none.
    pub(crate) model: u16,
}

pub(crate) const NO_MODEL: u16 = u16::MAX;

/// Everything measured since the start.
#[derive(Debug)]
pub struct Metrics {
    shards: Vec<Mutex<Shard>>,
    classes: Vec<(String, Vec<String>)>,
    pub(crate) connections: AtomicI64,
    pub(crate) connections_refused: AtomicU64,
    pub(crate) log_lines_dropped: AtomicU64,
}

#[derive(Debug, Default)]
pub(crate) struct Shard {
    /// By engine index.
    engines: Vec<Option<EngineSeries>>,
    refusals: BTreeMap<&'static str, u64>,
    retries: BTreeMap<&'static str, u64>,
}

#[derive(Debug)]
struct EngineSeries {
    id: String,
    series: Vec<(SeriesKey, Series)>,
}

#[derive(Clone, Debug)]
struct Series {
    ttft: Histogram<u32>,
    itl: Histogram<u32>,
    e2e: Histogram<u32>,
    /// Answers by hundreds of the status.
    statuses: [u64; 6],
    prompt_tokens: u64,
    output_tokens: u64,
    errors: BTreeMap<&'static str, u64>,
}

/// What happened to one exchange with an engine, once it is over.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Exchange {
    pub(crate) status: u16,
    pub(crate) ttft: Option<Duration>,
    pub(crate) e2e: Duration,
    pub(crate) usage: Usage,
    pub(crate) error: Option<&'static str>,
}

impl Metrics {
    pub fn new(config: &HttpConfig) -> Self {
        Self {
            shards: (0..config.workers.get()).map(|_| Mutex::default()).collect(),
            classes: config.classes.iter().map(|class| (class.id.clone(), class.models.clone())).collect(),
            connections: AtomicI64::new(0),
            connections_refused: AtomicU64::new(0),
            log_lines_dropped: AtomicU64::new(0),
        }
    }

    /// Of a door without workers or classes.
    #[cfg(test)]
    pub(crate) fn empty() -> Self {
        Self {
            shards: Vec::new(),
            classes: Vec::new(),
            connections: AtomicI64::new(0),
            connections_refused: AtomicU64::new(0),
            log_lines_dropped: AtomicU64::new(0),
        }
    }

    /// A worker's own shard: nobody else holds it but a scrape.
    pub(crate) fn shard(&self, worker: usize) -> MutexGuard<'_, Shard> {
        self.shards[worker].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// First attempts that each class's clients made since the start, by class id: what demand is derived from.
    pub fn requests_per_class(&self) -> Vec<(String, u64)> {
        let total = self.total();
        let count = |class: usize| {
            let all = total.engines.iter().flatten().flat_map(|engine| &engine.series);
            let own = all.filter(|(key, _)| usize::from(key.class) == class);
            own.map(|(_, series)| series.statuses.iter().sum::<u64>()).sum()
        };
        self.classes.iter().enumerate().map(|(at, (id, _))| (id.clone(), count(at))).collect()
    }

    /// All shards together.
    fn total(&self) -> Shard {
        let mut total = Shard::default();
        (0..self.shards.len()).for_each(|worker| total.add(&self.shard(worker)));
        total
    }

    /// The exposition text of Prometheus.
    pub fn render(&self) -> String {
        let mut out = String::new();
        let total = self.total();
        self.render_series(&mut out, &total);
        let counts = [
            (
                "penstock_http_refused_total",
                "Requests answered by the agent itself.",
                "reason",
                &total.refusals,
            ),
            ("penstock_http_retries_total", "Attempts after the first.", "reason", &total.retries),
        ];
        for (name, help, label, counts) in counts {
            header(&mut out, name, help, "counter");
            for (value, count) in counts {
                put(&mut out, format_args!("{name}{{{label}=\"{value}\"}} {count}\n"));
            }
        }
        for (name, help, kind, value) in [
            (
                "penstock_http_connections",
                "Open connections of clients.",
                "gauge",
                self.connections.load(Relaxed).to_string(),
            ),
            (
                "penstock_http_connections_refused_total",
                "Connections closed at once because of the limit.",
                "counter",
                self.connections_refused.load(Relaxed).to_string(),
            ),
            (
                "penstock_http_log_lines_dropped_total",
                "Access log lines dropped because the writer was behind.",
                "counter",
                self.log_lines_dropped.load(Relaxed).to_string(),
            ),
        ] {
            header(&mut out, name, help, kind);
            put(&mut out, format_args!("{name} {value}\n"));
        }
        out
    }

    fn render_series(&self, out: &mut String, total: &Shard) {
        let mut rows: Vec<(String, &Series)> = Vec::new();
        for engine in total.engines.iter().flatten() {
            for (key, series) in &engine.series {
                let (class, models) = &self.classes[usize::from(key.class)];
                let model = models.get(usize::from(key.model)).map_or("", String::as_str);
                let labels = format!(
                    "engine=\"{}\",class=\"{}\",model=\"{}\"",
                    escaped(&engine.id),
                    escaped(class),
                    escaped(model)
                );
                rows.push((labels, series));
            }
        }
        type Pick = fn(&Series) -> &Histogram<u32>;
        let histograms: [(&str, &str, Pick); 3] = [
            ("penstock_http_ttft_seconds", "Request sent to first body byte.", |series| &series.ttft),
            ("penstock_http_itl_seconds", "Gap between events of a stream.", |series| &series.itl),
            ("penstock_http_e2e_seconds", "Request sent to last byte.", |series| &series.e2e),
        ];
        for (name, help, pick) in histograms {
            header(out, name, help, "histogram");
            rows.iter().for_each(|(labels, series)| histogram(out, name, labels, pick(series)));
        }
        header(out, "penstock_http_responses_total", "Answers of engines.", "counter");
        for (labels, series) in &rows {
            for (hundred, count) in series.statuses.iter().enumerate().filter(|(_, count)| **count > 0) {
                put(
                    out,
                    format_args!(
                        "penstock_http_responses_total{{{labels},status=\"{hundred}xx\"}} {count}\n"
                    ),
                );
            }
        }
        header(out, "penstock_http_tokens_total", "Tokens as told in usage, or events counted.", "counter");
        for (labels, series) in &rows {
            for (kind, count) in [("prompt", series.prompt_tokens), ("output", series.output_tokens)] {
                put(out, format_args!("penstock_http_tokens_total{{{labels},kind=\"{kind}\"}} {count}\n"));
            }
        }
        header(out, "penstock_http_errors_total", "Exchanges that failed.", "counter");
        for (labels, series) in &rows {
            for (kind, count) in &series.errors {
                put(out, format_args!("penstock_http_errors_total{{{labels},kind=\"{kind}\"}} {count}\n"));
            }
        }
    }
}

impl Shard {
    pub(crate) fn refused(&mut self, reason: &'static str) {
        *self.refusals.entry(reason).or_default() += 1;
    }

    pub(crate) fn retried(&mut self, reason: &'static str) {
        *self.retries.entry(reason).or_default() += 1;
    }

    pub(crate) fn gap(&mut self, engine: &Engine, key: SeriesKey, gap: Duration, events: u64) {
        let each = gap / u32::try_from(events).unwrap_or(u32::MAX).max(1);
        record(&mut self.series(engine.index, &engine.id, key).itl, each, events);
    }

    pub(crate) fn exchange(&mut self, engine: &Engine, key: SeriesKey, exchange: &Exchange) {
        let series = self.series(engine.index, &engine.id, key);
        if let Some(ttft) = exchange.ttft {
            record(&mut series.ttft, ttft, 1);
        }
        if exchange.status > 0 {
            record(&mut series.e2e, exchange.e2e, 1);
            series.statuses[usize::from(exchange.status / 100).min(5)] += 1;
            series.prompt_tokens += exchange.usage.prompt_tokens.unwrap_or(0);
            series.output_tokens += exchange.usage.output();
        }
        if let Some(error) = exchange.error {
            *series.errors.entry(error).or_default() += 1;
        }
    }

    /// An index that was given to another engine starts anew.
    fn series(&mut self, index: u16, id: &str, key: SeriesKey) -> &mut Series {
        let at = usize::from(index);
        if self.engines.len() <= at {
            self.engines.resize_with(at + 1, || None);
        }
        let fresh = || EngineSeries { id: id.to_owned(), series: Vec::new() };
        let engine = self.engines[at].get_or_insert_with(fresh);
        if engine.id != id {
            *engine = fresh();
        }
        let found = engine.series.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
            engine.series.push((key, Series::default()));
            engine.series.len() - 1
        });
        &mut engine.series[found].1
    }

    fn add(&mut self, other: &Self) {
        for (index, engine) in (0..).zip(&other.engines) {
            for (key, series) in engine.iter().flat_map(|engine| &engine.series) {
                let id = engine.as_ref().map_or("", |engine| &engine.id);
                self.series(index, id, *key).add(series);
            }
        }
        for (mine, theirs) in [(&mut self.refusals, &other.refusals), (&mut self.retries, &other.retries)] {
            theirs.iter().for_each(|(label, count)| *mine.entry(label).or_default() += count);
        }
    }
}

impl Default for Series {
    fn default() -> Self {
        let empty = || Histogram::new(DIGITS).expect("the number of digits is valid");
        Self {
            ttft: empty(),
            itl: empty(),
            e2e: empty(),
            statuses: [0; 6],
            prompt_tokens: 0,
            output_tokens: 0,
            errors: BTreeMap::new(),
        }
    }
}

impl Series {
    fn add(&mut self, other: &Self) {
        for (mine, theirs) in
            [(&mut self.ttft, &other.ttft), (&mut self.itl, &other.itl), (&mut self.e2e, &other.e2e)]
        {
            mine.add(theirs).expect("both resize themselves");
        }
        self.statuses.iter_mut().zip(other.statuses).for_each(|(mine, theirs)| *mine += theirs);
        self.prompt_tokens += other.prompt_tokens;
        self.output_tokens += other.output_tokens;
        other.errors.iter().for_each(|(label, count)| *self.errors.entry(label).or_default() += count);
    }
}

fn record(histogram: &mut Histogram<u32>, value: Duration, count: u64) {
    let micros = u64::try_from(value.as_micros()).unwrap_or(u64::MAX);
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    histogram.record_n(micros, count).expect("the histogram resizes itself");
}

fn histogram(out: &mut String, name: &str, labels: &str, values: &Histogram<u32>) {
    for power in BUCKETS {
        let bound = 2_f64.powi(power);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "at most 512 s in microseconds"
        )]
        let micros = (bound * 1e6) as u64;
        let count = values.count_between(0, micros);
        put(out, format_args!("{name}_bucket{{{labels},le=\"{bound}\"}} {count}\n"));
    }
    let count = values.len();
    #[expect(clippy::cast_precision_loss, reason = "a sum of microseconds")]
    let sum: f64 = values
        .iter_recorded()
        .map(|step| step.value_iterated_to() as f64 * step.count_at_value() as f64)
        .sum();
    put(out, format_args!("{name}_bucket{{{labels},le=\"+Inf\"}} {count}\n"));
    put(out, format_args!("{name}_sum{{{labels}}} {}\n{name}_count{{{labels}}} {count}\n", sum / 1e6));
}

fn header(out: &mut String, name: &str, help: &str, kind: &str) {
    put(out, format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a String takes all text");
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use penstock_wire::EngineState;

    use super::*;

    fn engine(id: &str) -> Engine {
        Engine {
            index: 3,
            id: id.to_owned(),
            address: ([127, 0, 0, 1], 1).into(),
            rtt_us: 0,
            state: EngineState::Serving,
            load: Arc::default(),
        }
    }

    fn metrics() -> Metrics {
        Metrics {
            shards: vec![Mutex::default(), Mutex::default()],
            classes: vec![("chat".into(), vec!["m\"1".into()])],
            ..Metrics::empty()
        }
    }

    const KEY: SeriesKey = SeriesKey { class: 0, model: 0 };

    #[test]
    fn shards_are_summed_into_cumulative_buckets() {
        let metrics = metrics();
        for (worker, millis) in [(0, 3), (1, 300)] {
            let exchange = Exchange {
                status: 200,
                ttft: Some(Duration::from_millis(millis)),
                e2e: Duration::from_secs(2),
                ..Exchange::default()
            };
            metrics.shard(worker).exchange(&engine("e"), KEY, &exchange);
        }

        let text = metrics.render();

        let labels = "engine=\"e\",class=\"chat\",model=\"m\\\"1\"";
        for line in [
            format!("penstock_http_ttft_seconds_bucket{{{labels},le=\"0.001953125\"}} 0\n"),
            format!("penstock_http_ttft_seconds_bucket{{{labels},le=\"0.00390625\"}} 1\n"),
            format!("penstock_http_ttft_seconds_bucket{{{labels},le=\"0.5\"}} 2\n"),
            format!("penstock_http_ttft_seconds_bucket{{{labels},le=\"+Inf\"}} 2\n"),
            format!("penstock_http_responses_total{{{labels},status=\"2xx\"}} 2\n"),
        ] {
            assert!(text.contains(&line), "{line} in {text}");
        }
        assert_eq!(metrics.requests_per_class(), [("chat".to_owned(), 2)]);
    }

    #[test]
    fn an_index_given_to_another_engine_starts_anew() {
        let metrics = metrics();
        let exchange = Exchange { status: 200, ..Exchange::default() };

        metrics.shard(0).exchange(&engine("old"), KEY, &exchange);
        metrics.shard(0).exchange(&engine("new"), KEY, &exchange);

        let text = metrics.render();
        assert!(text.contains("engine=\"new\"") && !text.contains("engine=\"old\""));
    }
}
