//! What offline commands solve: a fleet file, its stated demand, and the flags that change them.
use std::path::PathBuf;

use penstock_controller::assignment::instance::{Inputs, Instance};
use penstock_controller::capacity::{availability::Availability, work};
use penstock_controller::demand::Offered;
use penstock_controller::fleet::{self, Fleet};

use super::what_if::WhatIf;

#[derive(Debug, clap::Args)]
pub(crate) struct Offline {
    /// The fleet file, with the demand to solve for.
    pub(crate) fleet: PathBuf,
    #[command(flatten)]
    pub(crate) what_if: WhatIf,
}

impl Offline {
    /// The fleet and its instance, before and after the flags.
    pub(crate) fn read(&self) -> anyhow::Result<(Fleet, Option<Instance>, Instance)> {
        let fleet = fleet::read(&self.fleet)?;
        for bridged in work::bridged(&fleet) {
            eprintln!("note: {bridged}");
        }
        let (mut offered, mut availability) = (Offered::stated(&fleet), Availability::stated(&fleet));
        let build = |offered: &Offered, availability: &Availability| {
            Instance::build(Inputs { fleet: &fleet, offered, availability, move_from: None })
        };
        let before = (!self.what_if.is_empty()).then(|| build(&offered, &availability));
        self.what_if.apply(&fleet, &mut offered, &mut availability)?;
        let after = build(&offered, &availability);
        Ok((fleet, before, after))
    }
}
