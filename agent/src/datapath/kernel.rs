//! The data path in the kernel.
use penstock_wire::{Epoch, Refusal, Snapshot};

use super::{CountError, DataPath, Installed, NotInstalled};
use crate::{
    config::{Attach, DataPathConfig},
    install::{InstallConfig, InstallError, Installer, Mode, OpenError},
};

/// XDP programs and their pinned maps.
#[derive(Debug)]
pub struct Kernel(Installer);

impl Kernel {
    /// Loads, pins and attaches, taking over what an earlier agent left.
    pub fn open(config: &DataPathConfig) -> Result<Self, OpenError> {
        Installer::open(&install_config(config)).map(Self)
    }

    /// Takes the program off all devices: packets pass to the host stack.
    pub fn remove(config: &DataPathConfig) -> std::io::Result<()> {
        Installer::remove(&install_config(config))
    }
}

impl DataPath for Kernel {
    fn epoch(&self) -> Epoch {
        self.0.live().epoch()
    }

    fn install(&mut self, snapshot: &Snapshot) -> Result<Installed, NotInstalled> {
        match self.0.install(snapshot) {
            Ok(report) => Ok(Installed { moved_slots: report.moved_slots }),
            Err(error) => Err(NotInstalled { reason: reason(&error), detail: error.to_string() }),
        }
    }

    fn flows_per_service(&self) -> Result<Vec<(u16, u64)>, CountError> {
        self.0.live().flows_per_service().map_err(|error| CountError(error.into()))
    }

    fn reasons(&self) -> Result<Vec<(&'static str, u64)>, CountError> {
        let counters = self.0.live().counters().map_err(|error| CountError(error.into()))?;
        Ok(counters.reasons.iter().map(|(reason, count)| (reason.label(), *count)).collect())
    }

    fn maintain(&mut self) -> u64 {
        self.0.maintain().in_transition as u64
    }

    fn devices(&self) -> Vec<(String, String)> {
        let devices = self.0.attached().iter();
        devices.map(|(device, attached)| (device.clone(), attached.label().to_owned())).collect()
    }
}

fn install_config(config: &DataPathConfig) -> InstallConfig {
    InstallConfig {
        object: config.object.clone(),
        pin_dir: config.pin_dir.clone(),
        devices: config.devices.clone(),
        mode: match config.attach {
            Attach::Best => Mode::Best,
            Attach::Native => Mode::Native,
            Attach::Generic => Mode::Generic,
        },
        redirect_only: config.redirect_only,
        reset_lost: config.reset_lost,
        outer4: config.outer4.unwrap_or(InstallConfig::OUTER4),
        outer6: config.outer6.unwrap_or(InstallConfig::OUTER6),
        max_moved: config.max_moved,
    }
}

fn reason(error: &InstallError) -> Refusal {
    match error {
        InstallError::StaleEpoch { .. } => Refusal::Stale,
        InstallError::TooManyMoves { .. } => Refusal::TooManyMoves,
        _ => Refusal::NotInstalled,
    }
}
