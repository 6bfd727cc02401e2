//! `/metrics` under vLLM's names, and the utilisation that the profile is followed at.
use std::fmt::Write;

use super::replica::Replica;

/// Sums since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub(super) prompt_tokens: f64,
    pub(super) generated_tokens: u64,
    pub(super) finished: u64,
    pub(super) aborted: u64,
}

/// The exposition text.
pub(super) fn text(model: &str, replica: &Replica, totals: Totals) -> String {
    let mut text = String::new();
    let mut row = |name: &str, kind: &str, labels: &str, value: f64| {
        writeln!(text, "# TYPE {name} {kind}\n{name}{{model_name=\"{model}\"{labels}}} {value}")
            .expect("a string takes every line");
    };
    row("vllm:num_requests_running", "gauge", "", replica.running() as f64);
    row("vllm:num_requests_waiting", "gauge", "", replica.waiting() as f64);
    row("vllm:prompt_tokens_total", "counter", "", totals.prompt_tokens);
    row("vllm:generation_tokens_total", "counter", "", totals.generated_tokens as f64);
    row("vllm:request_success_total", "counter", ",finished_reason=\"length\"", totals.finished as f64);
    row("penstock_engine_aborted_requests_total", "counter", "", totals.aborted as f64);
    row("penstock_engine_utilisation_ratio", "gauge", "", replica.utilisation());
    text
}
