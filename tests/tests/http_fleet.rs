//! The HTTP door beside the packet door, on the same hosts and the same tables in the kernel.
#![expect(clippy::unwrap_used, reason = "a suite stops at its first failure")]
mod http;

use std::{
    collections::BTreeSet,
    fs,
    net::{Ipv6Addr, SocketAddr},
    path::Path,
};

use http::raw::{Client, Response};
use penstock_bench::testbed::{
    control::HTTP_PORT,
    fleet::{Options, Testbed},
};
use penstock_controller::fleet::settings::PolicyName;
use penstock_tests::Netns;
use penstock_wire::Vip;

const KEYS: u64 = 20;

/// Asks from a namespace; a short answer.
fn ask(netns: &Netns, address: SocketAddr, headers: &str, model: &str) -> Response {
    let body = format!(
        "{{\"model\":\"{model}\",\"max_tokens\":1,\"messages\":[{{\"role\":\"user\",\"content\":\"q\"}}]}}"
    );
    let length = body.len();
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: door\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n{headers}\r\n{body}"
    );
    netns
        .enter(|| {
            let mut client = Client::connect(address);
            client.send(request.as_bytes());
            client.response()
        })
        .unwrap()
}

#[test]
fn a_conversation_reaches_the_same_engine_through_the_packet_door_and_the_http_door() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let text = fs::read_to_string(root.join("examples/talk.toml")).unwrap();
    let options = Options { scale: 1.0, round_trips: None, stream_interval: 1, engine_speed: 100.0 };
    let mut testbed = Testbed::build("doors", &text, options).unwrap();
    let control = testbed.start_control("doors", PolicyName::Optimizer, None).unwrap();
    let class = testbed.fleet.classes[0].clone();
    let (prefix, port) = testbed
        .fleet
        .services
        .iter()
        .find_map(|service| match service.vip {
            Vip::V6Prefix(prefix) if service.class == class.id => Some((prefix, service.port)),
            _ => None,
        })
        .unwrap();

    let (mut engines, mut compared) = (BTreeSet::new(), 0);
    for node in &testbed.setup.network.clients {
        let host = testbed.setup.network.hosts.iter().find(|host| host.frontend == node.frontend).unwrap();
        for n in 0..KEYS {
            let key = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let vip = SocketAddr::from((Ipv6Addr::from(u128::from(prefix) | u128::from(key)), port));
            let headers = format!("x-conversation-id: {key:016x}\r\nx-penstock-decision: 1\r\n");
            let door = SocketAddr::from(([127, 0, 0, 1], HTTP_PORT));
            let before = ask(&host.netns, door, &headers, class.model.as_str());
            let packet = ask(&node.netns, vip, "", class.model.as_str());
            let after = ask(&host.netns, door, &headers, class.model.as_str());
            let decision = before.header("x-penstock-decision").unwrap();
            // Weights still follow the first measured demand. A table that changed in between tells nothing, and in a
            // slot that moves a conversation stays where this door served it.
            if after.header("x-penstock-decision") != Some(decision) || !decision.contains("why=slot") {
                continue;
            }
            let engine = packet.header("x-engine-id").unwrap().to_owned();
            assert_eq!(
                after.header("x-engine-id"),
                Some(engine.as_str()),
                "key {key:016x} at {}",
                node.frontend
            );
            compared += 1;
            engines.insert(engine);
        }
    }

    assert!(engines.len() > 3, "{engines:?}");
    assert!(compared > 3 * KEYS / 2, "only {compared} keys were comparable");
    testbed.stop_control(control).unwrap();
}
