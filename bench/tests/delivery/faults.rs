//! Processes that end, disks that are empty, old or full, a network that loses.
use std::{fs, os::unix::fs::symlink, time::Duration};

use penstock_bench::delivery::{
    lab::{Lab, publish},
    memory::Memory,
    relay::Relay,
};
use penstock_controller::{publish::PublishError, snapshot::Ledger, weights::Cause};
use penstock_wire::Epoch;

use crate::wait::{DEADLINE, for_agent, for_epoch, until};

const SLOTS: usize = 1 << 12;
const NO_WAIT: Duration = Duration::ZERO;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshots_reach_every_agent_and_demand_comes_back() {
    let lab = Lab::new(2, 4, SLOTS).unwrap();
    let mut publisher = lab.controller(None, NO_WAIT).await.unwrap();
    let mut reports = publisher.take_reports().unwrap();
    let mut agents: Vec<_> = ["a-0", "a-1"]
        .map(|host| lab.agent(host, publisher.address(), Memory::new(100)).unwrap())
        .into_iter()
        .collect();

    let first = publish(&mut publisher, &lab, &lab.weights(&[1.0; 4], Cause::Routine)).unwrap().unwrap();
    for agent in &mut agents {
        for_epoch(&mut agent.in_force, first.epoch).await;
    }
    let shifted = lab.weights(&[1.25, 0.75, 1.0, 1.0], Cause::Failure);
    let second = publish(&mut publisher, &lab, &shifted).unwrap().unwrap();

    for agent in &mut agents {
        let snapshot = for_epoch(&mut agent.in_force, second.epoch).await;
        assert_eq!(snapshot, second.snapshots[0]);
        for_agent(&publisher, agent.config.host.as_str(), |status| status.installed == Some(second.epoch))
            .await;
    }
    assert_eq!(second.moved_slots, 256, "a sixteenth of 4,096 slots");
    let report = tokio::time::timeout(DEADLINE, reports.recv()).await.unwrap().unwrap();
    assert_eq!(report.report.services.len(), 1);
    for agent in agents {
        agent.stop().await.unwrap();
    }
    publisher.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_that_comes_back_goes_on_without_moving_a_slot() {
    let lab = Lab::new(1, 4, SLOTS).unwrap();
    let mut publisher = lab.controller(Some(lab.free_address().unwrap()), NO_WAIT).await.unwrap();
    let address = publisher.address();
    let mut agent = lab.agent("a-0", address, Memory::new(0)).unwrap();
    let weights = lab.weights(&[8.0, 4.0, 2.0, 2.0], Cause::Routine);
    let first = publish(&mut publisher, &lab, &weights).unwrap().unwrap();
    let before = for_epoch(&mut agent.in_force, first.epoch).await;

    publisher.shutdown().await;
    assert_eq!(agent.in_force.borrow().as_ref(), Some(&before));
    let mut publisher = lab.controller(Some(address), NO_WAIT).await.unwrap();

    assert!(publish(&mut publisher, &lab, &weights).unwrap().is_none(), "nothing changed");
    let changed = lab.weights(&[8.0, 4.0, 1.0, 3.0], Cause::Routine);
    let next = publish(&mut publisher, &lab, &changed).unwrap().unwrap();
    assert_eq!(next.epoch, first.epoch.next().unwrap());
    let after = for_epoch(&mut agent.in_force, next.epoch).await;
    let moved = before.tables[0].slots.iter().zip(&after.tables[0].slots).filter(|(a, b)| a != b).count();
    assert_eq!(moved, 256, "a sixteenth of 4,096 slots");
    agent.stop().await.unwrap();
    publisher.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_controller_takes_tables_and_secret_over_from_its_agents_in_a_later_term() {
    let lab = Lab::new(1, 4, SLOTS).unwrap();
    let mut publisher = lab.controller(Some(lab.free_address().unwrap()), NO_WAIT).await.unwrap();
    let address = publisher.address();
    let mut agent = lab.agent("a-0", address, Memory::new(0)).unwrap();
    publish(&mut publisher, &lab, &lab.weights(&[1.0; 4], Cause::Routine)).unwrap();
    let moved = lab.weights(&[1.25, 1.0, 1.0, 0.75], Cause::Routine);
    let last = publish(&mut publisher, &lab, &moved).unwrap().unwrap();
    let before = for_epoch(&mut agent.in_force, last.epoch).await;
    publisher.shutdown().await;
    fs::rename(lab.state_dir(), lab.path("lost")).unwrap();

    let mut publisher = lab.controller(Some(address), DEADLINE).await.unwrap();
    let next = publish(&mut publisher, &lab, &lab.weights(&[1.0; 4], Cause::Routine)).unwrap().unwrap();

    assert_eq!((last.epoch.term(), next.epoch.term()), (1, 2));
    let after = for_epoch(&mut agent.in_force, next.epoch).await;
    assert_eq!(after.secret, before.secret);
    let moved = before.tables[0].slots.iter().zip(&after.tables[0].slots).filter(|(a, b)| a != b).count();
    assert_eq!(moved, 256, "only what the weights ask for");
    agent.stop().await.unwrap();
    publisher.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_restored_from_a_backup_refuses_to_publish_and_names_the_remedy() {
    let lab = Lab::new(1, 4, SLOTS).unwrap();
    let mut publisher = lab.controller(Some(lab.free_address().unwrap()), NO_WAIT).await.unwrap();
    let address = publisher.address();
    let mut agent = lab.agent("a-0", address, Memory::new(0)).unwrap();
    publish(&mut publisher, &lab, &lab.weights(&[1.0; 4], Cause::Routine)).unwrap();
    let backup = fs::read(lab.state_dir().join("ledger.json")).unwrap();
    let moved = lab.weights(&[1.25, 1.0, 1.0, 0.75], Cause::Routine);
    let last = publish(&mut publisher, &lab, &moved).unwrap().unwrap();
    for_epoch(&mut agent.in_force, last.epoch).await;
    publisher.shutdown().await;
    fs::write(lab.state_dir().join("ledger.json"), backup).unwrap();

    let mut publisher = lab.controller(Some(address), NO_WAIT).await.unwrap();
    for_agent(&publisher, "a-0", |status| status.connected).await;
    let other = lab.weights(&[1.0, 1.0, 0.9, 1.1], Cause::Routine);
    let refused = until("refusal", || publish(&mut publisher, &lab, &other).err()).await;

    let PublishError::AgentsAhead { host, held, .. } = &refused else { panic!("{refused}") };
    assert_eq!((host.as_str(), *held), ("a-0", last.epoch));
    assert!(refused.to_string().contains("move it away and start again"));
    assert_eq!(agent.in_force.borrow().as_ref().unwrap().epoch, last.epoch);
    agent.stop().await.unwrap();
    publisher.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_starts_and_routes_from_its_disk_without_a_controller() {
    let lab = Lab::new(1, 4, SLOTS).unwrap();
    let mut publisher = lab.controller(None, NO_WAIT).await.unwrap();
    let address = publisher.address();
    let mut agent = lab.agent("a-0", address, Memory::new(0)).unwrap();
    let first = publish(&mut publisher, &lab, &lab.weights(&[1.0; 4], Cause::Routine)).unwrap().unwrap();
    let before = for_epoch(&mut agent.in_force, first.epoch).await;
    agent.stop().await.unwrap();
    publisher.shutdown().await;

    let mut agent = lab.agent("a-0", address, Memory::new(0)).unwrap();

    assert_eq!(for_epoch(&mut agent.in_force, first.epoch).await, before);
    agent.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_killed_before_it_saved_what_it_installed_catches_up() {
    let lab = Lab::new(1, 4, SLOTS).unwrap();
    let mut publisher = lab.controller(None, NO_WAIT).await.unwrap();
    let maps = Memory::new(0);
    let mut agent = lab.agent("a-0", publisher.address(), maps.clone()).unwrap();
    let first = publish(&mut publisher, &lab, &lab.weights(&[1.0; 4], Cause::Routine)).unwrap().unwrap();
    for_epoch(&mut agent.in_force, first.epoch).await;
    let state = agent.config.state_dir.clone();
    until("save", || fs::read(state.join("snapshot")).ok()).await;
    let saved = fs::read(state.join("snapshot")).unwrap();
    let shifted = lab.weights(&[1.25, 0.75, 1.0, 1.0], Cause::Routine);
    let second = publish(&mut publisher, &lab, &shifted).unwrap().unwrap();
    for_epoch(&mut agent.in_force, second.epoch).await;
    agent.kill().await;
    fs::write(state.join("snapshot"), saved).unwrap();

    let agent = lab.agent("a-0", publisher.address(), maps).unwrap();

    for_agent(&publisher, "a-0", |status| status.connected && status.installed == Some(second.epoch)).await;
    let third = publish(&mut publisher, &lab, &lab.weights(&[1.0; 4], Cause::Routine)).unwrap().unwrap();
    let status = for_agent(&publisher, "a-0", |status| status.installed == Some(third.epoch)).await;
    assert_eq!(status.mismatches, 0);
    agent.stop().await.unwrap();
    publisher.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_torn_snapshot_file_is_kept_aside_and_the_one_before_is_used() {
    let lab = Lab::new(1, 4, SLOTS).unwrap();
    let mut publisher = lab.controller(None, NO_WAIT).await.unwrap();
    let address = publisher.address();
    let mut agent = lab.agent("a-0", address, Memory::new(0)).unwrap();
    let first = publish(&mut publisher, &lab, &lab.weights(&[1.0; 4], Cause::Routine)).unwrap().unwrap();
    for_epoch(&mut agent.in_force, first.epoch).await;
    let state = agent.config.state_dir.clone();
    until("save", || state.join("snapshot").exists().then_some(())).await;
    let shifted = lab.weights(&[1.25, 0.75, 1.0, 1.0], Cause::Routine);
    publish(&mut publisher, &lab, &shifted).unwrap().unwrap();
    until("second save", || state.join("snapshot.previous").exists().then_some(())).await;
    agent.stop().await.unwrap();
    publisher.shutdown().await;
    let bytes = fs::read(state.join("snapshot")).unwrap();
    fs::write(state.join("snapshot"), &bytes[..bytes.len() / 2]).unwrap();

    let mut agent = lab.agent("a-0", address, Memory::new(0)).unwrap();

    assert_eq!(for_epoch(&mut agent.in_force, first.epoch).await.epoch, first.epoch);
    assert!(state.join("snapshot.damaged").exists());
    agent.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fifth_of_the_packets_lost_delays_but_stops_nothing() {
    let lab = Lab::new(1, 4, SLOTS).unwrap();
    let mut publisher = lab.controller(None, NO_WAIT).await.unwrap();
    let relay = Relay::start(publisher.address(), 20).await.unwrap();
    let mut agent = lab.agent("a-0", relay.address(), Memory::new(0)).unwrap();
    let mut newest = Epoch(0);
    for step in 0..20_u32 {
        let tilt = f64::from(step % 5) / 20.0;
        let weights = lab.weights(&[1.0 + tilt, 1.0 - tilt, 1.0, 1.0], Cause::Failure);
        newest = publish(&mut publisher, &lab, &weights).unwrap().map_or(newest, |published| published.epoch);
        for_epoch(&mut agent.in_force, newest).await;
    }

    let status = for_agent(&publisher, "a-0", |status| status.installed == Some(newest)).await;

    assert_eq!((status.lag.epochs, status.mismatches), (0, 0));
    agent.stop().await.unwrap();
    publisher.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_stops_the_controller_from_publishing_but_not_an_agent_from_installing() {
    let lab = Lab::new(1, 4, SLOTS).unwrap();
    let mut publisher = lab.controller(None, NO_WAIT).await.unwrap();
    let mut agent = lab.agent("a-0", publisher.address(), Memory::new(0)).unwrap();
    let first = publish(&mut publisher, &lab, &lab.weights(&[1.0; 4], Cause::Routine)).unwrap().unwrap();
    for_epoch(&mut agent.in_force, first.epoch).await;
    let state = agent.config.state_dir.clone();
    until("save", || state.join("snapshot").exists().then_some(())).await;
    let saved = fs::read(state.join("snapshot")).unwrap();
    let shifted = lab.weights(&[1.25, 0.75, 1.0, 1.0], Cause::Routine);

    // Whatever is written to this device meets a full disk.
    let full = lab.state_dir().join("ledger.json.new");
    symlink("/dev/full", &full).unwrap();
    let refused = publish(&mut publisher, &lab, &shifted).unwrap_err();
    assert!(matches!(refused, PublishError::Plan(_)), "{refused}");
    symlink("/dev/full", state.join("snapshot.next.new")).unwrap();
    let second = publish(&mut publisher, &lab, &shifted).unwrap().unwrap();

    assert_eq!(second.epoch, first.epoch.next().unwrap());
    for_epoch(&mut agent.in_force, second.epoch).await;
    let socket = agent.config.admin_socket.clone();
    let error = until("error in the status", || save_error(&socket)).await;
    assert!(error.contains("No space left"), "{error}");
    assert_eq!(fs::read(state.join("snapshot")).unwrap(), saved);
    agent.stop().await.unwrap();
    publisher.shutdown().await;
}

#[test]
fn a_damaged_publication_is_kept_aside_and_its_epoch_is_not_used_again() {
    let lab = Lab::new(1, 4, SLOTS).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let last = runtime.block_on(async {
        let mut publisher = lab.controller(None, NO_WAIT).await.unwrap();
        publish(&mut publisher, &lab, &lab.weights(&[1.0; 4], Cause::Routine)).unwrap();
        let shifted = lab.weights(&[1.25, 0.75, 1.0, 1.0], Cause::Routine);
        let last = publish(&mut publisher, &lab, &shifted).unwrap().unwrap();
        publisher.shutdown().await;
        last
    });
    let file = lab.state_dir().join("epochs").join(format!("{:020}.snapshots", last.epoch.0));
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();

    let (ledger, damaged) = Ledger::open(&lab.state_dir(), SLOTS).unwrap();

    assert_eq!(damaged.len(), 1);
    assert_eq!(ledger.epoch(), last.epoch);
    assert!(ledger.snapshots().all(|snapshot| snapshot.epoch < last.epoch));
}

fn save_error(socket: &std::path::Path) -> Option<String> {
    use penstock_agent::admin::{Answer, Request, ask};
    // The agent answers on another thread of the runtime.
    let answer = tokio::task::block_in_place(|| ask(socket, &Request::Status {}));
    match answer {
        Ok(Answer::Status(status)) => status.save_error,
        other => panic!("{other:?}"),
    }
}
