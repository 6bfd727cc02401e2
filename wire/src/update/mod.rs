//! From one state of a frontend to another: a keyframe (from nothing) or a delta (from a held epoch).
//!
//! Weights are not sent: a published table's weights are its slot counts, see [`TableEntry::from_slots`]. A keyframe's
//! table is a patch on the table that the receiver computes from the counts alone, or the whole table where that is
//! smaller or where the two sides do not compute the same.
mod bytes;
mod delta;
mod keyframe;
mod table;
#[cfg(test)]
mod tests;
mod touched;

pub(crate) use bytes::{get_update, put_update};
pub use delta::{Delta, TableDelta};
pub use keyframe::{Keyframe, Layout, TableKeyframe};
pub use touched::{Touched, TouchedTable};

use std::fmt;

use crate::{Canonical, CheckError, ClassId, Digests, Epoch, FrontendId, Snapshot};

/// The parts of a snapshot that change only when the fleet is set up anew.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Head {
    pub frontend: FrontendId,
    pub secret: [u8; 16],
    pub nat_prefix: Option<[u8; 4]>,
}

impl Head {
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        Self { frontend: snapshot.frontend.clone(), secret: snapshot.secret, nat_prefix: snapshot.nat_prefix }
    }
}

/// What leads from the base (or nothing) to the state of `epoch`, with the hashes of that state.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Update {
    pub epoch: Epoch,
    pub failure_handling: bool,
    pub digests: Digests,
    pub content: Content,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Content {
    Keyframe(Keyframe),
    Delta(Delta),
}

/// Why an update does not lead to a state. The held one stays in force.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ApplyError {
    #[error("the update starts from epoch {base}, held is {}", held.map_or("nothing".to_owned(), |e| e.to_string()))]
    OtherBase { base: Epoch, held: Option<Epoch> },
    #[error("the update changes table {table}, there are {count}")]
    UnknownTable { table: u16, count: usize },
    #[error("a slot of class {class} names candidate {position}, there are {count}")]
    UnknownCandidate { class: ClassId, position: u16, count: usize },
    #[error("class {class} has {slots} slots, the update names slot {slot}")]
    UnknownSlot { class: ClassId, slots: usize, slot: u32 },
    #[error("slot counts of class {class} sum to {sum}, not to its {slots} slots")]
    CountSum { class: ClassId, sum: u64, slots: usize },
    #[error("no table of class {class} can be computed from the counts")]
    NoCanonical { class: ClassId },
    /// Lost or damaged state on one side: a keyframe repairs it.
    #[error("the result's hash differs from the sender's in {part}")]
    DigestMismatch { part: Part },
    #[error("the result is not a valid snapshot")]
    Invalid(#[from] CheckError),
}

/// What a hash covers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Part {
    /// Everything but slots.
    Meta,
    Table(ClassId),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Meta => f.write_str("engines, services or candidates"),
            Self::Table(class) => write!(f, "the table of class {class}"),
        }
    }
}

impl Update {
    /// A whole state. With `canonical`, tables are patches on what it computes where that is smaller.
    pub fn keyframe(snapshot: &Snapshot, digests: &Digests, canonical: Option<Canonical>) -> Self {
        Self::to(snapshot, digests, Content::Keyframe(Keyframe::of(snapshot, canonical)))
    }

    /// The way to `snapshot` from the state of `base`, where `touched` covers all that differs between the two.
    /// `None` if only a keyframe leads there.
    pub fn delta(base: Epoch, snapshot: &Snapshot, digests: &Digests, touched: &Touched) -> Option<Self> {
        let delta = Delta::of(base, snapshot, touched)?;
        Some(Self::to(snapshot, digests, Content::Delta(delta)))
    }

    fn to(snapshot: &Snapshot, digests: &Digests, content: Content) -> Self {
        let failure_handling = snapshot.failure_handling;
        Self { epoch: snapshot.epoch, failure_handling, digests: digests.clone(), content }
    }

    /// The epoch that the receiver must hold; `None` for a keyframe.
    pub fn base(&self) -> Option<Epoch> {
        match &self.content {
            Content::Keyframe(_) => None,
            Content::Delta(delta) => Some(delta.base),
        }
    }

    /// The state that this update leads to, checked and with equal hashes on both sides.
    pub fn apply(self, held: Option<&Snapshot>, canonical: Canonical) -> Result<Snapshot, ApplyError> {
        let (epoch, failure_handling) = (self.epoch, self.failure_handling);
        let mut snapshot = match self.content {
            Content::Keyframe(keyframe) => keyframe.into_snapshot(canonical)?,
            Content::Delta(delta) => {
                let held_epoch = held.map(|snapshot| snapshot.epoch);
                match held.filter(|snapshot| snapshot.epoch == delta.base) {
                    Some(held) => delta.onto(held.clone())?,
                    None => return Err(ApplyError::OtherBase { base: delta.base, held: held_epoch }),
                }
            }
        };
        snapshot.epoch = epoch;
        snapshot.failure_handling = failure_handling;
        snapshot.check_published()?;
        compare(&self.digests, &Digests::of(&snapshot), &snapshot)?;
        Ok(snapshot)
    }
}

/// Finds the part whose hash differs.
fn compare(sent: &Digests, computed: &Digests, snapshot: &Snapshot) -> Result<(), ApplyError> {
    if sent.meta != computed.meta {
        return Err(ApplyError::DigestMismatch { part: Part::Meta });
    }
    if sent.tables.len() != computed.tables.len() {
        return Err(ApplyError::DigestMismatch { part: Part::Meta });
    }
    let differing = sent.tables.iter().zip(&computed.tables).position(|(sent, computed)| sent != computed);
    match differing {
        Some(table) => {
            Err(ApplyError::DigestMismatch { part: Part::Table(snapshot.tables[table].class.clone()) })
        }
        None => Ok(()),
    }
}

fn slot_at<'a>(slots: &'a mut [u16], class: &ClassId, slot: u32) -> Result<&'a mut u16, ApplyError> {
    let count = slots.len();
    let found = slots.get_mut(slot as usize);
    found.ok_or_else(|| ApplyError::UnknownSlot { class: class.clone(), slots: count, slot })
}

fn candidate_at(engines: &[u16], class: &ClassId, position: u16) -> Result<u16, ApplyError> {
    let found = engines.get(usize::from(position)).copied();
    let unknown = || ApplyError::UnknownCandidate { class: class.clone(), position, count: engines.len() };
    found.ok_or_else(unknown)
}
