//! Which engine serves a packet while its slot is in transition: DESIGN.md's table of packet against slot.
use penstock_agent::install::Divert;
use penstock_tests::prog_run::{
    Fleet, Lab,
    packet::{ACK, FIN, Packet, SYN},
};
use penstock_wire::{EngineState, Forwarding, KeyMode, Protocol, Vip};

const VIP4: (&str, u16) = ("198.51.100.1", 80);

/// The number of the engine that a TCP packet of the client's port goes to: the last byte of 10.2.0.x, less one.
fn engine_of(lab: &mut Lab, port: u16, flags: u8) -> u8 {
    let packet = Packet::tcp(("203.0.113.9", port), VIP4, flags);
    let outcome = lab.run(&packet.frame()).expect("a program that runs");
    assert_eq!(outcome.frame[30..33], [10, 2, 0], "port {port} is not forwarded: {:?}", outcome.verdict);
    outcome.frame[33] - 1
}

fn udp_engine_of(lab: &mut Lab, port: u16) -> u8 {
    let packet = Packet::udp(("203.0.113.9", port), VIP4);
    lab.run(&packet.frame()).expect("a program that runs").frame[33] - 1
}

#[test]
fn an_established_flow_stays_with_the_engine_before_the_change() {
    let mut lab = Lab::of(&Fleet::new().v4(Forwarding::Dnat)).unwrap();
    let moved = Fleet::new().v4(Forwarding::Dnat).all_to(1);

    lab.installer.install(&moved.snapshot).unwrap();

    assert_eq!(engine_of(&mut lab, 1000, ACK), 0, "a flow without a record: the origin");
    assert_eq!(engine_of(&mut lab, 2000, SYN), 1, "a new flow: the slot's engine");
    assert_eq!(engine_of(&mut lab, 2000, ACK), 1, "the new flow goes on");
    assert_eq!(engine_of(&mut lab, 1000, ACK), 0, "the old flow goes on");
}

#[test]
fn flows_of_three_engines_survive_a_way_there_on_and_back() {
    let mut lab = Lab::of(&Fleet::new().v4(Forwarding::Dnat)).unwrap();
    let mut fleet = Fleet::new().v4(Forwarding::Dnat);
    assert_eq!(engine_of(&mut lab, 1000, SYN), 0);
    for (engine, port) in [(1_u8, 1001), (2, 1002), (0, 1003)] {
        fleet = fleet.all_to(engine.into());
        lab.installer.install(&fleet.snapshot).unwrap();
        assert_eq!(engine_of(&mut lab, port, SYN), engine);
    }

    let engines = [1000, 1001, 1002, 1003].map(|port| engine_of(&mut lab, port, ACK));

    assert_eq!(engines, [0, 1, 2, 0]);
}

#[test]
fn a_draining_engine_keeps_its_flows_and_takes_no_new_ones() {
    let mut lab = Lab::of(&Fleet::new().v4(Forwarding::Dnat)).unwrap();
    assert_eq!(engine_of(&mut lab, 1000, SYN), 0);
    let draining = Fleet::new().v4(Forwarding::Dnat).state(0, EngineState::Draining);

    lab.installer.install(&draining.snapshot).unwrap();

    assert_eq!(engine_of(&mut lab, 1000, ACK), 0);
    let new = engine_of(&mut lab, 2000, SYN);
    assert_ne!(new, 0);
    assert_eq!(engine_of(&mut lab, 2000, ACK), new);
}

#[test]
fn flows_that_went_to_a_fallback_stay_there_when_the_engine_takes_flows_again() {
    let mut lab = Lab::of(&Fleet::new().v4(Forwarding::Dnat)).unwrap();
    lab.installer.divert(0, Divert::NewFlows);
    let fallback = engine_of(&mut lab, 2000, SYN);
    assert_ne!(fallback, 0);

    lab.installer.divert(0, Divert::Nothing);

    assert_eq!(engine_of(&mut lab, 2000, ACK), fallback);
    assert_eq!(engine_of(&mut lab, 3000, SYN), 0);
}

#[test]
fn flows_of_a_dead_engine_are_re_slotted() {
    let mut lab = Lab::of(&Fleet::new().v4(Forwarding::Dnat)).unwrap();
    assert_eq!(engine_of(&mut lab, 1000, SYN), 0);

    lab.installer.divert(0, Divert::Everything);

    let engine = engine_of(&mut lab, 1000, ACK);
    assert_ne!(engine, 0);
    assert_eq!(engine_of(&mut lab, 1000, ACK), engine);
}

#[test]
fn a_conversation_returns_to_the_engine_on_which_it_closed() {
    let source = KeyMode::Source { prefix4: 32, prefix6: 64 };
    let fleet = |engine: u16| {
        let vip = Vip::V4([198, 51, 100, 1].into());
        Fleet::new().service(vip, 80, Protocol::Tcp, source, Forwarding::Dnat).all_to(engine)
    };
    let mut lab = Lab::of(&fleet(0)).unwrap();
    lab.installer.install(&fleet(1).next().snapshot).unwrap();

    assert_eq!(engine_of(&mut lab, 1000, ACK), 0, "begun before the change");
    assert_eq!(engine_of(&mut lab, 1000, FIN | ACK), 0, "closed by the client");

    assert_eq!(engine_of(&mut lab, 2000, SYN), 0, "the conversation's next flow");
}

#[test]
fn a_datagram_without_a_record_stays_with_the_origin_at_first() {
    let vip = Vip::V4([198, 51, 100, 1].into());
    let fleet = || Fleet::new().service(vip, 80, Protocol::Udp, KeyMode::Flow, Forwarding::Dnat);
    let mut lab = Lab::of(&fleet()).unwrap();

    lab.installer.install(&fleet().all_to(1).snapshot).unwrap();

    assert_eq!(udp_engine_of(&mut lab, 1000), 0);
}

#[test]
fn a_flood_of_syns_in_a_slot_in_transition_leaves_confirmed_flows_where_they_are() {
    let mut lab = Lab::of(&Fleet::new().v4(Forwarding::Dnat)).unwrap();
    lab.installer.install(&Fleet::new().v4(Forwarding::Dnat).all_to(1).snapshot).unwrap();
    let old: Vec<u16> = (1000..1200).collect();
    for &port in &old {
        assert_eq!(engine_of(&mut lab, port, ACK), 0);
        assert_eq!(engine_of(&mut lab, port, ACK), 0);
    }

    for port in 2000..42_000 {
        assert_eq!(engine_of(&mut lab, port, SYN), 1);
    }

    assert!(old.iter().all(|&port| engine_of(&mut lab, port, ACK) == 0));
}

#[test]
fn an_engine_that_is_out_with_its_fallbacks_leaves_the_third() {
    let mut lab = Lab::of(&Fleet::new().v4(Forwarding::Dnat)).unwrap();

    lab.installer.divert(0, Divert::Everything);
    let fallback = engine_of(&mut lab, 1000, SYN);
    lab.installer.divert(u16::from(fallback), Divert::NewFlows);

    // Fallbacks of the table's other slots are looked at; all engines but one divert.
    let engines: std::collections::BTreeSet<u8> =
        (2000..2200).map(|port| engine_of(&mut lab, port, SYN)).collect();
    assert!(!engines.contains(&0), "{engines:?}");
}
