//! Weight path, third stage: from weights to numbered snapshots with slot tables that have a history.
//!
//! The [`Ledger`] keeps what must outlive the process: the epoch, the fleet's secret, stable indexes, and every
//! frontend's tables. It is written to disk before anything of a new epoch leaves the controller.
mod indexes;
mod ledger;
mod rollback;
mod store;
mod table;

pub use indexes::IndexError;
pub use ledger::{Adopted, Ledger, OpenError, PlanError, Publication, Wanted};
pub use rollback::Shadow;
pub use store::StoreError;
