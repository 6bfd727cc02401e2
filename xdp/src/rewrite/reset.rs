//! A TCP reset in answer to a packet, sent back by the port that it came in by (RFC 9293, section 3.5.2).
use penstock_abi::{Config, FLAG_REDIRECT_ONLY};

use crate::{
    checksum::fold,
    frame::Window,
    kernel::Kernel,
    parse::{ACK, ETHER_IPV4, ETHER_IPV6, Header, Ipv4, Ipv6, RST, SYN, TCP, Transport},
    verdict::Verdict,
};

const TCP_BYTES: u16 = 20;
const TTL: u8 = 64;

/// What the answer takes from the packet, in wire order.
#[derive(Clone, Copy, Debug)]
struct Answer {
    mac_head: u64,
    mac_tail: u32,
    ports: [u16; 2],
    sequence: u32,
    acknowledgement: u32,
    flags: u8,
}

#[inline(always)]
fn answer(ethernet: &Window<'_, 14>, transport: &Transport<'_>) -> Option<Answer> {
    let Header::Tcp(header) = transport.header() else {
        return None;
    };
    let (sequence, acknowledgement) = (header.load::<u32, 4>(), header.load::<u32, 8>());
    let flags = header.load::<u8, 13>();
    if flags & RST != 0 {
        return None;
    }
    let next = u32::from_be(sequence).wrapping_add(u32::from(flags & SYN != 0)).to_be();
    // A packet that acknowledges is answered in its own numbers, any other by acknowledging it.
    let (sequence, acknowledgement, flags) =
        if flags & ACK != 0 { (acknowledgement, 0, RST) } else { (0, next, RST | ACK) };
    let (destination, destination_tail) = (ethernet.load::<u32, 0>(), ethernet.load::<u16, 4>());
    let (source, source_tail) = (ethernet.load::<u32, 6>(), ethernet.load::<u16, 10>());
    let [s0, s1, s2, s3] = source.to_ne_bytes();
    let [s4, s5] = source_tail.to_ne_bytes();
    let [d0, d1, d2, d3] = destination.to_ne_bytes();
    let [d4, d5] = destination_tail.to_ne_bytes();
    Some(Answer {
        mac_head: u64::from_ne_bytes([s0, s1, s2, s3, s4, s5, d0, d1]),
        mac_tail: u32::from_ne_bytes([d2, d3, d4, d5]),
        ports: [transport.destination_port(), transport.source_port()],
        sequence,
        acknowledgement,
        flags,
    })
}

/// Answers an IPv4 packet. A reset is not answered, nor is anything but TCP: they are dropped.
#[inline(always)]
pub fn reset4<K: Kernel>(
    kernel: &K,
    config: &Config,
    ethernet: &Window<'_, 14>,
    packet: &Ipv4<'_>,
) -> Verdict {
    let (source, destination) = (packet.destination(), packet.source());
    let Some(answer) = answer(ethernet, &packet.transport) else {
        return Verdict::Drop;
    };
    let Some(frame) = kernel.resize::<54>() else {
        return Verdict::Drop;
    };
    let (Some(head), Some(tcp)) = (frame.window::<34>(0), frame.window::<20>(34)) else {
        return Verdict::Drop;
    };
    head.store::<u64, 0>(answer.mac_head);
    head.store::<u32, 8>(answer.mac_tail);
    head.store::<u16, 12>(ETHER_IPV4);
    let words = [u16::from_ne_bytes([0x45, 0]), (20 + TCP_BYTES).to_be(), 0, 0x4000_u16.to_be()];
    head.store::<u16, 14>(words[0]);
    head.store::<u16, 16>(words[1]);
    head.store::<u16, 18>(words[2]);
    head.store::<u16, 20>(words[3]);
    let hop = u16::from_ne_bytes([TTL, TCP]);
    head.store::<u16, 22>(hop);
    head.store::<u32, 26>(source);
    head.store::<u32, 30>(destination);
    let addresses = u64::from(source) + u64::from(destination);
    let sum = u64::from(words[0]) + u64::from(words[1]) + u64::from(words[3]) + u64::from(hop) + addresses;
    head.store::<u16, 24>(!fold(sum));
    fill(&tcp, &answer, addresses);
    leave(kernel, config)
}

/// Answers an IPv6 packet, as [`reset4`] does.
#[inline(always)]
pub fn reset6<K: Kernel>(
    kernel: &K,
    config: &Config,
    ethernet: &Window<'_, 14>,
    packet: &Ipv6<'_>,
) -> Verdict {
    let (source, destination) = (packet.destination(), packet.source());
    let Some(answer) = answer(ethernet, &packet.transport) else {
        return Verdict::Drop;
    };
    let Some(frame) = kernel.resize::<74>() else {
        return Verdict::Drop;
    };
    let (Some(head), Some(tcp)) = (frame.window::<54>(0), frame.window::<20>(54)) else {
        return Verdict::Drop;
    };
    head.store::<u64, 0>(answer.mac_head);
    head.store::<u32, 8>(answer.mac_tail);
    head.store::<u16, 12>(ETHER_IPV6);
    head.store::<u32, 14>(0x6000_0000_u32.to_be());
    head.store::<u16, 18>(TCP_BYTES.to_be());
    head.store::<u16, 20>(u16::from_ne_bytes([TCP, TTL]));
    head.store::<u64, 22>(source[0]);
    head.store::<u64, 30>(source[1]);
    head.store::<u64, 38>(destination[0]);
    head.store::<u64, 46>(destination[1]);
    let halves = |word: u64| (word & 0xffff_ffff) + (word >> 32);
    let addresses = halves(source[0]) + halves(source[1]) + halves(destination[0]) + halves(destination[1]);
    fill(&tcp, &answer, addresses);
    leave(kernel, config)
}

/// Writes the TCP header; `addresses` is their part of the pseudo-header's sum.
#[inline(always)]
fn fill(tcp: &Window<'_, 20>, answer: &Answer, addresses: u64) {
    let offset_flags = u16::from_ne_bytes([0x50, answer.flags]);
    tcp.store::<u16, 0>(answer.ports[0]);
    tcp.store::<u16, 2>(answer.ports[1]);
    tcp.store::<u32, 4>(answer.sequence);
    tcp.store::<u32, 8>(answer.acknowledgement);
    tcp.store::<u16, 12>(offset_flags);
    tcp.store::<u32, 14>(0);
    tcp.store::<u16, 18>(0);
    let sum = addresses
        + u64::from(answer.ports[0])
        + u64::from(answer.ports[1])
        + u64::from(answer.sequence)
        + u64::from(answer.acknowledgement)
        + u64::from(offset_flags)
        + u64::from(TCP_BYTES.to_be())
        + u64::from(u16::from_ne_bytes([0, TCP]));
    tcp.store::<u16, 16>(!fold(sum));
}

#[inline(always)]
fn leave<K: Kernel>(kernel: &K, config: &Config) -> Verdict {
    if config.flags & FLAG_REDIRECT_ONLY != 0 {
        return Verdict::Redirect { ifindex: kernel.ingress() };
    }
    Verdict::Transmit
}
