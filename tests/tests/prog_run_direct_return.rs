//! `l2`, `ipip` and `ip6ip6`: one packet in; verdict and bytes out. The engine answers the client directly.
use penstock_tests::prog_run::{
    Fleet, Lab, Outcome, Verdict,
    packet::{ACK, ENGINE_ROUTER, Ipv4Header, Ipv6Header, OWN_OUT, Packet, SYN, ethernet},
};
use penstock_wire::Forwarding;

const CLIENT4: (&str, u16) = ("203.0.113.9", 40_000);
const VIP4: (&str, u16) = ("198.51.100.1", 80);
const CLIENT6: (&str, u16) = ("2001:db8:ffff::9", 40_000);
const VIP6: (&str, u16) = ("2001:db8:1:0:1122:3344:5566:7788", 80);

#[test]
fn l2_changes_macs_and_the_hop_and_nothing_else() {
    let mut lab = Lab::of(&Fleet::new().v4(Forwarding::L2).v6(Forwarding::L2)).unwrap();
    for packet in [Packet::tcp(CLIENT4, VIP4, SYN), Packet::tcp(CLIENT6, VIP6, ACK)] {
        let outcome = lab.run(&packet.frame()).unwrap();

        assert_eq!(outcome, Outcome { verdict: Verdict::Redirect, frame: packet.towards_engine().frame() });
    }
}

#[test]
fn ipip_puts_a_header_with_a_varying_source_in_front() {
    let mut lab = Lab::of(&Fleet::new().v4(Forwarding::Ipip).all_to(1)).unwrap();
    let mut packet = Packet::tcp(CLIENT4, VIP4, ACK);
    packet.traffic_class = 0xb8;

    let outcome = lab.run(&packet.frame()).unwrap();

    let inner = packet.with_ttl(63).ip();
    // The last two bytes of the outer source vary by flow: taken from the packet, everything else by hand.
    let varying = &outcome.frame[28..30];
    let outer = Ipv4Header {
        source: [172, 16, varying[0], varying[1]].into(),
        destination: [10, 2, 0, 2].into(),
        ttl: 64,
        tos: 0xb8,
        protocol: 4,
        fragment: (0, 0),
        options: &[],
    };
    let expected = [ethernet(ENGINE_ROUTER, OWN_OUT, &[], 0x0800), outer.bytes(inner.len()), inner].concat();
    assert_eq!(outcome, Outcome { verdict: Verdict::Redirect, frame: expected });
}

#[test]
fn ip6ip6_puts_a_header_with_a_varying_source_in_front() {
    let mut lab = Lab::of(&Fleet::new().v6(Forwarding::Ipip).all_to(2)).unwrap();
    let mut packet = Packet::tcp(CLIENT6, VIP6, ACK);
    packet.traffic_class = 0xb8;

    let outcome = lab.run(&packet.frame()).unwrap();

    let inner = packet.with_ttl(63).ip();
    let varying: [u8; 8] = outcome.frame[30..38].try_into().unwrap();
    let outer = Ipv6Header {
        source: (0x0100_u128 << 112 | u128::from(u64::from_be_bytes(varying))).into(),
        destination: "fd02::3".parse().unwrap(),
        hop_limit: 64,
        traffic_class: 0xb8,
        next: 41,
    };
    let expected = [ethernet(ENGINE_ROUTER, OWN_OUT, &[], 0x86dd), outer.bytes(inner.len()), inner].concat();
    assert_eq!(outcome, Outcome { verdict: Verdict::Redirect, frame: expected });
}

#[test]
fn outer_sources_of_many_flows_differ_and_those_of_one_flow_do_not() {
    let mut lab = Lab::of(&Fleet::new().v4(Forwarding::Ipip)).unwrap();
    let mut outer_source = |port: u16| {
        let packet = Packet::tcp((CLIENT4.0, port), VIP4, ACK);
        lab.run(&packet.frame()).unwrap().frame[26..30].to_vec()
    };

    let first = outer_source(1000);
    let again = outer_source(1000);
    let others: std::collections::BTreeSet<_> = (1001..1101).map(&mut outer_source).collect();

    assert_eq!(first, again);
    assert!(others.len() > 95, "{} sources of 100 flows", others.len());
}

#[test]
fn the_engine_host_takes_off_what_the_frontend_host_put_on() {
    let mut lab = Lab::of(&Fleet::new().v4(Forwarding::Ipip).v6(Forwarding::Ipip)).unwrap();
    for packet in [Packet::tcp(CLIENT4, VIP4, ACK), Packet::tcp(CLIENT6, VIP6, ACK)] {
        let outer = lab.run(&packet.frame()).unwrap().frame;

        let outcome = lab.run_program("penstock_decap", &outer).unwrap();

        assert_eq!(outcome, Outcome { verdict: Verdict::Pass, frame: packet.towards_engine().frame() });
    }
    let plain = Packet::tcp(CLIENT4, VIP4, ACK).frame();
    let outcome = lab.run_program("penstock_decap", &plain).unwrap();
    assert_eq!(outcome, Outcome { verdict: Verdict::Pass, frame: plain });
}
