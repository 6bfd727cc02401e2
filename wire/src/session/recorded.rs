//! Bytes of peers, written down when their version was the newest: what neighbours must go on understanding.
use crate::{DemandReport, Epoch, Hello, HostOrders, PROTOCOLS, ServiceDemand, ToController, Version};

const HELLO_1: &str = "0103612d31014101878080808080c0010807060504030201ee0c40564193afa5";
const DEMAND_1: &str = "04e8070104636861745a0addf1377d198cdf";
const HELLO_2: &str = "0103612d31014101878080808080c0010807060504030201055ebefe446e5ff168";
const DEMAND_2: &str = "04e8070104636861745a036cadc08e98eb3e69";

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16).unwrap();
    let pairs = hexadecimal.as_bytes().chunks(2);
    pairs.map(|pair| u8::try_from(digit(pair[0]) << 4 | digit(pair[1])).unwrap()).collect()
}

fn hello(orders: HostOrders) -> ToController {
    let held = Some((Epoch(Epoch::start_of(3).0 + 7), 0x0102_0304_0506_0708));
    ToController::Hello(Hello { host: "a-1".into(), frontend: "A".into(), held, orders })
}

fn demand(refused: u64) -> ToController {
    let services = vec![ServiceDemand { service: "chat".into(), flows: 90, refused }];
    ToController::Demand(DemandReport { window_ms: 1000, services })
}

#[test]
fn an_older_peer_is_understood_and_understands_what_it_is_sent() {
    let orders = HostOrders { frozen: true, nearest: true, ..HostOrders::default() };

    assert_eq!(ToController::decode(&bytes(HELLO_1), Version::V1).unwrap(), hello(HostOrders::default()));
    assert_eq!(ToController::decode(&bytes(DEMAND_1), Version::V1).unwrap(), demand(0));
    // What version 1 has no field for is left out.
    assert_eq!(hello(orders).encode(Version::V1), bytes(HELLO_1));
    assert_eq!(demand(3).encode(Version::V1), bytes(DEMAND_1));
}

#[test]
fn this_version_stays_as_it_was_written_down() {
    let orders = HostOrders { frozen: true, nearest: true, ..HostOrders::default() };

    assert_eq!(hello(orders).encode(Version::V2), bytes(HELLO_2));
    assert_eq!(ToController::decode(&bytes(DEMAND_2), Version::V2).unwrap(), demand(3));
    assert!(ToController::decode(&bytes(HELLO_2), Version::V1).is_err());
}

#[test]
fn each_offered_protocol_has_a_version_and_the_first_is_the_newest() {
    let versions: Vec<_> = PROTOCOLS.iter().map(|name| Version::of_protocol(name)).collect();

    assert_eq!(versions, [Some(Version::NEWEST), Some(Version::V1)]);
    assert_eq!(Version::of_protocol(b"penstock/3"), None);
}
