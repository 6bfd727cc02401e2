//! A new host without a controller, and what an agent tells Prometheus.
use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use penstock_agent::config::{Config, Peers};
use penstock_bench::delivery::{
    lab::{Lab, publish},
    memory::Memory,
};
use penstock_controller::weights::Cause;

use crate::wait::{for_epoch, until};

const SLOTS: usize = 1 << 10;
const DAY: Duration = Duration::from_secs(86_400);
/// Nobody listens there.
const NOBODY: &str = "127.0.0.1:9";

fn taking_from(config: Config, peer: SocketAddr) -> Config {
    Config { peers: Peers { listen: None, from: vec![peer.to_string()] }, ..config }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_host_without_a_controller_takes_the_snapshot_from_a_host_of_its_frontend() {
    let lab = Lab::new(2, 4, SLOTS).unwrap();
    let mut publisher = lab.controller(None, Duration::ZERO).await.unwrap();
    let peer = lab.free_address().unwrap();
    lab.issue_agent("ca", "a-0", "A", DAY).unwrap();
    lab.issue_agent("ca", "a-1", "A", DAY).unwrap();
    lab.issue_agent("ca", "b-0", "B", DAY).unwrap();
    let giving = lab.agent_config("a-0", publisher.address());
    let giving = Config { peers: Peers { listen: Some(peer), from: vec![] }, ..giving };
    let mut giver = lab.agent_with(giving, Memory::new(0));
    let first = publish(&mut publisher, &lab, &lab.weights(&[1.0; 4], Cause::Routine)).unwrap().unwrap();
    let held = for_epoch(&mut giver.in_force, first.epoch).await;
    publisher.shutdown().await;

    let stranger = taking_from(lab.agent_config("b-0", NOBODY.parse().unwrap()), peer);
    let stranger = lab.agent_with(stranger, Memory::new(0));
    let new = taking_from(lab.agent_config("a-1", NOBODY.parse().unwrap()), peer);
    let mut new = lab.agent_with(new, Memory::new(0));

    assert_eq!(for_epoch(&mut new.in_force, first.epoch).await, held);
    until("saved", || new.config.state_dir.join("snapshot").exists().then_some(())).await;
    assert!(stranger.in_force.borrow().is_none(), "a host of another frontend gets nothing");
    for agent in [giver, new, stranger] {
        agent.stop().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_show_the_epoch_and_the_orders() {
    let lab = Lab::new(1, 4, SLOTS).unwrap();
    let mut publisher = lab.controller(None, Duration::ZERO).await.unwrap();
    lab.issue_agent("ca", "a-0", "A", DAY).unwrap();
    let metrics = lab.free_address().unwrap();
    let config = lab.agent_config("a-0", publisher.address());
    let mut agent = lab.agent_with(Config { metrics: Some(metrics), ..config }, Memory::new(0));
    let first = publish(&mut publisher, &lab, &lab.weights(&[1.0; 4], Cause::Routine)).unwrap().unwrap();
    for_epoch(&mut agent.in_force, first.epoch).await;

    let page = tokio::task::block_in_place(|| get(metrics, "/metrics"));
    let elsewhere = tokio::task::block_in_place(|| get(metrics, "/"));

    assert!(page.starts_with("HTTP/1.1 200 OK"), "{page}");
    for line in [
        format!("penstock_agent_epoch {}", first.epoch.0),
        "penstock_agent_connected 1".to_owned(),
        "penstock_agent_order{order=\"frozen\"} 0".to_owned(),
    ] {
        assert!(page.lines().any(|found| found == line), "{line} is not in {page}");
    }
    assert!(elsewhere.starts_with("HTTP/1.1 404"));
    agent.stop().await.unwrap();
    publisher.shutdown().await;
}

fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
