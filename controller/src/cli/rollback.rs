//! `penstock-controller rollback FLEET.toml --to EPOCH | --release | --list`.
use std::io::Write;
use std::path::PathBuf;

use penstock_controller::admin::client;
use penstock_controller::fleet;
use penstock_wire::Epoch;

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false, args = ["to", "release", "list"])]
pub(crate) struct Rollback {
    /// The fleet file that the controller runs from.
    fleet: PathBuf,
    /// Epoch as `status` shows it: TERM.COUNTER.
    #[arg(long, value_name = "EPOCH", value_parser = epoch)]
    to: Option<Epoch>,
    /// End a rollback: publications go on.
    #[arg(long)]
    release: bool,
    /// List the epochs that are kept.
    #[arg(long)]
    list: bool,
}

impl Rollback {
    pub(crate) fn run(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let socket = fleet::read(&self.fleet)?.settings.admin_socket;
        if let Some(to) = self.to {
            let (epoch, moved) = client::rollback(&socket, to)?;
            writeln!(out, "epoch {epoch} has the content of {to}: {moved} slots moved")?;
            writeln!(out, "nothing else is published until `rollback --release`")?;
        } else if self.release {
            client::release(&socket)?;
            writeln!(out, "publications go on")?;
        } else {
            for epoch in client::epochs(&socket)? {
                writeln!(out, "{epoch}")?;
            }
        }
        Ok(())
    }
}

fn epoch(text: &str) -> Result<Epoch, String> {
    let parts =
        text.split_once('.').and_then(|(term, counter)| Some((term.parse().ok()?, counter.parse().ok()?)));
    let (term, counter): (u16, u64) = parts.ok_or("not TERM.COUNTER")?;
    let epoch = Epoch(Epoch::start_of(term).0.saturating_add(counter));
    if epoch.term() == term { Ok(epoch) } else { Err("the counter is above 2^48".to_owned()) }
}
