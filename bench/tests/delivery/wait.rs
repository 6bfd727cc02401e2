//! Waiting for a state, with a deadline.
use std::{sync::Arc, time::Duration};

use penstock_bench::delivery::memory::InForce;
use penstock_controller::publish::{AgentStatus, Publisher};
use penstock_wire::{Epoch, Snapshot};
use tokio::time::{Instant, sleep_until, timeout};

pub(crate) const DEADLINE: Duration = Duration::from_secs(30);
pub(crate) const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// The snapshot in force once its epoch is at least `epoch`.
pub(crate) async fn for_epoch(in_force: &mut InForce, epoch: Epoch) -> Arc<Snapshot> {
    let reached = in_force.wait_for(|snapshot| snapshot.as_ref().is_some_and(|s| s.epoch >= epoch));
    let found = timeout(DEADLINE, reached).await.expect("the epoch comes into force in time").unwrap();
    Arc::clone(found.as_ref().unwrap())
}

/// Looks until `found` gives something.
pub(crate) async fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(value) = found() {
            return value;
        }
        assert!(Instant::now() < deadline, "{what}: not in time");
        sleep_until(Instant::now() + BETWEEN_LOOKS).await;
    }
}

/// The agent's status once it fulfils `condition`.
pub(crate) async fn for_agent(
    publisher: &Publisher,
    host: &str,
    condition: impl Fn(&AgentStatus) -> bool,
) -> AgentStatus {
    until(host, || {
        publisher.agents().into_iter().find(|agent| agent.host.as_str() == host && condition(agent))
    })
    .await
}
