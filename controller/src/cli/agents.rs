//! `penstock-controller agents FLEET.toml`: every frontend host of a running controller.
use std::io::Write;
use std::path::PathBuf;

use penstock_controller::admin::client;
use penstock_controller::fleet;

#[derive(Debug, clap::Args)]
pub(crate) struct Agents {
    /// The fleet file that the controller runs from.
    fleet: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Agents {
    pub(crate) fn run(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let status = client::status(&fleet::read(&self.fleet)?.settings.admin_socket)?;
        if self.json {
            serde_json::to_writer_pretty(&mut *out, &status.agents)?;
            writeln!(out)?;
            return Ok(());
        }
        let heads = ["host", "frontend", "connected", "epoch", "behind", "lag", "mismatches", "orders"];
        let rows: Vec<[String; 8]> = status
            .agents
            .iter()
            .map(|agent| {
                [
                    agent.host.to_string(),
                    agent.frontend.to_string(),
                    if agent.connected { "yes" } else { "no" }.to_owned(),
                    agent.installed.clone().unwrap_or_else(|| "none".to_owned()),
                    agent.lag_epochs.to_string(),
                    format!("{:.1} s", agent.lag_seconds),
                    agent.mismatches.to_string(),
                    if agent.orders.is_empty() { "none".to_owned() } else { agent.orders.join(" ") },
                ]
            })
            .collect();
        let width = |column: usize| {
            rows.iter().map(|row| row[column].len()).chain([heads[column].len()]).max().unwrap_or(0)
        };
        for row in [heads.map(str::to_owned)].iter().chain(&rows) {
            let cells: Vec<_> =
                row.iter().enumerate().map(|(column, cell)| format!("{cell:<0$}", width(column))).collect();
            writeln!(out, "{}", cells.join("  ").trim_end())?;
        }
        for agent in &status.agents {
            if let Some(refusal) = &agent.last_refusal {
                writeln!(out, "{} refused last: {refusal}", agent.host)?;
            }
        }
        Ok(())
    }
}
