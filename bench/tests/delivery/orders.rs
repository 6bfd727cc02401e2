//! Break-glass: orders of a person on a host, with and without a controller, across restarts.
use std::{collections::BTreeSet, path::Path, time::Duration};

use penstock_agent::{
    admin::{Answer, Request, Status, ask},
    orders::{Order, Orders},
};
use penstock_bench::delivery::{
    lab::{Lab, publish},
    memory::Memory,
};
use penstock_controller::weights::Cause;
use penstock_wire::{Refusal, Snapshot};

use crate::wait::{for_agent, for_epoch, until};

const SLOTS: usize = 1 << 10;

fn question(socket: &Path, request: &Request) -> Answer {
    // The agent answers on another thread of the runtime.
    tokio::task::block_in_place(|| ask(socket, request)).unwrap()
}

fn order(socket: &Path, order: Order) -> Orders {
    match question(socket, &Request::Order { order }) {
        Answer::Orders(orders) => orders,
        other => panic!("{other:?}"),
    }
}

async fn status(socket: &Path) -> Status {
    until("the agent listens", || socket.exists().then_some(())).await;
    match question(socket, &Request::Status {}) {
        Answer::Status(status) => *status,
        other => panic!("{other:?}"),
    }
}

fn engines(snapshot: &Snapshot) -> BTreeSet<u16> {
    snapshot.tables[0].slots.iter().copied().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_host_installs_nothing_more_until_it_resumes() {
    let lab = Lab::new(1, 4, SLOTS).unwrap();
    let mut publisher = lab.controller(None, Duration::ZERO).await.unwrap();
    let mut agent = lab.agent("a-0", publisher.address(), Memory::new(0)).unwrap();
    let first = publish(&mut publisher, &lab, &lab.weights(&[1.0; 4], Cause::Routine)).unwrap().unwrap();
    for_epoch(&mut agent.in_force, first.epoch).await;
    let socket = agent.config.admin_socket.clone();

    assert!(order(&socket, Order::Freeze).frozen.is_some());
    let shifted = lab.weights(&[1.25, 0.75, 1.0, 1.0], Cause::Routine);
    let second = publish(&mut publisher, &lab, &shifted).unwrap().unwrap();

    let refused = for_agent(&publisher, "a-0", |agent| agent.last_refusal.is_some()).await;
    assert_eq!(refused.last_refusal.unwrap().reason, Refusal::Held);
    assert_eq!(agent.in_force.borrow().as_ref().unwrap().epoch, first.epoch);
    assert_eq!(status(&socket).await.orders.lines().len(), 1);
    assert_eq!(order(&socket, Order::Resume), Orders::default());
    for_epoch(&mut agent.in_force, second.epoch).await;
    agent.stop().await.unwrap();
    publisher.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pin_lasts_over_updates_and_restarts_and_resume_brings_the_tables_back() {
    let lab = Lab::new(1, 4, SLOTS).unwrap();
    let mut publisher = lab.controller(None, Duration::ZERO).await.unwrap();
    let maps = Memory::new(0);
    let mut agent = lab.agent("a-0", publisher.address(), maps.clone()).unwrap();
    let first = publish(&mut publisher, &lab, &lab.weights(&[1.0; 4], Cause::Routine)).unwrap().unwrap();
    let normal = for_epoch(&mut agent.in_force, first.epoch).await;
    let socket = agent.config.admin_socket.clone();
    let pinned = normal.engines.iter().find(|engine| engine.id.as_str() == "e2").unwrap().index;

    order(&socket, Order::Pin { service: "chat".into(), engine: "e2".into() });
    assert_eq!(engines(agent.in_force.borrow().as_ref().unwrap()), BTreeSet::from([pinned]));
    let shifted = lab.weights(&[1.25, 0.75, 1.0, 1.0], Cause::Routine);
    let second = publish(&mut publisher, &lab, &shifted).unwrap().unwrap();
    let steered = for_epoch(&mut agent.in_force, second.epoch).await;
    assert_eq!(engines(&steered), BTreeSet::from([pinned]));
    for_agent(&publisher, "a-0", |agent| agent.installed == Some(second.epoch)).await;
    agent.stop().await.unwrap();
    // The maps are gone, as after a restart of the host.
    let mut agent = lab.agent("a-0", publisher.address(), Memory::new(0)).unwrap();

    let steered = for_epoch(&mut agent.in_force, second.epoch).await;
    assert_eq!(engines(&steered), BTreeSet::from([pinned]));
    assert_eq!(status(&socket).await.orders.pinned.len(), 1);
    order(&socket, Order::Resume);
    assert_eq!(agent.in_force.borrow().as_ref().unwrap().tables, second.snapshots[0].tables);
    agent.stop().await.unwrap();
    publisher.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_work_with_the_controller_dead() {
    let lab = Lab::new(1, 4, SLOTS).unwrap();
    let mut publisher = lab.controller(None, Duration::ZERO).await.unwrap();
    let mut agent = lab.agent("a-0", publisher.address(), Memory::new(0)).unwrap();
    let uneven = lab.weights(&[1.0, 0.0, 0.0, 0.0], Cause::Routine);
    let first = publish(&mut publisher, &lab, &uneven).unwrap().unwrap();
    let normal = for_epoch(&mut agent.in_force, first.epoch).await;
    assert_eq!(engines(&normal).len(), 1);
    publisher.shutdown().await;
    let socket = agent.config.admin_socket.clone();

    order(&socket, Order::Nearest);
    // All four engines are at one site, hence equally near.
    let nearest = agent.in_force.borrow().clone().unwrap();
    assert_eq!(nearest.tables[0].counts().iter().map(|(_, count)| *count).collect::<Vec<_>>(), [256; 4]);
    order(&socket, Order::Detach);
    assert!(agent.in_force.borrow().is_none());
    agent.stop().await.unwrap();
    let agent = lab.agent("a-0", ([127, 0, 0, 1], 9).into(), Memory::new(0)).unwrap();

    let orders = status(&socket).await.orders;
    assert!(orders.detached.is_some() && orders.nearest.is_some());
    assert!(agent.in_force.borrow().is_none());
    order(&socket, Order::Resume);
    assert_eq!(agent.in_force.borrow().clone().unwrap().tables, normal.tables);
    agent.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_cannot_be_kept_or_carried_out_changes_nothing() {
    let lab = Lab::new(1, 4, SLOTS).unwrap();
    let mut publisher = lab.controller(None, Duration::ZERO).await.unwrap();
    let mut agent = lab.agent("a-0", publisher.address(), Memory::new(0)).unwrap();
    let first = publish(&mut publisher, &lab, &lab.weights(&[1.0; 4], Cause::Routine)).unwrap().unwrap();
    let before = for_epoch(&mut agent.in_force, first.epoch).await;
    let socket = agent.config.admin_socket.clone();
    std::os::unix::fs::symlink("/dev/full", agent.config.state_dir.join("orders.json.new")).unwrap();

    for (asked, reason) in [
        (Order::Pin { service: "mail".into(), engine: "e1".into() }, "there is no service mail"),
        (
            Order::Pin { service: "chat".into(), engine: "e9".into() },
            "engine e9 is no candidate of class chat",
        ),
        (Order::Nearest, "keeping the order"),
    ] {
        let error =
            tokio::task::block_in_place(|| ask(&socket, &Request::Order { order: asked })).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
    }

    assert_eq!(status(&socket).await.orders, Orders::default());
    assert_eq!(agent.in_force.borrow().as_ref(), Some(&before));
    agent.stop().await.unwrap();
    publisher.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_that_cannot_be_read_freeze_the_host() {
    let lab = Lab::new(1, 4, SLOTS).unwrap();
    let config = lab.agent_config("a-0", ([127, 0, 0, 1], 9).into());
    std::fs::create_dir_all(&config.state_dir).unwrap();
    std::fs::write(config.state_dir.join("orders.json"), "{").unwrap();

    let agent = lab.agent("a-0", ([127, 0, 0, 1], 9).into(), Memory::new(0)).unwrap();

    assert_eq!(status(&agent.config.admin_socket).await.orders.frozen, Some(0));
    order(&agent.config.admin_socket, Order::Resume);
    assert_eq!(status(&agent.config.admin_socket).await.orders, Orders::default());
    agent.stop().await.unwrap();
}
