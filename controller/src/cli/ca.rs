//! `penstock-controller ca init|issue|rotate`.
use std::{io::Write, path::PathBuf, time::Duration};

use penstock_controller::ca::{self, Subject};
use penstock_wire::transport::AgentIdentity;

/// Make a small fleet's certificates.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Ca {
    /// Make an authority in a folder.
    Init {
        #[arg(long, value_name = "FOLDER")]
        dir: PathBuf,
        #[arg(long, default_value_t = 3650)]
        days: u32,
    },
    /// Sign a certificate for the controller, or for one frontend host.
    Issue(Issue),
    /// Make a new authority beside the old one; with --finish, stop trusting the old ones.
    Rotate {
        #[arg(long, value_name = "FOLDER")]
        dir: PathBuf,
        #[arg(long, default_value_t = 3650)]
        days: u32,
        /// Every certificate was issued anew and every `ca.pem` handed out.
        #[arg(long)]
        finish: bool,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Issue {
    /// Folder of the authority.
    #[arg(long, value_name = "FOLDER")]
    dir: PathBuf,
    /// Folder that gets ca.pem, cert.pem and key.pem.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    #[arg(long, default_value_t = 90)]
    days: u32,
    /// For a controller.
    #[arg(long, conflicts_with_all = ["frontend", "host"], required_unless_present_all = ["frontend", "host"])]
    controller: bool,
    /// A further DNS name of the controller.
    #[arg(long, value_name = "NAME", requires = "controller")]
    name: Vec<String>,
    #[arg(long, value_name = "ID", requires = "host")]
    frontend: Option<String>,
    #[arg(long, value_name = "ID", requires = "frontend")]
    host: Option<String>,
}

impl Ca {
    pub(crate) fn run(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        match self {
            Self::Init { dir, days } => {
                ca::init(dir, lifetime(*days))?;
                writeln!(out, "authority made in {}", dir.display())?;
            }
            Self::Issue(issue) => issue.run(out)?,
            Self::Rotate { dir, finish: true, .. } => {
                let retired = ca::retire(dir)?;
                writeln!(
                    out,
                    "{retired} old authorities are not trusted any more; hand out {}/ca.pem",
                    dir.display()
                )?;
            }
            Self::Rotate { dir, days, finish: false } => {
                ca::rotate(dir, lifetime(*days))?;
                writeln!(
                    out,
                    "new authority made; hand out {}/ca.pem, issue every certificate anew, then rotate --finish",
                    dir.display()
                )?;
            }
        }
        Ok(())
    }
}

impl Issue {
    fn run(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let subject = match (&self.frontend, &self.host) {
            (Some(frontend), Some(host)) => Subject::Agent(AgentIdentity {
                frontend: frontend.as_str().into(),
                host: host.as_str().into(),
            }),
            _ => Subject::Controller { names: self.name.clone() },
        };
        ca::issue(&self.dir, &subject, lifetime(self.days), &self.out)?;
        writeln!(out, "certificate written to {}", self.out.display())?;
        Ok(())
    }
}

fn lifetime(days: u32) -> Duration {
    Duration::from_secs(u64::from(days) * 86_400)
}
