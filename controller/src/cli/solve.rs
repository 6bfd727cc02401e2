//! `penstock-controller solve FLEET.toml`: one solve of the stated demand, or of a running controller's.
use std::io::Write;

use penstock_controller::assignment::instance::Instance;
use penstock_controller::assignment::report::Report;
use penstock_controller::fleet::settings::PolicyName;
use penstock_controller::policy;

use super::inputs::{Read, Source};

#[derive(Debug, clap::Args)]
pub(crate) struct Solve {
    #[command(flatten)]
    source: Source,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Use another policy than the file's.
    #[arg(long)]
    policy: Option<PolicyName>,
}

impl Solve {
    pub(crate) fn run(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let Read { fleet, before, instance } = self.source.read()?;
        let name = self.policy.unwrap_or(fleet.settings.policy);
        let report = report(&instance, name)?;
        if self.json {
            serde_json::to_writer_pretty(&mut *out, &report)?;
            writeln!(out)?;
            return Ok(());
        }
        write!(out, "{report}")?;
        if let Some(before) = before {
            let before = self::report(&before, name)?;
            writeln!(out, "\nwithout these changes: {}", summary(&before))?;
        }
        Ok(())
    }
}

fn report(instance: &Instance, name: PolicyName) -> anyhow::Result<Report> {
    let mut policy = policy::named(name);
    let mut plan = policy.plan(instance)?;
    for _ in 1..policy.ticks_to_settle() {
        plan = policy.plan(instance)?;
    }
    Ok(Report::of(instance, &plan))
}

fn summary(report: &Report) -> String {
    let mean = report
        .mean_e2e_ms
        .map_or_else(|| "nothing is served".into(), |mean| format!("mean E2E {mean:.2} ms"));
    let shed: f64 = report.shed.iter().map(|row| row.rps).sum();
    if shed > 0.0 { format!("{mean}, {shed:.3} req/s shed") } else { mean }
}
