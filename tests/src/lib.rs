//! Integration suites and their harness: namespaces, links, a WAN, and the processes in them.
//!
//! A [`Run`] owns all that it makes and removes it when it is dropped; a later run removes what a crash left.
pub mod bulk;
mod device;
mod error;
mod link;
mod netns;
mod process;
pub mod prog_run;
mod record;
mod relay;
mod run;
mod wait;

pub use error::HarnessError;
pub use link::End;
pub use netns::Netns;
pub use process::Process;
pub use relay::RelayCounters;
pub use run::{ProcessId, Run, WanLink};
pub use wait::eventually;
