//! What every bench prints: one row a figure, beside its baseline of the same run.
use std::io::Write;

use serde::Serialize;

/// One measured figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    pub suite: &'static str,
    /// What was measured, e.g. `ipip/v4_tcp_stable_slot`.
    pub case: String,
    pub metric: String,
    pub value: f64,
    pub unit: &'static str,
    /// The floor or peer measured in the same run.
    pub baseline: Option<String>,
    pub baseline_value: Option<f64>,
    /// `value / baseline_value`.
    pub ratio: Option<f64>,
}

impl Row {
    /// A figure without a baseline.
    pub fn new(
        suite: &'static str,
        case: impl Into<String>,
        metric: impl Into<String>,
        value: f64,
        unit: &'static str,
    ) -> Self {
        Self {
            suite,
            case: case.into(),
            metric: metric.into(),
            value,
            unit,
            baseline: None,
            baseline_value: None,
            ratio: None,
        }
    }

    /// Sets the floor or peer that the figure is compared with.
    #[must_use]
    pub fn against(mut self, baseline: impl Into<String>, value: f64) -> Self {
        self.baseline = Some(baseline.into());
        self.baseline_value = Some(value);
        self.ratio = (value != 0.0).then(|| self.value / value);
        self
    }
}

/// The file that `--json` writes: `{"rows": [..]}`.
#[derive(Debug, Serialize)]
pub struct Report<'a> {
    pub rows: &'a [Row],
}

/// Prints the rows as an aligned table.
pub fn print_table(out: &mut impl Write, rows: &[Row]) -> std::io::Result<()> {
    let width = |of: fn(&Row) -> usize, title: &str| rows.iter().map(of).max().unwrap_or(0).max(title.len());
    let (case, metric) = (width(|row| row.case.len(), "case"), width(|row| row.metric.len(), "metric"));
    writeln!(
        out,
        "{:<case$}  {:<metric$}  {:>14}  {:<8}  {:>14}  {:>9}  baseline",
        "case", "metric", "value", "unit", "base", "ratio"
    )?;
    for row in rows {
        let base = row.baseline_value.map_or_else(|| "-".to_owned(), significant);
        let ratio = row.ratio.map_or_else(|| "-".to_owned(), significant);
        let name = row.baseline.as_deref().unwrap_or("-");
        let value = significant(row.value);
        writeln!(
            out,
            "{:<case$}  {:<metric$}  {value:>14}  {:<8}  {base:>14}  {ratio:>9}  {name}",
            row.case, row.metric, row.unit
        )?;
    }
    Ok(())
}

/// Four significant digits.
fn significant(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if value == 0.0 => "0".to_owned(),
        _ if !(1e-3..1e7).contains(&size) => format!("{value:.3e}"),
        _ if size >= 1000.0 => format!("{value:.0}"),
        _ if size >= 100.0 => format!("{value:.1}"),
        _ if size >= 10.0 => format!("{value:.2}"),
        _ if size >= 1.0 => format!("{value:.3}"),
        _ => format!("{value:.5}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_carries_the_ratio_to_its_baseline() {
        let row = Row::new("xdp", "l2/v4_udp", "ns_per_packet", 45.0, "ns").against("mac swap", 30.0);

        let json = serde_json::to_value(Report { rows: &[row] }).unwrap();

        assert_eq!(json["rows"][0]["ratio"], 1.5);
        assert_eq!(json["rows"][0]["baseline"], "mac swap");
    }

    #[test]
    fn a_baseline_of_zero_has_no_ratio() {
        let row = Row::new("table", "n3/noise1", "disruption", 0.0, "ratio").against("maglev", 0.0);

        assert_eq!(row.ratio, None);
    }
}
