//! What controller and agents say to each other: identifiers, the snapshot, its codec and the session.
mod ids;
mod snapshot;

pub use ids::{ClassId, EngineId, Epoch, FrontendId, GroupId, HostId, ModelId, ServiceId, SiteId};
pub use snapshot::{
    Candidate, EngineEntry, EngineState, Forwarding, KeyMode, Protocol, ServiceEntry, Snapshot, TableEntry,
    Vip,
};
