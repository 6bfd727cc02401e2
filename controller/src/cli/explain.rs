//! `penstock-controller explain FLEET.toml`: why each weight is what it is.
use std::io::Write;

use penstock_controller::explain::{Filter, explain};
use penstock_controller::fleet::settings::PolicyName;
use penstock_controller::policy::{self, exact::Exact};

use super::inputs::Source;

#[derive(Debug, clap::Args)]
pub(crate) struct Explain {
    #[command(flatten)]
    source: Source,
    /// Only this frontend.
    #[arg(long)]
    frontend: Option<String>,
    /// Only this class.
    #[arg(long)]
    class: Option<String>,
    /// Only this engine group.
    #[arg(long)]
    group: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Explain {
    pub(crate) fn run(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let instance = self.source.read()?.instance;
        let plan = policy::named(PolicyName::Optimizer).plan(&instance)?;
        let filter = Filter {
            frontend: self.frontend.as_deref().map(Into::into),
            class: self.class.as_deref().map(Into::into),
            group: self.group.as_deref().map(Into::into),
        };
        let explanation = explain(&instance, &plan, &filter, &Exact::default())?;
        if self.json {
            serde_json::to_writer_pretty(&mut *out, &explanation)?;
            writeln!(out)?;
        } else {
            write!(out, "{explanation}")?;
        }
        Ok(())
    }
}
