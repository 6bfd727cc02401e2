//! `dnat`: one packet in; verdict and bytes out.
use penstock_tests::prog_run::{
    Fleet, Lab, Outcome, Verdict,
    packet::{ACK, Packet, SYN, Transport},
};
use penstock_wire::{Forwarding, KeyMode, Protocol, Vip};

const CLIENT4: (&str, u16) = ("203.0.113.9", 40_000);
const VIP4: (&str, u16) = ("198.51.100.1", 80);
const CLIENT6: (&str, u16) = ("2001:db8:ffff::9", 40_000);
/// Conversation 0x1122334455667788 of the VIP 2001:db8:1::/64.
const VIP6: (&str, u16) = ("2001:db8:1:0:1122:3344:5566:7788", 80);

fn redirected(packet: &Packet) -> Outcome {
    Outcome { verdict: Verdict::Redirect, frame: packet.frame() }
}

fn passed(packet: &Packet) -> Outcome {
    Outcome { verdict: Verdict::Pass, frame: packet.frame() }
}

#[test]
fn an_ipv4_packet_to_a_vip_gets_the_engine_as_its_destination() {
    let mut lab = Lab::of(&Fleet::new().v4(Forwarding::Dnat).all_to(1)).unwrap();
    for flags in [SYN, ACK] {
        let packet = Packet::tcp(CLIENT4, VIP4, flags);

        let outcome = lab.run(&packet.frame()).unwrap();

        let expected = packet.with_destination("10.2.0.2", 8000).towards_engine();
        assert_eq!(outcome, redirected(&expected), "flags {flags:#x}");
    }
}

#[test]
fn an_ipv4_header_with_options_is_forwarded_alike() {
    let mut lab = Lab::of(&Fleet::new().v4(Forwarding::Dnat)).unwrap();
    let mut packet = Packet::tcp(CLIENT4, VIP4, ACK);
    packet.options = vec![1, 1, 1, 0];

    let outcome = lab.run(&packet.frame()).unwrap();

    assert_eq!(outcome, redirected(&packet.with_destination("10.2.0.1", 8000).towards_engine()));
}

#[test]
fn an_ipv6_packet_gets_the_prefix_of_service_and_engine_and_keeps_its_conversation() {
    let mut lab = Lab::of(&Fleet::new().v4(Forwarding::Dnat).v6(Forwarding::Dnat).all_to(2)).unwrap();
    let packet = Packet::tcp(CLIENT6, VIP6, SYN);

    let outcome = lab.run(&packet.frame()).unwrap();

    let expected = packet.with_destination("fd77:1:1:2:1122:3344:5566:7788", 8000).towards_engine();
    assert_eq!(outcome, redirected(&expected));
}

#[test]
fn a_reply_of_an_ipv4_engine_gets_the_vip_as_its_source() {
    let mut lab = Lab::of(&Fleet::new().v4(Forwarding::Dnat)).unwrap();
    lab.come_in_by("out0").unwrap();
    let reply = Packet::tcp(("10.2.0.3", 8000), CLIENT4, ACK).from_engine();

    let outcome = lab.run(&reply.frame()).unwrap();

    assert_eq!(outcome, redirected(&reply.with_source(VIP4.0, VIP4.1).towards_client()));
}

#[test]
fn a_reply_to_an_address_of_this_host_is_left_alone() {
    let mut lab = Lab::of(&Fleet::new().v4(Forwarding::Dnat)).unwrap();
    lab.come_in_by("out0").unwrap();
    let reply = Packet::tcp(("10.2.0.3", 8000), ("10.2.254.1", 40_000), ACK).from_engine();

    assert_eq!(lab.run(&reply.frame()).unwrap(), passed(&reply));
}

#[test]
fn a_reply_of_an_ipv6_engine_gets_the_upper_half_of_the_vip() {
    let mut lab = Lab::of(&Fleet::new().v6(Forwarding::Dnat)).unwrap();
    lab.come_in_by("out0").unwrap();
    let reply = Packet::tcp(("fd77:1:0:2:1122:3344:5566:7788", 8000), CLIENT6, ACK).from_engine();

    let outcome = lab.run(&reply.frame()).unwrap();

    assert_eq!(outcome, redirected(&reply.with_source(VIP6.0, VIP6.1).towards_client()));
}

#[test]
fn udp_keeps_a_missing_checksum_and_corrects_a_present_one() {
    let vip = Vip::V4([198, 51, 100, 1].into());
    let fleet = Fleet::new().service(vip, 443, Protocol::Udp, KeyMode::Flow, Forwarding::Dnat);
    let mut lab = Lab::of(&fleet).unwrap();
    for transport in [Transport::Udp, Transport::UdpUnchecked] {
        let mut packet = Packet::udp(CLIENT4, (VIP4.0, 443));
        packet.transport = transport;

        let outcome = lab.run(&packet.frame()).unwrap();

        let expected = packet.with_destination("10.2.0.1", 8000).towards_engine();
        assert_eq!(outcome, redirected(&expected), "{transport:?}");
    }
}

#[test]
fn packets_that_are_not_ours_or_at_the_end_of_their_way_are_passed_untouched() {
    let mut lab = Lab::of(&Fleet::new().v4(Forwarding::Dnat).v6(Forwarding::Dnat)).unwrap();
    let packets = [
        ("another port of the VIP", Packet::tcp(CLIENT4, (VIP4.0, 81), SYN)),
        ("another address", Packet::tcp(CLIENT4, ("198.51.100.2", 80), SYN)),
        ("another protocol on the VIP", Packet::udp(CLIENT4, VIP4)),
        ("another /64", Packet::tcp(CLIENT6, ("2001:db8:2::1", 80), SYN)),
        ("an IPv4 packet at its last hop", Packet::tcp(CLIENT4, VIP4, SYN).with_ttl(1)),
        ("an IPv6 packet at its last hop", Packet::tcp(CLIENT6, VIP6, SYN).with_ttl(1)),
        ("an IPv4 packet without a hop left", Packet::tcp(CLIENT4, VIP4, SYN).with_ttl(0)),
    ];

    for (sentence, packet) in packets {
        assert_eq!(lab.run(&packet.frame()).unwrap(), passed(&packet), "{sentence}");
    }
}
