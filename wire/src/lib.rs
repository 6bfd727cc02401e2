//! What controller and agents say to each other: identifiers, the snapshot, its codec and the session.
mod canonical;
mod check;
mod codec;
mod digest;
mod feed;
mod file;
#[cfg(test)]
mod fixture;
mod ids;
mod message;
mod session;
mod snapshot;
mod snapshot_file;
pub mod transport;
mod update;

pub use canonical::{Canonical, affinity, canonical};
pub use check::{CheckError, MAX_SLOTS};
pub use codec::{DecodeError, MAX_ENGINES, MAX_MESSAGE, MAX_SERVICES, MAX_SLOT_BITS, MAX_TABLES, MAX_TEXT};
pub use digest::Digests;
pub use feed::Feed;
pub use file::{beside, replace_file};
pub use ids::{ClassId, EngineId, Epoch, FrontendId, GroupId, HostId, ModelId, ServiceId, SiteId};
pub use message::{
    DemandReport, Hello, HostOrders, MAX_AGENT_MESSAGE, Refusal, Refused, ServiceDemand, ToAgent,
    ToController,
};
pub use session::{AgentSession, ControllerSession, Event, Form, PROTOCOLS, Send, Step, Version};
pub use snapshot::{
    Candidate, EngineEntry, EngineState, Forwarding, KeyMode, Protocol, ServiceEntry, Snapshot, TableEntry,
    Vip,
};
pub use update::{
    ApplyError, Content, Delta, Head, Keyframe, Layout, Part, TableDelta, TableKeyframe, Touched,
    TouchedTable, Update,
};
