//! The session between an agent and a controller, without I/O: messages and time in, messages and decisions out.
//!
//! The agent opens and says which epoch it holds. The controller keeps one update on its way to each agent, always the
//! newest, from the epoch that the agent holds: a slow agent skips epochs and no queue grows. Messages may be lost,
//! repeated and overtaken.
mod agent;
mod controller;
#[cfg(test)]
mod recorded;
#[cfg(test)]
mod sim;

pub use agent::{AgentSession, Step};
pub use controller::{ControllerSession, Event, Send};

/// Application protocol names, newest first. Neighbours one version apart speak the older one; sides further apart have
/// none in common.
pub const PROTOCOLS: &[&[u8]] = &[b"penstock/2", b"penstock/1"];

/// What both sides of a session speak.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Version {
    V1,
    /// Adds orders to the greeting and refused flows to demand.
    V2,
}

impl Version {
    /// The newest.
    pub const NEWEST: Self = Self::V2;

    /// The version that an application protocol name stands for.
    pub fn of_protocol(name: &[u8]) -> Option<Self> {
        match name {
            b"penstock/1" => Some(Self::V1),
            b"penstock/2" => Some(Self::V2),
            _ => None,
        }
    }
}

/// How a state is sent.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Form {
    /// Changes against what the agent holds.
    Delta,
    /// The state, with tables as patches on what the agent computes.
    Keyframe,
    /// The state with whole tables, for an agent that computes another table from the same counts.
    Whole,
}

impl Form {
    /// What to try after this form led to other hashes.
    fn after_mismatch(self) -> Self {
        match self {
            Self::Delta => Self::Keyframe,
            Self::Keyframe | Self::Whole => Self::Whole,
        }
    }
}
