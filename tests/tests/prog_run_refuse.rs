//! Resets: of new flows that are shed, and of flows whose engine is out.
use penstock_agent::install::Divert;
use penstock_tests::prog_run::{
    Fleet, Lab, Outcome, Verdict,
    packet::{ACK, Packet, RST, SYN, Transport},
};
use penstock_wire::{Forwarding, KeyMode, Protocol, Vip};

const CLIENT4: (&str, u16) = ("203.0.113.9", 40_000);
const VIP4: (&str, u16) = ("198.51.100.1", 80);
const CLIENT6: (&str, u16) = ("2001:db8:ffff::9", 40_000);
const VIP6: (&str, u16) = ("2001:db8:1:0:1122:3344:5566:7788", 80);

/// The reset that answers `packet`, with these numbers: from where the packet went, back by the way it came.
fn reset(packet: &Packet, flags: u8, sequence: u32, acknowledgement: u32) -> Outcome {
    let mut answer = packet.clone();
    (answer.source_mac, answer.destination_mac) = (packet.destination_mac, packet.source_mac);
    (answer.source, answer.destination) = (packet.destination, packet.source);
    (answer.source_port, answer.destination_port) = (packet.destination_port, packet.source_port);
    answer.payload.clear();
    answer.fragment = (0, 0x4000);
    answer.transport = Transport::Tcp { flags, sequence, acknowledgement };
    let mut frame = answer.frame();
    let tcp = frame.len() - 20;
    // The builder's window is 0xfffe; a reset has none. The checksum grows by what the sum loses.
    frame[tcp + 14..tcp + 16].fill(0);
    let checksum = u16::from_be_bytes([frame[tcp + 16], frame[tcp + 17]]);
    let (sum, carry) = checksum.overflowing_add(0xfffe);
    frame[tcp + 16..tcp + 18].copy_from_slice(&(sum + u16::from(carry)).to_be_bytes());
    if packet.source.is_ipv6() {
        // No flow label.
        frame[14..18].copy_from_slice(&[0x60, 0, 0, 0]);
    }
    Outcome { verdict: Verdict::Transmit, frame }
}

#[test]
fn every_new_flow_of_a_service_that_sheds_all_is_reset_and_others_go_on() {
    let mut lab = Lab::of(&Fleet::new().v4(Forwarding::Dnat).v6(Forwarding::Dnat)).unwrap();
    lab.installer.shed(0, 1.0);
    lab.installer.shed(1, 1.0);
    for (client, vip) in [(CLIENT4, VIP4), (CLIENT6, VIP6)] {
        let packet = Packet::tcp(client, vip, SYN);

        let outcome = lab.run(&packet.frame()).unwrap();

        assert_eq!(outcome, reset(&packet, RST | ACK, 0, 0x0102_0305));
        let going_on = Packet::tcp(client, vip, ACK);
        assert_eq!(lab.run(&going_on.frame()).unwrap().verdict, Verdict::Redirect);
    }
    assert_eq!(lab.installer.live().counters().unwrap().services[&0].refused, 1);
}

#[test]
fn a_service_sheds_about_the_fraction_that_was_set() {
    let mut lab = Lab::of(&Fleet::new().v4(Forwarding::Dnat)).unwrap();
    lab.installer.shed(0, 0.25);

    let flows = (1000..5000_u16).map(|port| Packet::tcp((CLIENT4.0, port), VIP4, SYN));
    let shed = flows.filter(|packet| lab.run(&packet.frame()).unwrap().verdict == Verdict::Transmit).count();

    // Standard deviation 27.
    assert!((850..1150).contains(&shed), "{shed} of 4,000");
}

#[test]
fn datagrams_of_a_shed_key_are_dropped() {
    let vip = Vip::V4([198, 51, 100, 1].into());
    let mut lab =
        Lab::of(&Fleet::new().service(vip, 80, Protocol::Udp, KeyMode::Flow, Forwarding::Dnat)).unwrap();
    lab.installer.shed(0, 1.0);

    let outcome = lab.run(&Packet::udp(CLIENT4, VIP4).frame()).unwrap();

    assert_eq!(outcome.verdict, Verdict::Drop);
}

#[test]
fn a_flow_of_a_dead_engine_is_reset_where_the_configuration_says_so() {
    let mut lab = Lab::with(|config| config.reset_lost = true).unwrap();
    lab.installer.install(&Fleet::new().v4(Forwarding::Dnat).snapshot).unwrap();
    lab.installer.divert(0, Divert::Everything);
    let packet = Packet::tcp(CLIENT4, VIP4, ACK);

    let outcome = lab.run(&packet.frame()).unwrap();

    assert_eq!(outcome, reset(&packet, RST, 0x0506_0708, 0));
    assert_eq!(lab.run(&Packet::tcp(CLIENT4, VIP4, RST).frame()).unwrap().verdict, Verdict::Drop);
    assert_eq!(lab.run(&Packet::tcp(CLIENT4, VIP4, SYN).frame()).unwrap().verdict, Verdict::Redirect);
}
