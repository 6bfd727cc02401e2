//! The live table: redrawn in place on a terminal, a line every few seconds elsewhere.
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{self, IsTerminal as _, Write},
    time::{Duration, Instant},
};

use penstock_agent::admin::Status as AgentStatus;
use penstock_controller::{admin::status::Status as ControllerStatus, fleet::Fleet};
use penstock_wire::{ClassId, EngineId, FrontendId, GroupId};

use super::{gauge::EngineState, tail::Seen};
use crate::load::{record::Outcome, summary::Summary};

/// Without a terminal, a line this often.
const LINE_PERIOD: Duration = Duration::from_secs(5);
/// Cells of a utilisation bar.
const BAR: usize = 20;

/// Weights by frontend, class and engine.
pub(super) type Weights = BTreeMap<(FrontendId, ClassId), BTreeMap<EngineId, f64>>;

/// What there is to show.
#[derive(Debug)]
pub(super) struct View<'a> {
    pub(super) fleet: &'a Fleet,
    pub(super) scale: f64,
    pub(super) policy: &'static str,
    pub(super) elapsed: f64,
    pub(super) total: f64,
    pub(super) is_warm: bool,
    pub(super) controller: Option<&'a ControllerStatus>,
    pub(super) agents: &'a [AgentStatus],
    pub(super) weights: &'a Weights,
    pub(super) engines: &'a BTreeMap<EngineId, EngineState>,
    /// Requests that ended within the last `recent_seconds`.
    pub(super) recent: &'a [&'a Seen],
    pub(super) recent_seconds: f64,
}

/// Where the demo writes.
#[derive(Debug)]
pub(super) struct Screen {
    is_terminal: bool,
    last_line: Option<Instant>,
    /// XDP counters at the last look, to show rates.
    packets: Option<(Instant, BTreeMap<String, u64>)>,
}

impl Screen {
    pub(super) fn new() -> Self {
        Self { is_terminal: io::stdout().is_terminal(), last_line: None, packets: None }
    }

    /// A sentence that stays.
    pub(super) fn say(&self, text: &str) -> io::Result<()> {
        writeln!(io::stdout(), "{text}")
    }

    pub(super) fn show(&mut self, view: &View<'_>) -> io::Result<()> {
        let rates = self.packet_rates(view.agents);
        if self.is_terminal {
            // Cursor to the top, then each line cleared to its end, then the rest of the screen.
            let text = table(view, &rates).replace('\n', "\x1b[K\n");
            let mut out = io::stdout().lock();
            write!(out, "\x1b[H{text}\x1b[J")?;
            return out.flush();
        }
        if self.last_line.is_none_or(|last| last.elapsed() >= LINE_PERIOD) {
            self.last_line = Some(Instant::now());
            return writeln!(io::stdout(), "{}", line(view));
        }
        Ok(())
    }

    /// Leaves the last table above what follows.
    pub(super) fn clear(&self) -> io::Result<()> {
        if self.is_terminal { write!(io::stdout(), "\x1b[H\x1b[2J") } else { Ok(()) }
    }

    /// Packets a second by reason, summed over the hosts.
    fn packet_rates(&mut self, agents: &[AgentStatus]) -> Vec<(String, f64, u64)> {
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for (reason, count) in agents.iter().flat_map(|agent| &agent.packets) {
            *sums.entry(reason.clone()).or_default() += count;
        }
        let now = Instant::now();
        let before = self.packets.replace((now, sums.clone()));
        let rate = |reason: &String, count: u64| {
            let (at, old) = before.as_ref()?;
            let earlier = old.get(reason).copied().unwrap_or(0);
            Some(count.saturating_sub(earlier) as f64 / now.duration_since(*at).as_secs_f64())
        };
        let nonzero = sums.into_iter().filter(|(_, count)| *count > 0);
        nonzero.map(|(reason, count)| (reason.clone(), rate(&reason, count).unwrap_or(0.0), count)).collect()
    }
}

impl View<'_> {
    fn epoch(&self) -> String {
        let newest = self.agents.iter().max_by_key(|agent| agent.epoch_number);
        newest.map_or_else(|| "none".to_owned(), |agent| agent.epoch.clone())
    }

    fn group_weight(&self, frontend: &FrontendId, class: &ClassId, group: &GroupId) -> f64 {
        let Some(weights) = self.weights.get(&(frontend.clone(), class.clone())) else { return 0.0 };
        self.fleet.engines_of(group).filter_map(|engine| weights.get(&engine.id)).sum()
    }

    /// Part of the recent requests of a frontend and class that each group answered.
    fn measured(&self, frontend: &FrontendId, class: &ClassId) -> BTreeMap<GroupId, f64> {
        let mut counts: BTreeMap<GroupId, f64> = BTreeMap::new();
        for seen in self.recent.iter().filter(|seen| seen.frontend == *frontend && seen.class == *class) {
            let Outcome::Answered(answered) = &seen.record.outcome else { continue };
            if let Some(engine) = self.fleet.engine(&answered.engine.as_str().into()) {
                *counts.entry(engine.group.clone()).or_default() += 1.0;
            }
        }
        let total: f64 = counts.values().sum();
        counts.values_mut().for_each(|count| *count /= total);
        counts
    }

    fn clients(&self, separator: &str) -> String {
        let report = Summary::of(self.recent.iter().map(|seen| &seen.record)).report();
        format!(
            "{:.0} answers/s, {} failed{separator}TTFT p50 {:.0} p99 {:.0} ms{separator}E2E mean {:.0} p50 {:.0} \
             p99 {:.0} ms{separator}network {:.1} ms",
            report.answered as f64 / self.recent_seconds,
            report.failed,
            report.ttft.p50_ms,
            report.ttft.p99_ms,
            report.e2e.mean_ms,
            report.e2e.p50_ms,
            report.e2e.p99_ms,
            report.overhead.mean_ms,
        )
    }
}

fn line(view: &View<'_>) -> String {
    let state = if view.is_warm { "measuring" } else { "warming up" };
    format!(
        "{:<12} {:>3.0} of {:.0} s, {state}; epoch {}; {}",
        view.policy,
        view.elapsed,
        view.total,
        view.epoch(),
        view.clients("; ")
    )
}

fn table(view: &View<'_>, packets: &[(String, f64, u64)]) -> String {
    let mut text = String::new();
    let state = if view.is_warm { "measuring" } else { "warming up" };
    let mut line = |arguments: std::fmt::Arguments<'_>| {
        writeln!(text, "{arguments}").expect("a string takes every line");
    };
    line(format_args!(
        "PENSTOCK  policy {}  {:.0} of {:.0} s ({state})  epoch {}  demand and capacity at {:.0} %",
        view.policy,
        view.elapsed,
        view.total,
        view.epoch(),
        100.0 * view.scale
    ));
    line(format_args!("\nclients (last {:.0} s)   {}", view.recent_seconds, view.clients("   ")));
    line(format_args!(
        "\nfrontend   class        req/s stated, measured   weight in force / measured share by group"
    ));
    for demand in &view.fleet.demand {
        let (frontend, class) = (&demand.frontend, &demand.class);
        let row = view.controller.and_then(|status| {
            status.demand.iter().find(|row| row.frontend == *frontend && row.class == *class)
        });
        let measured = row.map_or_else(|| "-".to_owned(), |row| format!("{:.1}", row.rps));
        let shares = view.measured(frontend, class);
        let mut groups = String::new();
        for group in &view.fleet.groups {
            let weight = view.group_weight(frontend, class, &group.id);
            let share = shares.get(&group.id).copied().unwrap_or(0.0);
            if weight > 0.0 || share > 0.0 {
                write!(groups, "  {} {:.1}/{:.1} %", group.id, 100.0 * weight, 100.0 * share)
                    .expect("a string takes every line");
            }
        }
        line(format_args!(
            "{:<10} {:<10} {:>14.1} {measured:>8}   {groups}",
            frontend.as_str(),
            class.as_str(),
            demand.rate.get() * view.scale,
        ));
    }
    line(format_args!("\nengine         answers/s  running  waiting  utilisation"));
    for engine in &view.fleet.engines {
        let answered = view.recent.iter().filter(|seen| {
            matches!(&seen.record.outcome, Outcome::Answered(answered) if answered.engine == engine.id.as_str())
        });
        let load = answered.count() as f64 / view.recent_seconds;
        let state = view.engines.get(&engine.id).copied().unwrap_or_default();
        line(format_args!(
            "{:<14} {load:>9.1} {:>8.0} {:>8.0}  {:>5.2} {}",
            engine.id.as_str(),
            state.running,
            state.waiting,
            state.utilisation,
            bar(state.utilisation)
        ));
    }
    let mut reasons = String::new();
    for (reason, rate, count) in packets {
        write!(reasons, "  {reason} {rate:.0}/s ({count})").expect("a string takes every line");
    }
    line(format_args!("\nXDP counters {}", if reasons.is_empty() { "  none" } else { &reasons }));
    text
}

fn bar(share: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the bar's cells")]
    let cells = (share.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    format!("[{}{}]", "#".repeat(cells), " ".repeat(BAR - cells))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_full_at_one_and_never_longer() {
        assert_eq!(bar(0.5), "[##########          ]");
        assert_eq!(bar(1.7), "[####################]");
    }
}
