//! The agent as `penstock-agent status` shows it.
use std::{
    collections::BTreeMap,
    io::{self, Write},
    net::SocketAddr,
};

use penstock_wire::{FrontendId, HostId};
use serde::{Deserialize, Serialize};

use crate::orders::Orders;

/// Keys stay; new ones may come.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Status {
    pub host: HostId,
    pub frontend: Option<FrontendId>,
    /// Epoch in force as `term.counter`, `0.0` before the first.
    pub epoch: String,
    /// The same as one number.
    pub epoch_number: u64,
    /// When it came into force, seconds since 1970, if this process saw it.
    pub installed_unix_s: Option<u64>,
    pub connection: Connection,
    /// Device and how the program is attached to it.
    pub devices: BTreeMap<String, String>,
    /// What a person ordered on this host.
    pub orders: Orders,
    pub slots_in_transition: u64,
    /// Updates whose result had other hashes than the controller's.
    pub mismatches: u64,
    pub refusals: BTreeMap<String, u64>,
    pub last_refusal: Option<LastRefusal>,
    /// Epoch that a restart of the host would route from.
    pub saved_epoch: Option<String>,
    pub save_error: Option<String>,
    /// Packets by reason.
    pub packets: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Connection {
    /// The controller that this agent is connected to.
    pub controller: Option<SocketAddr>,
    /// Why the last connection ended, or could not be made.
    pub error: Option<String>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct LastRefusal {
    pub offered: String,
    pub reason: String,
    pub detail: String,
}

impl Status {
    /// For people.
    pub fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let or_none = |text: Option<&str>| text.unwrap_or("none").to_owned();
        let frontend = or_none(self.frontend.as_ref().map(FrontendId::as_str));
        writeln!(out, "host        {} of frontend {frontend}", self.host)?;
        writeln!(out, "epoch       {} (saved: {})", self.epoch, or_none(self.saved_epoch.as_deref()))?;
        if let Some(error) = &self.save_error {
            writeln!(out, "            not saved: {error}")?;
        }
        match (&self.connection.controller, &self.connection.error) {
            (Some(controller), _) => writeln!(out, "controller  {controller}")?,
            (None, error) => writeln!(out, "controller  none: {}", or_none(error.as_deref()))?,
        }
        for order in self.orders.lines() {
            writeln!(out, "ORDER       {order}")?;
        }
        for (device, attached) in &self.devices {
            writeln!(out, "device      {device}: {attached}")?;
        }
        writeln!(out, "transition  {} slots", self.slots_in_transition)?;
        writeln!(out, "mismatches  {}", self.mismatches)?;
        for (reason, count) in &self.refusals {
            writeln!(out, "refused     {count} times: {reason}")?;
        }
        if let Some(last) = &self.last_refusal {
            writeln!(out, "            last: epoch {}: {}", last.offered, last.detail)?;
        }
        for (reason, count) in self.packets.iter().filter(|(_, count)| **count > 0) {
            writeln!(out, "packets     {count} {reason}")?;
        }
        Ok(())
    }
}
