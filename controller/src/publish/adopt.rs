//! An empty controller asks its agents what they hold.
use std::{collections::BTreeSet, time::Duration};

use penstock_wire::{HostId, Snapshot};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};

use super::roster::{Answer, Roster, lock};

/// Answers that wait to be read; a further one is left aside, and its host counts as silent.
const ANSWERS: usize = 1024;

/// States of the agents that answered within `wait`; earlier if all of `hosts` did.
pub(super) async fn collect(roster: &Roster, hosts: &[HostId], wait: Duration) -> Vec<Snapshot> {
    let (sender, mut receiver) = mpsc::channel(ANSWERS);
    *lock(&roster.recovery) = Some(sender);
    let deadline = Instant::now() + wait;
    let mut missing: BTreeSet<&HostId> = hosts.iter().collect();
    let mut states = Vec::new();
    while !missing.is_empty() {
        match timeout_at(deadline, receiver.recv()).await {
            Ok(Some(Answer::State(host, snapshot))) => {
                missing.remove(&host);
                states.push(*snapshot);
            }
            Ok(Some(Answer::Nothing(host))) => {
                missing.remove(&host);
            }
            Ok(None) | Err(_) => break,
        }
    }
    *lock(&roster.recovery) = None;
    states
}
