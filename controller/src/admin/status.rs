//! The controller as `penstock-controller status` and `/metrics` show it.
use std::fmt;
use std::net::SocketAddr;

use penstock_wire::{ClassId, FrontendId, GroupId, HostId};
use serde::{Deserialize, Serialize};

use crate::assignment::report::Report;
use crate::fleet::settings::PolicyName;
use crate::reserve::Reserve;

/// Keys stay; new ones may come.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Status {
    pub policy: PolicyName,
    /// Newest epoch as `term.counter`, and as one number.
    pub epoch: String,
    pub epoch_number: u64,
    pub mode: Mode,
    pub counters: Counters,
    /// Time that the last tick took, ms.
    pub tick_ms: f64,
    /// Fraction of mean delay that the last plan would save over the split in force.
    pub saving: f64,
    /// What calm costs at most: objective over the optimum without a move penalty, less 1.
    pub excess: Option<f64>,
    pub demand: Vec<DemandRow>,
    /// The last plan; `None` before the first.
    pub plan: Option<Report>,
    /// What a plan of the last minute can bear; `None` until it was found out.
    pub reserve: Option<Reserve>,
    /// The split in force.
    pub published: Vec<SplitRow>,
    pub agents: Vec<AgentRow>,
    /// Epoch that a person rolled back to; nothing else is published until it is released.
    pub rolled_back: Option<String>,
    /// Epoch that is going out in waves.
    pub on_its_way: Option<String>,
}

/// Where the split in force comes from.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    Starting,
    /// The policy's own plan.
    Planned,
    /// The policy's plan was not proven, or there was none: nearest groups with room.
    ByDistance,
    /// Inputs do not cohere: the last split is held.
    Held,
}

/// Counts since the start of the process.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Counters {
    pub ticks: u64,
    pub held_ticks: u64,
    pub by_distance_ticks: u64,
    pub publishes: u64,
    pub publish_errors: u64,
    pub moved_slots: u64,
    pub waiting_slots: u64,
    pub record_errors: u64,
    pub dropped_reports: u64,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct DemandRow {
    pub frontend: FrontendId,
    pub class: ClassId,
    pub rps: f64,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct SplitRow {
    pub frontend: FrontendId,
    pub class: ClassId,
    pub group: GroupId,
    pub weight: f64,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct AgentRow {
    pub host: HostId,
    pub frontend: FrontendId,
    pub connected: bool,
    pub address: SocketAddr,
    /// Epoch in force there.
    pub installed: Option<String>,
    pub lag_epochs: u64,
    pub lag_seconds: f64,
    pub mismatches: u64,
    pub last_refusal: Option<String>,
    /// Kinds of orders that a person gave on the host.
    pub orders: Vec<String>,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = match self.mode {
            Mode::Starting => "starting",
            Mode::Planned => "planned",
            Mode::ByDistance => "by distance: the policy's own plan is not proven",
            Mode::Held => "held: inputs do not cohere",
        };
        writeln!(f, "epoch {}, policy {:?}, {mode}", self.epoch, self.policy)?;
        writeln!(f, "{} ticks, the last took {:.1} ms", self.counters.ticks, self.tick_ms)?;
        if let Some(epoch) = &self.rolled_back {
            writeln!(f, "ROLLED BACK to epoch {epoch}: nothing else is published until it is released")?;
        }
        if let Some(epoch) = &self.on_its_way {
            writeln!(f, "epoch {epoch} is going out in waves")?;
        }
        for agent in &self.agents {
            let connected = if agent.connected { "connected" } else { "gone" };
            let installed = agent.installed.as_deref().unwrap_or("nothing");
            writeln!(
                f,
                "agent {} of {}: {connected}, holds {installed}, {} epochs and {:.1} s behind",
                agent.host, agent.frontend, agent.lag_epochs, agent.lag_seconds
            )?;
        }
        for loss in self.reserve.iter().flat_map(|reserve| &reserve.n_minus_one) {
            write!(f, "without site {}:", loss.site)?;
            for (priority, share) in loss.served_share.iter().enumerate() {
                if let Some(share) = share {
                    write!(f, " {:.1} % of priority {priority} served", 100.0 * share)?;
                }
            }
            writeln!(f)?;
        }
        match &self.plan {
            Some(plan) => write!(f, "\n{plan}"),
            None => Ok(()),
        }
    }
}
