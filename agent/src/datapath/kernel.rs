//! The data path in the kernel.
use std::sync::Arc;

use penstock_abi::Traffic;
use penstock_wire::{Epoch, Refusal, Snapshot};
use tracing::info;

use super::{CountError, DataPath, Installed, NotInstalled, ServiceFlows};
use crate::{
    config::{Attach, DataPathConfig},
    install::{InstallConfig, InstallError, InstallReport, Installer, Mode, OpenError},
    proxy::route::KernelTables,
};

/// XDP programs and their pinned maps.
#[derive(Debug)]
pub struct Kernel {
    config: InstallConfig,
    /// `None` while detached.
    installer: Option<Installer>,
}

impl Kernel {
    /// Loads, pins and attaches, taking over what an earlier agent left.
    pub fn open(config: &DataPathConfig) -> Result<Self, OpenError> {
        let config = install_config(config);
        let installer = Some(Installer::open(&config)?);
        Ok(Self { config, installer })
    }

    /// Leaves the devices alone until [`DataPath::attach`].
    pub fn detached(config: &DataPathConfig) -> Self {
        Self { config: install_config(config), installer: None }
    }

    /// Takes the program off all devices: packets pass to the host stack.
    pub fn remove(config: &DataPathConfig) -> std::io::Result<()> {
        Installer::remove(&install_config(config))
    }

    fn installer(&mut self) -> Result<&mut Installer, NotInstalled> {
        let detached =
            || NotInstalled { reason: Refusal::Held, detail: "the data path is detached".to_owned() };
        self.installer.as_mut().ok_or_else(detached)
    }
}

impl DataPath for Kernel {
    fn epoch(&self) -> Epoch {
        self.installer.as_ref().map_or(Epoch(0), |installer| installer.live().epoch())
    }

    fn install(&mut self, snapshot: &Snapshot) -> Result<Installed, NotInstalled> {
        outcome(self.installer()?.install(snapshot))
    }

    fn replace(&mut self, snapshot: &Snapshot) -> Result<Installed, NotInstalled> {
        outcome(self.installer()?.replace(snapshot))
    }

    fn detach(&mut self) -> Result<(), NotInstalled> {
        // Programs stay attached as long as anybody holds their links.
        drop(self.installer.take());
        Installer::remove(&self.config).map_err(|error| not_installed(&error))?;
        info!("detached: packets pass to the host stack");
        Ok(())
    }

    fn attach(&mut self) -> Result<(), NotInstalled> {
        if self.installer.is_none() {
            let opened = Installer::open(&self.config);
            self.installer = Some(opened.map_err(|error| not_installed(&error))?);
        }
        Ok(())
    }

    fn resume(&mut self, snapshot: &Snapshot) -> bool {
        self.installer.as_mut().is_some_and(|installer| installer.resume(snapshot))
    }

    fn flows_per_service(&self) -> Result<Vec<ServiceFlows>, CountError> {
        let Some(installer) = &self.installer else { return Ok(vec![]) };
        let counters = installer.live().counters().map_err(|error| CountError(error.into()))?;
        let flows = |(service, traffic): (&u16, &Traffic)| ServiceFlows {
            service: *service,
            new: traffic.new_flows,
            refused: traffic.refused,
        };
        Ok(counters.services.iter().map(flows).collect())
    }

    fn reasons(&self) -> Result<Vec<(&'static str, u64)>, CountError> {
        let Some(installer) = &self.installer else { return Ok(vec![]) };
        let counters = installer.live().counters().map_err(|error| CountError(error.into()))?;
        Ok(counters.reasons.iter().map(|(reason, count)| (reason.label(), *count)).collect())
    }

    fn maintain(&mut self) -> u64 {
        self.installer.as_mut().map_or(0, |installer| installer.maintain().in_transition as u64)
    }

    fn devices(&self) -> Vec<(String, String)> {
        let devices = self.installer.iter().flat_map(Installer::attached);
        devices.map(|(device, attached)| (device.clone(), attached.label().to_owned())).collect()
    }

    fn slot_tables(&self, snapshot: &Snapshot) -> Result<Option<Arc<dyn KernelTables>>, NotInstalled> {
        let Some(installer) = &self.installer else { return Ok(None) };
        let tables = installer.slot_tables(&self.config.pin_dir, snapshot);
        Ok(Some(Arc::new(tables.map_err(|error| not_installed(&error))?)))
    }
}

fn outcome(result: Result<InstallReport, InstallError>) -> Result<Installed, NotInstalled> {
    match result {
        Ok(report) => Ok(Installed { moved_slots: report.moved_slots }),
        Err(error) => Err(NotInstalled { reason: reason(&error), detail: error.to_string() }),
    }
}

fn not_installed(error: &dyn std::error::Error) -> NotInstalled {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    NotInstalled { reason: Refusal::NotInstalled, detail: format!("{error}{cause}") }
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
