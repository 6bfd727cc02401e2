//! Mutated packets: the verdict is always one of ours, what is not forwarded is left as it was, and forwarding changes
//! no checksum's truth. `PENSTOCK_FUZZ_PACKETS` sets their number; the long form is a million.
#![expect(clippy::panic, reason = "a suite stops at its first failure")]
use std::{collections::BTreeMap, env};

use penstock_tests::prog_run::{
    Fleet, Lab, Verdict,
    packet::{ACK, Packet, SYN, checksum},
};
use penstock_wire::{Forwarding, KeyMode, Protocol, Vip};

const VIP4: (&str, u16) = ("198.51.100.1", 80);
const VIP6: (&str, u16) = ("2001:db8:1:0:1122:3344:5566:7788", 80);

/// Xorshift (Marsaglia, 2003), so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).expect("below a usize")
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).expect("below 256")
    }
}

fn fleet() -> Fleet {
    let udp = |fleet: Fleet, vip| fleet.service(vip, 80, Protocol::Udp, KeyMode::Flow, Forwarding::Dnat);
    let v4 = Vip::V4(VIP4.0.parse().expect("an IPv4 address"));
    let v6 = Vip::V6Prefix("2001:db8:1::".parse().expect("an IPv6 address"));
    udp(udp(Fleet::new().v4(Forwarding::Dnat).v6(Forwarding::Dnat), v4), v6)
}

fn seeds() -> Vec<Vec<u8>> {
    let (client4, client6) = (("203.0.113.9", 40_000), ("2001:db8:ffff::9", 40_000));
    let mut options = Packet::tcp(client4, VIP4, ACK);
    options.options = vec![1, 1, 1, 0, 7, 3, 4, 0];
    let packets = [
        Packet::tcp(client4, VIP4, SYN),
        Packet::udp(client4, VIP4),
        options,
        Packet::tcp(client6, VIP6, ACK),
        Packet::udp(client6, VIP6),
        Packet::tcp(("10.2.0.1", 8000), client4, ACK).from_engine(),
        Packet::tcp(("fd77:1:1:2:1122:3344:5566:7788", 8000), client6, ACK).from_engine(),
    ];
    packets.iter().map(Packet::frame).collect()
}

fn mutate(frame: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(3) {
        let headers = frame.len().min(80);
        match random.below(4) {
            0 => frame[random.below(headers)] ^= 1 << random.below(8),
            1 => frame[random.below(headers)] = random.byte(),
            2 => frame.truncate(14 + random.below(frame.len() - 13)),
            _ => frame.extend((0..random.below(40)).map(|_| 0)),
        }
    }
}

/// The transport's sum with its pseudo header, modulo 0xffff, by the IP header; none for UDP without a checksum.
fn transport_sum(frame: &[u8]) -> Option<u16> {
    let (start, end, addresses, protocol) = if frame[12..14] == [8, 0] {
        let header = usize::from(frame[14] & 15) * 4;
        let total = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
        (14 + header, 14 + total, &frame[26..34], frame[23])
    } else {
        let payload = usize::from(u16::from_be_bytes([frame[18], frame[19]]));
        (54, 54 + payload, &frame[22..54], frame[20])
    };
    let length = u16::try_from(end - start).expect("an IP packet");
    let pseudo = [addresses, &[0, protocol], &length.to_be_bytes()].concat();
    let unchecked = protocol == 17 && frame[start + 6..start + 8] == [0, 0];
    (!unchecked).then(|| checksum(&[&pseudo, &frame[start..end]].concat()) % 0xffff)
}

fn check(sentence: &str, before: &[u8], verdict: Verdict, after: &[u8]) {
    match verdict {
        Verdict::Pass | Verdict::Drop => assert_eq!(after, before, "{sentence}: not forwarded, but changed"),
        Verdict::Redirect | Verdict::Transmit => {
            assert_eq!(after.len(), before.len(), "{sentence}");
            assert_eq!(transport_sum(after), transport_sum(before), "{sentence}: {before:02x?}");
            if before[12..14] == [8, 0] {
                let header = 14 + usize::from(before[14] & 15) * 4;
                let sum = |frame: &[u8]| checksum(&frame[14..header]) % 0xffff;
                assert_eq!(sum(after), sum(before), "{sentence}: {before:02x?}");
            }
        }
        Verdict::Aborted => panic!("{sentence}: aborted by {before:02x?}"),
    }
}

#[test]
fn every_truncation_of_every_header_is_passed_untouched() {
    let mut lab = Lab::of(&fleet()).unwrap();
    for (number, frame) in seeds().into_iter().enumerate() {
        for length in 14..frame.len() {
            let outcome = lab.run(&frame[..length]).unwrap();

            assert_eq!(outcome.verdict, Verdict::Pass, "seed {number} cut to {length} bytes");
            assert_eq!(outcome.frame, frame[..length]);
        }
    }
}

#[test]
fn mutated_packets_meet_only_our_verdicts_and_keep_the_truth_of_their_checksums() {
    let packets = env::var("PENSTOCK_FUZZ_PACKETS").map_or(30_000, |number| number.parse().unwrap());
    let mut lab = Lab::of(&fleet()).unwrap();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let seeds = seeds();
    let mut verdicts: BTreeMap<String, usize> = BTreeMap::new();

    for number in 0..packets {
        let mut frame = seeds[random.below(seeds.len())].clone();
        mutate(&mut frame, &mut random);
        let outcome = lab.run(&frame).unwrap();
        check(&format!("packet {number}"), &frame, outcome.verdict, &outcome.frame);
        *verdicts.entry(format!("{:?}", outcome.verdict)).or_default() += 1;
    }

    let forwarded = verdicts.get("Redirect").copied().unwrap_or(0);
    assert!(forwarded * 20 > packets, "too few forwarded for the test to mean anything: {verdicts:?}");
}
