//! ICMP errors go to the engine whose flow they quote: one packet in; verdict and bytes out.
use std::net::{Ipv4Addr, Ipv6Addr};

use penstock_tests::prog_run::{
    Fleet, Lab, Outcome, Verdict,
    packet::{CLIENT_ROUTER, ENGINE_ROUTER, Ipv4Header, Ipv6Header, OWN_IN, OWN_OUT, checksum, ethernet},
};
use penstock_wire::Forwarding;

/// An address of one end, with its port.
type End<A> = (A, u16);

const IN: ([u8; 6], [u8; 6]) = (OWN_IN, CLIENT_ROUTER);
const OUT: ([u8; 6], [u8; 6]) = (ENGINE_ROUTER, OWN_OUT);

/// "Fragmentation needed" to `to`, about a TCP packet from there to the client.
fn too_big4(macs: ([u8; 6], [u8; 6]), ttl: u8, to: End<&str>) -> Vec<u8> {
    let address: Ipv4Addr = to.0.parse().expect("an IPv4 address");
    let quote = Ipv4Header {
        source: address,
        destination: [203, 0, 113, 9].into(),
        ttl: 60,
        tos: 0,
        protocol: 6,
        fragment: (0x77, 0x4000),
        options: &[],
    };
    let ports = [to.1.to_be_bytes(), 40_000_u16.to_be_bytes()].concat();
    let mut icmp = [&[3, 4, 0, 0, 0, 0, 5, 0x78][..], &quote.bytes(1460), &ports, &[1, 2, 3, 4]].concat();
    let sum = checksum(&icmp);
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    let source = [192, 0, 2, 1].into();
    let header =
        Ipv4Header { source, destination: address, ttl, tos: 0, protocol: 1, fragment: (9, 0), options: &[] };
    [ethernet(macs.0, macs.1, &[], 0x0800), header.bytes(icmp.len()), icmp].concat()
}

/// "Packet too big" to `to`, about a TCP packet from there to the client.
fn too_big6(macs: ([u8; 6], [u8; 6]), hop_limit: u8, to: End<&str>) -> Vec<u8> {
    let address: Ipv6Addr = to.0.parse().expect("an IPv6 address");
    let client: Ipv6Addr = "2001:db8:ffff::9".parse().expect("an IPv6 address");
    let quote = Ipv6Header { source: address, destination: client, hop_limit: 60, traffic_class: 0, next: 6 };
    let ports = [to.1.to_be_bytes(), 40_000_u16.to_be_bytes()].concat();
    let mut icmp = [&[2, 0, 0, 0, 0, 0, 5, 0x78][..], &quote.bytes(1440), &ports, &[1, 2, 3, 4]].concat();
    let source: Ipv6Addr = "2001:db8:aaaa::1".parse().expect("an IPv6 address");
    let length = u32::try_from(icmp.len()).expect("a small packet").to_be_bytes();
    let pseudo = [&source.octets()[..], &address.octets(), &length, &[0, 0, 0, 58]].concat();
    let sum = checksum(&[pseudo, icmp.clone()].concat());
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    let header = Ipv6Header { source, destination: address, hop_limit, traffic_class: 0, next: 58 };
    [ethernet(macs.0, macs.1, &[], 0x86dd), header.bytes(icmp.len()), icmp].concat()
}

#[test]
fn an_ipv4_error_reaches_the_engine_with_its_own_address_in_the_quote() {
    let mut lab = Lab::of(&Fleet::new().v4(Forwarding::Dnat).all_to(1)).unwrap();

    let outcome = lab.run(&too_big4(IN, 64, ("198.51.100.1", 80))).unwrap();

    let expected = too_big4(OUT, 63, ("10.2.0.2", 8000));
    assert_eq!(outcome, Outcome { verdict: Verdict::Redirect, frame: expected });
}

#[test]
fn an_ipv6_error_reaches_the_engine_with_its_own_prefix_in_the_quote() {
    let mut lab = Lab::of(&Fleet::new().v6(Forwarding::Dnat).all_to(2)).unwrap();

    let outcome = lab.run(&too_big6(IN, 64, ("2001:db8:1:0:1122:3344:5566:7788", 80))).unwrap();

    let expected = too_big6(OUT, 63, ("fd77:1:0:2:1122:3344:5566:7788", 8000));
    assert_eq!(outcome, Outcome { verdict: Verdict::Redirect, frame: expected });
}

#[test]
fn with_direct_return_an_error_is_forwarded_as_it_is() {
    let mut lab = Lab::of(&Fleet::new().v4(Forwarding::L2).v6(Forwarding::L2)).unwrap();

    let v4 = lab.run(&too_big4(IN, 64, ("198.51.100.1", 80))).unwrap();
    let v6 = lab.run(&too_big6(IN, 64, ("2001:db8:1::7", 80))).unwrap();

    assert_eq!(v4.frame, too_big4(OUT, 63, ("198.51.100.1", 80)));
    assert_eq!(v6.frame, too_big6(OUT, 63, ("2001:db8:1::7", 80)));
}

#[test]
fn errors_about_other_flows_and_echo_requests_are_passed_untouched() {
    let mut lab = Lab::of(&Fleet::new().v4(Forwarding::Dnat).v6(Forwarding::Dnat)).unwrap();
    let mut spoofed = too_big4(IN, 64, ("198.51.100.1", 80));
    spoofed[42 + 12] ^= 1;
    let mut echo = too_big4(IN, 64, ("198.51.100.1", 80));
    echo[34] = 8;
    let frames = [
        ("another port", too_big4(IN, 64, ("198.51.100.1", 81))),
        ("another address", too_big6(IN, 64, ("2001:db8:2::7", 80))),
        ("a quote of another address than the error's", spoofed),
        ("an echo request", echo),
    ];

    for (sentence, frame) in frames {
        let outcome = lab.run(&frame).unwrap();

        assert_eq!(outcome, Outcome { verdict: Verdict::Pass, frame }, "{sentence}");
    }
}
