//! The harness itself: its links carry bulk traffic unharmed, its WAN delays, and it leaves nothing behind.
#![expect(clippy::unwrap_used, reason = "a suite stops at its first failure")]
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use penstock_tests::{
    End, Run, WanLink,
    bulk::{self, BulkServer, Transfer},
};

const ONE_WAY: Duration = Duration::from_millis(20);
const TEN_MEGABYTES: usize = 10_000_000;

fn v6(low: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0, 0, 1, 0, 0, 0, low)
}

/// Two namespaces across the WAN.
fn wan() -> (Run, penstock_tests::Netns, penstock_tests::Netns) {
    let mut run = Run::start("harness").unwrap();
    let near = run.namespace("near").unwrap();
    let far = run.namespace("far").unwrap();
    let ends = [
        End::new(&near, "w0").v4(Ipv4Addr::new(10, 9, 0, 1), 24).v6(v6(1), 64),
        End::new(&far, "w0").v4(Ipv4Addr::new(10, 9, 0, 2), 24).v6(v6(2), 64),
    ];
    run.wan(&[WanLink { ends, one_way: ONE_WAY }]).unwrap();
    (run, near, far)
}

#[test]
fn ten_megabytes_cross_the_wan_in_both_directions_and_families() {
    let (run, near, far) = wan();
    let _server = BulkServer::start(&far, 8000, "far").unwrap();
    let expected = Transfer { server: "far".to_owned(), bytes: TEN_MEGABYTES };

    for address in [IpAddr::V4(Ipv4Addr::new(10, 9, 0, 2)), IpAddr::V6(v6(2))] {
        let to = SocketAddr::new(address, 8000);
        assert_eq!(bulk::get(&near, to, TEN_MEGABYTES).unwrap(), expected);
        assert_eq!(bulk::post(&near, to, TEN_MEGABYTES).unwrap(), expected);
    }

    let counters = run.wan_counters().next().unwrap();
    assert_eq!(counters.dropped_frames.load(Ordering::Relaxed), 0);
}

#[test]
fn an_exchange_across_the_wan_takes_no_less_than_its_round_trips() {
    let (_run, near, far) = wan();
    let _server = BulkServer::start(&far, 8000, "far").unwrap();
    let start = Instant::now();

    bulk::get(&near, SocketAddr::new(IpAddr::V6(v6(2)), 8000), 1).unwrap();

    // One round trip for the connection, one for the request.
    assert!(start.elapsed() >= 4 * ONE_WAY, "{:?}", start.elapsed());
}

#[test]
fn a_router_passes_ten_megabytes_between_two_links_with_xdp_offload_settings() {
    let mut run = Run::start("harness").unwrap();
    let client = run.namespace("client").unwrap();
    let router = run.namespace("router").unwrap();
    let server = run.namespace("server").unwrap();
    router.forward().unwrap();
    run.link(
        &End::new(&client, "c0").v4(Ipv4Addr::new(10, 9, 1, 2), 24).faces_xdp(),
        &End::new(&router, "r0").v4(Ipv4Addr::new(10, 9, 1, 1), 24),
    )
    .unwrap();
    run.link(
        &End::new(&server, "s0").v4(Ipv4Addr::new(10, 9, 2, 2), 24).faces_xdp(),
        &End::new(&router, "r1").v4(Ipv4Addr::new(10, 9, 2, 1), 24),
    )
    .unwrap();
    client.ip("route add default via 10.9.1.1").unwrap();
    server.ip("route add default via 10.9.2.1").unwrap();
    let _server = BulkServer::start(&server, 8000, "behind").unwrap();
    let to = SocketAddr::from(([10, 9, 2, 2], 8000));

    let transfer = bulk::post(&client, to, TEN_MEGABYTES).unwrap();

    assert_eq!(transfer, Transfer { server: "behind".to_owned(), bytes: TEN_MEGABYTES });
}

#[test]
fn a_run_that_ends_leaves_no_namespace_process_or_folder() {
    let mut run = Run::start("harness").unwrap();
    let netns = run.namespace("only").unwrap();
    let sleeper = run.spawn("sleeper", Some(&netns), Path::new("/bin/sleep"), &["600".to_owned()]).unwrap();
    let pid = run.process(sleeper).id();
    let folder = run.folder().to_owned();
    let name = netns.name().to_owned();
    assert!(Path::new("/run/netns").join(&name).exists());

    drop(run);

    assert!(!Path::new("/run/netns").join(&name).exists());
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    assert!(!folder.exists());
}
