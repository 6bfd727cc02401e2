//! Slot tables: quotas, moves, canonical tables and fallbacks.
//!
//! Pure functions of their arguments, in integer and fixed-point arithmetic only, so that any two machines agree bit
//! by bit. Engines enter by the hash of their ids: neither the order in which they are given nor the indexes that
//! stand for them in a table change who serves a slot. `docs/tables.md` explains the method.
//!
//! The usual flow: [`quotas`] turns weights into whole slots, [`advance`] lists the moves from the table in force,
//! [`admit`] holds back what would exceed the transition limit, [`carry_fallbacks`] renews the fallbacks of the slots
//! that moved. [`canonical`] and [`fallbacks`] start without history; [`rederive`] is for agents whose engines die
//! faster than tables come.
#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod advance;
mod affinity;
mod candidates;
mod canonical;
mod fallback;
mod formers;
mod greedy;
mod key;
mod logarithm;
mod permutation;
mod quotas;
mod rederive;
mod slots;
mod transition;

pub use advance::{advance, advance_preferring};
pub use affinity::Affinity;
pub use candidates::{Candidate, Candidates, CandidatesError, WEIGHT_ONE, apportion};
pub use canonical::canonical;
pub use fallback::{carry_fallbacks, even_fallbacks, fallbacks};
pub use formers::Formers;
pub use key::EngineKey;
pub use quotas::{DeadBand, Quotas, QuotasError, quotas};
pub use rederive::{Reassignment, RederiveError, Survivor, rederive};
pub use slots::{Move, SizeMismatch, SlotTable, SlotTableError, TableHash, TableSize};
pub use transition::{Admitted, admit};
