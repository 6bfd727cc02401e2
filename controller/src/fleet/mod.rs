//! The fleet file: what a person states about sites, engines, classes and services. Everything else is measured.
//!
//! `source` turns text into `raw` values with their places, `check` turns those into a [`Fleet`] or a list of
//! every [`fault`]. Later stages take a [`Fleet`] and validate nothing.
mod check;
pub mod fault;
pub mod network;
pub mod parts;
mod raw;
pub mod settings;
mod source;
pub mod units;

use std::path::Path;

use penstock_wire::{ClassId, EngineId, FrontendId, GroupId, SiteId};

use fault::{Faults, ReadError};
use network::Network;
use parts::{Class, Demand, Engine, EngineGroup, Frontend, Host, Profile, Service};
use settings::Settings;
use source::Source;
use units::{Milliseconds, Share};

/// A checked fleet file. Ids are unique in their kind, and every id that a part names exists.
#[derive(Clone, Debug, PartialEq)]
pub struct Fleet {
    /// Capacity kept free at each group; applied once, in the assignment. Below 1.
    pub headroom: Share,
    pub network: Network,
    pub frontends: Vec<Frontend>,
    pub classes: Vec<Class>,
    pub profiles: Vec<Profile>,
    pub groups: Vec<EngineGroup>,
    /// Stated demand: offline solving, and the start of a running fleet until its agents report.
    pub demand: Vec<Demand>,
    /// Empty in a file for offline solving.
    pub engines: Vec<Engine>,
    pub services: Vec<Service>,
    pub hosts: Vec<Host>,
    pub settings: Settings,
}

/// Reads and checks a fleet file. Relative paths in it become relative to its folder.
pub fn read(path: &Path) -> Result<Fleet, ReadError> {
    read_with_text(path).map(|(fleet, _)| fleet)
}

/// The same, with the text that the fleet was read from.
pub fn read_with_text(path: &Path) -> Result<(Fleet, String), ReadError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| ReadError::Unreadable { path: path.to_owned(), source })?;
    let mut fleet = parse(&text).map_err(|faults| ReadError::Faulty { path: path.to_owned(), faults })?;
    if let Some(folder) = path.parent() {
        fleet.settings.stand_in(folder);
    }
    Ok((fleet, text))
}

/// Checks the text of a fleet file.
pub fn parse(text: &str) -> Result<Fleet, Faults> {
    Fleet::try_from(Source::parse(text))
}

impl Fleet {
    pub fn frontend(&self, id: &FrontendId) -> Option<&Frontend> {
        self.frontends.iter().find(|frontend| frontend.id == *id)
    }

    pub fn class(&self, id: &ClassId) -> Option<&Class> {
        self.classes.iter().find(|class| class.id == *id)
    }

    pub fn group(&self, id: &GroupId) -> Option<&EngineGroup> {
        self.groups.iter().find(|group| group.id == *id)
    }

    pub fn engine(&self, id: &EngineId) -> Option<&Engine> {
        self.engines.iter().find(|engine| engine.id == *id)
    }

    /// Engines of a group, in the file's order.
    pub fn engines_of(&self, group: &GroupId) -> impl Iterator<Item = &Engine> {
        self.engines.iter().filter(move |engine| engine.group == *group)
    }

    /// Round trip between two sites of the file that carry traffic; a site to itself has one too.
    pub fn rtt(&self, from: &SiteId, to: &SiteId) -> Option<Milliseconds> {
        self.network.rtt(from, to)
    }
}
