//! Flags that change inputs before a solve: `--replicas engine-b=4 --demand B.chat=150 --drain engine-a`.
use penstock_controller::capacity::availability::Availability;
use penstock_controller::demand::Offered;
use penstock_controller::fleet::Fleet;
use penstock_controller::fleet::units::{RangeError, Rate};
use penstock_wire::{ClassId, EngineId, FrontendId, GroupId};

#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct WhatIf {
    /// Ready replicas of a group, as GROUP=COUNT. May be repeated.
    #[arg(long, value_name = "GROUP=COUNT")]
    replicas: Vec<String>,
    /// Requests/s of a class at a frontend, as FRONTEND.CLASS=RPS. May be repeated.
    #[arg(long, value_name = "FRONTEND.CLASS=RPS")]
    demand: Vec<String>,
    /// An engine or a whole group that takes no new work. May be repeated.
    #[arg(long, value_name = "ENGINE|GROUP")]
    drain: Vec<String>,
}

/// A flag that does not fit the fleet.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WhatIfError {
    #[error("{flag} {given:?} is not of the form {form}")]
    Form { flag: &'static str, given: String, form: &'static str },
    #[error("{flag} {given:?} names no {kind} of the fleet file")]
    Unknown { flag: &'static str, given: String, kind: &'static str },
    #[error("--demand {given:?}")]
    Rate { given: String, source: RangeError },
}

impl WhatIf {
    pub(crate) fn is_empty(&self) -> bool {
        self.replicas.is_empty() && self.demand.is_empty() && self.drain.is_empty()
    }

    /// Applies the flags, in the order replicas, demand, drain.
    pub(crate) fn apply(
        &self,
        fleet: &Fleet,
        offered: &mut Offered,
        availability: &mut Availability,
    ) -> Result<(), WhatIfError> {
        for given in &self.replicas {
            let (group, count) = replicas(fleet, given)?;
            availability.set_replicas(&group, count);
        }
        for given in &self.demand {
            let (frontend, class, rate) = demand(fleet, given)?;
            offered.set(frontend, class, rate);
        }
        for given in &self.drain {
            if let Some(group) = fleet.group(&GroupId(given.clone())) {
                availability.drain_group(&group.id, fleet);
            } else if let Some(engine) = fleet.engine(&EngineId(given.clone())) {
                availability.drain(&engine.id, &engine.group);
            } else {
                let (flag, kind) = ("--drain", "engine or engine group");
                return Err(WhatIfError::Unknown { flag, given: given.clone(), kind });
            }
        }
        Ok(())
    }
}

fn replicas(fleet: &Fleet, given: &str) -> Result<(GroupId, u32), WhatIfError> {
    let (flag, form) = ("--replicas", "GROUP=COUNT");
    let form = || WhatIfError::Form { flag, given: given.to_owned(), form };
    let (group, count) = given.rsplit_once('=').ok_or_else(form)?;
    let Ok(count) = count.parse() else { return Err(form()) };
    let group = GroupId(group.to_owned());
    if fleet.group(&group).is_none() {
        return Err(WhatIfError::Unknown { flag, given: given.to_owned(), kind: "engine group" });
    }
    Ok((group, count))
}

/// Ids may contain dots, so every dot is tried as the one between frontend and class.
fn demand(fleet: &Fleet, given: &str) -> Result<(FrontendId, ClassId, Rate), WhatIfError> {
    let (flag, form) = ("--demand", "FRONTEND.CLASS=RPS");
    let form = || WhatIfError::Form { flag, given: given.to_owned(), form };
    let (pair, rate) = given.rsplit_once('=').ok_or_else(form)?;
    let Ok(rate) = rate.parse::<f64>() else { return Err(form()) };
    let rate =
        Rate::try_from(rate).map_err(|source| WhatIfError::Rate { given: given.to_owned(), source })?;
    let known = pair
        .match_indices('.')
        .map(|(at, _)| (FrontendId(pair[..at].to_owned()), ClassId(pair[at + 1..].to_owned())))
        .find(|(frontend, class)| fleet.frontend(frontend).is_some() && fleet.class(class).is_some());
    let kind = "frontend and class";
    let (frontend, class) =
        known.ok_or_else(|| WhatIfError::Unknown { flag, given: given.to_owned(), kind })?;
    Ok((frontend, class, rate))
}
