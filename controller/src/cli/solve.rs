//! `penstock-controller solve FLEET.toml`: one offline solve of the stated demand.
use std::io::Write;
use std::path::PathBuf;

use penstock_controller::assignment::instance::{Inputs, Instance};
use penstock_controller::assignment::report::Report;
use penstock_controller::capacity::availability::Availability;
use penstock_controller::capacity::work;
use penstock_controller::demand::Offered;
use penstock_controller::fleet::{self, settings::PolicyName};
use penstock_controller::policy;

#[derive(Debug, clap::Args)]
pub(crate) struct Solve {
    /// The fleet file, with the demand to solve for.
    fleet: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Use another policy than the file's.
    #[arg(long)]
    policy: Option<PolicyName>,
}

impl Solve {
    pub(crate) fn run(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let fleet = fleet::read(&self.fleet)?;
        for bridged in work::bridged(&fleet) {
            eprintln!("note: {bridged}");
        }
        let (offered, availability) = (Offered::stated(&fleet), Availability::stated(&fleet));
        let instance = Instance::build(Inputs {
            fleet: &fleet,
            offered: &offered,
            availability: &availability,
            move_from: None,
        });
        let mut policy = policy::named(self.policy.unwrap_or(fleet.settings.policy));
        let mut plan = policy.plan(&instance)?;
        for _ in 1..policy.ticks_to_settle() {
            plan = policy.plan(&instance)?;
        }
        let report = Report::of(&instance, &plan);
        if self.json {
            serde_json::to_writer_pretty(&mut *out, &report)?;
            writeln!(out)?;
        } else {
            write!(out, "{report}")?;
        }
        Ok(())
    }
}
