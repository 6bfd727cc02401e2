//! Waves, rollback, shadow and older peers.
use std::time::Duration;

use penstock_bench::delivery::{
    lab::{Agent, Lab, publish, tls_in},
    memory::Memory,
};
use penstock_controller::{publish::Publisher, weights::Cause};
use penstock_wire::{
    Epoch, ToAgent,
    transport::{CONTROLLER_NAME, client_config_offering, read_message, version_of, write_message},
};
use quinn::{ConnectionError, Endpoint};

use crate::wait::{BETWEEN_LOOKS, DEADLINE, for_agent, for_epoch};

const SLOTS: usize = 1 << 10;
const DAY: Duration = Duration::from_secs(86_400);

/// Agents of hosts `a-0` and so on, all with a first epoch.
async fn started(lab: &Lab, publisher: &mut Publisher, paths: Vec<Memory>) -> (Vec<Agent>, Epoch) {
    let agents = paths.into_iter().enumerate();
    let mut agents: Vec<_> = agents
        .map(|(host, path)| lab.agent(&format!("a-{host}"), publisher.address(), path).unwrap())
        .collect();
    let first = publish(publisher, lab, &lab.weights(&[1.0; 4], Cause::Routine)).unwrap().unwrap();
    for agent in &mut agents {
        for_epoch(&mut agent.in_force, first.epoch).await;
        for_agent(publisher, agent.config.host.as_str(), |agent| agent.installed == Some(first.epoch)).await;
    }
    (agents, first.epoch)
}

fn epochs(agents: &[Agent]) -> Vec<Epoch> {
    agents.iter().map(|agent| agent.in_force.borrow().as_ref().unwrap().epoch).collect()
}

/// Drives the waves, as the control loop does, until `done`.
async fn drive_until(publisher: &mut Publisher, what: &str, mut done: impl FnMut(&Publisher) -> bool) {
    let deadline = tokio::time::Instant::now() + DEADLINE;
    while !done(publisher) {
        assert!(tokio::time::Instant::now() < deadline, "{what}: not in time");
        publisher.drive().unwrap();
        tokio::time::sleep_until(tokio::time::Instant::now() + BETWEEN_LOOKS).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_routine_publication_reaches_one_host_first_and_a_failure_reaches_all() {
    let lab = Lab::new(3, 4, SLOTS).unwrap();
    let mut publisher = lab.controller(None, Duration::ZERO).await.unwrap();
    let (mut agents, first) = started(&lab, &mut publisher, (0..3).map(|_| Memory::new(0)).collect()).await;

    let shifted = lab.weights(&[1.25, 0.75, 1.0, 1.0], Cause::Routine);
    let second = publish(&mut publisher, &lab, &shifted).unwrap().unwrap().epoch;
    drive_until(&mut publisher, "canary", |publisher| {
        publisher.agents().iter().filter(|agent| agent.installed == Some(second)).count() == 1
    })
    .await;
    assert_eq!(publisher.on_its_way(), Some(second));
    // Another routine one would start the waves anew; it waits for its turn.
    let later = lab.weights(&[1.0, 1.25, 0.75, 1.0], Cause::Routine);
    assert!(publish(&mut publisher, &lab, &later).unwrap().is_none());
    assert_eq!(epochs(&agents).iter().filter(|epoch| **epoch == first).count(), 2);
    let failure = lab.weights(&[0.0, 1.0, 1.0, 1.0], Cause::Failure);
    let third = publish(&mut publisher, &lab, &failure).unwrap().unwrap().epoch;

    // Nobody drives: the failure needs no waves.
    for agent in &mut agents {
        for_epoch(&mut agent.in_force, third).await;
    }
    let fourth = publish(&mut publisher, &lab, &lab.weights(&[0.2, 1.0, 1.0, 1.0], Cause::Routine))
        .unwrap()
        .unwrap()
        .epoch;
    drive_until(&mut publisher, "all waves", |publisher| {
        publisher.agents().iter().all(|agent| agent.installed == Some(fourth))
    })
    .await;
    for agent in agents {
        agent.stop().await.unwrap();
    }
    publisher.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publication_that_the_first_host_cannot_install_is_taken_back() {
    let lab = Lab::new(3, 4, SLOTS).unwrap();
    let mut publisher = lab.controller(None, Duration::ZERO).await.unwrap();
    // No host installs a second snapshot that is not marked as an answer to a failure.
    let paths = (0..3).map(|_| Memory::new(0).with_room_for(1)).collect();
    let (agents, first) = started(&lab, &mut publisher, paths).await;
    let before = agents[0].in_force.borrow().clone().unwrap();

    let shifted = lab.weights(&[1.25, 0.75, 1.0, 1.0], Cause::Routine);
    let second = publish(&mut publisher, &lab, &shifted).unwrap().unwrap().epoch;
    drive_until(&mut publisher, "taken back", |publisher| publisher.epoch() > second).await;

    let third = publisher.epoch();
    for agent in agents {
        let mut in_force = agent.in_force.clone();
        let after = for_epoch(&mut in_force, third).await;
        assert_eq!(after.tables, before.tables);
        agent.stop().await.unwrap();
    }
    assert!(first < second && second < third);
    publisher.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollback_publishes_old_content_as_a_new_epoch_and_holds_until_released() {
    let lab = Lab::new(1, 4, SLOTS).unwrap();
    let address = lab.free_address().unwrap();
    let mut publisher = lab.controller(Some(address), Duration::ZERO).await.unwrap();
    let (mut agents, first) = started(&lab, &mut publisher, vec![Memory::new(0)]).await;
    let before = agents[0].in_force.borrow().clone().unwrap();
    let shifted = lab.weights(&[1.25, 0.75, 1.0, 1.0], Cause::Routine);
    let second = publish(&mut publisher, &lab, &shifted).unwrap().unwrap();
    for_epoch(&mut agents[0].in_force, second.epoch).await;

    assert!(publisher.rollback(Epoch(first.0 + 1000)).is_err());
    let rollback = publisher.rollback(first).unwrap();

    let after = for_epoch(&mut agents[0].in_force, rollback.epoch).await;
    assert_eq!((&after.tables, rollback.moved_slots), (&before.tables, second.moved_slots));
    assert!(publish(&mut publisher, &lab, &shifted).unwrap().is_none());
    // The hold survives a restart.
    publisher.shutdown().await;
    let mut publisher = lab.controller(Some(address), Duration::ZERO).await.unwrap();
    assert_eq!(publisher.rolled_back(), Some(first));
    assert!(publish(&mut publisher, &lab, &shifted).unwrap().is_none());
    publisher.release().unwrap();
    let next = publish(&mut publisher, &lab, &shifted).unwrap().unwrap();
    assert!(next.epoch > rollback.epoch);
    assert_eq!(publisher.epochs().unwrap(), [first, second.epoch, rollback.epoch, next.epoch]);
    for agent in agents {
        agent.stop().await.unwrap();
    }
    publisher.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shadow_publishes_nothing_and_writes_nothing() {
    let lab = Lab::new(1, 4, SLOTS).unwrap();
    let address = lab.free_address().unwrap();
    let mut publisher = lab.controller(Some(address), Duration::ZERO).await.unwrap();
    let (agents, first) = started(&lab, &mut publisher, vec![Memory::new(0)]).await;
    publisher.shutdown().await;
    let ledger = std::fs::read(lab.state_dir().join("ledger.json")).unwrap();

    let mut shadow = lab.shadow(address, DEADLINE).await.unwrap();
    let shifted = lab.weights(&[1.25, 0.75, 1.0, 1.0], Cause::Routine);

    for_agent(&shadow, "a-0", |agent| agent.connected).await;
    assert!(publish(&mut shadow, &lab, &shifted).unwrap().is_none());
    assert_eq!(epochs(&agents), [first]);
    assert_eq!(std::fs::read(lab.state_dir().join("ledger.json")).unwrap(), ledger);
    for agent in agents {
        agent.stop().await.unwrap();
    }
    shadow.shutdown().await;
}

#[tokio::test]
async fn an_older_neighbour_is_served_and_a_stranger_refused_clearly() {
    let lab = Lab::new(1, 4, SLOTS).unwrap();
    let mut publisher = lab.controller(None, Duration::ZERO).await.unwrap();
    publish(&mut publisher, &lab, &lab.weights(&[1.0; 4], Cause::Routine)).unwrap();
    lab.issue_agent("ca", "a-1", "A", DAY).unwrap();
    let credentials = tls_in(&lab.path("a-1")).load().unwrap();
    let endpoint = Endpoint::client(([127, 0, 0, 1], 0).into()).unwrap();
    let connect = |protocol: &'static [u8]| {
        let settings = client_config_offering(&credentials, &[protocol]).unwrap();
        endpoint.connect_with(settings, publisher.address(), CONTROLLER_NAME).unwrap()
    };
    // The greeting of host a-1 at frontend A with nothing held, as version 1 wrote it.
    let recorded =
        [0x01, 0x03, b'a', b'-', b'1', 0x01, b'A', 0x00, 0x6e, 0x04, 0xef, 0x75, 0xd3, 0x0a, 0xc9, 0x9f];

    let older = connect(b"penstock/1").await.unwrap();
    assert_eq!(version_of(&older), Some(penstock_wire::Version::V1));
    let (mut send, mut receive) = older.open_bi().await.unwrap();
    write_message(&mut send, &recorded).await.unwrap();
    let answer = read_message(&mut receive, 1 << 20).await.unwrap().unwrap();
    let stranger = connect(b"penstock/3").await.unwrap_err();

    assert!(matches!(ToAgent::decode(&answer).unwrap(), ToAgent::Update(_)));
    // Alert 120: no application protocol in common.
    let ConnectionError::ConnectionClosed(close) = &stranger else { panic!("{stranger}") };
    assert_eq!(u64::from(close.error_code), 0x100 + 120);
    publisher.shutdown().await;
}
