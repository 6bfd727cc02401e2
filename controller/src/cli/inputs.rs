//! What `solve` and `explain` solve: a fleet file and its stated demand, or a running controller's inputs; and the
//! flags that change them.
use std::path::PathBuf;

use penstock_controller::admin::client;
use penstock_controller::assignment::instance::{Inputs, Instance};
use penstock_controller::capacity::{availability::Availability, work};
use penstock_controller::demand::Offered;
use penstock_controller::fleet::{self, Fleet};

use super::what_if::WhatIf;

#[derive(Debug, clap::Args)]
pub(crate) struct Source {
    /// The fleet file.
    fleet: PathBuf,
    /// Ask the controller that runs from this file for the demand and replicas of its last solve.
    #[arg(long)]
    running: bool,
    #[command(flatten)]
    what_if: WhatIf,
}

/// What is to be solved.
pub(crate) struct Read {
    pub(crate) fleet: Fleet,
    /// Without the flags, if there are any.
    pub(crate) before: Option<Instance>,
    pub(crate) instance: Instance,
}

impl Source {
    pub(crate) fn read(&self) -> anyhow::Result<Read> {
        let mut fleet = fleet::read(&self.fleet)?;
        let (mut offered, mut availability);
        if self.running {
            let running = client::inputs(&fleet.settings.admin_socket)?;
            // What the controller was started with may differ from the file by now.
            fleet = fleet::parse(&running.fleet)?;
            (offered, availability) = (running.inputs.offered(), running.inputs.availability(&fleet));
        } else {
            (offered, availability) = (Offered::stated(&fleet), Availability::stated(&fleet));
        }
        for bridged in work::bridged(&fleet) {
            eprintln!("note: {bridged}");
        }
        let build = |offered: &Offered, availability: &Availability| {
            Instance::build(Inputs { fleet: &fleet, offered, availability, move_from: None })
        };
        let before = (!self.what_if.is_empty()).then(|| build(&offered, &availability));
        self.what_if.apply(&fleet, &mut offered, &mut availability)?;
        let instance = build(&offered, &availability);
        Ok(Read { fleet, before, instance })
    }
}
