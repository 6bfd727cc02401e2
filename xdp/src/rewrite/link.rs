//! Link layer, and the hop that every forwarded packet uses up.
use penstock_abi::{Config, FLAG_REDIRECT_ONLY};

use super::Link;
use crate::{
    checksum::Delta,
    frame::{Frame, Window},
    kernel::Kernel,
    verdict::Verdict,
};

/// Writes both MAC addresses and says by which port the packet leaves.
#[inline(always)]
pub fn send<K: Kernel>(kernel: &K, config: &Config, ethernet: &Window<'_, 14>, link: Link) -> Verdict {
    ethernet.store::<u64, 0>(link.mac_head);
    ethernet.store::<u32, 8>(link.mac_tail);
    if config.flags & FLAG_REDIRECT_ONLY == 0 && link.ifindex == kernel.ingress() {
        return Verdict::Transmit;
    }
    Verdict::Redirect { ifindex: link.ifindex }
}

/// Decrements the TTL of an IPv4 header, which is above zero, and corrects its checksum, which also changes by `delta`.
#[inline(always)]
pub fn use_hop4(header: &Window<'_, 20>, delta: Delta) {
    const ONE_HOP: u16 = u16::from_ne_bytes([1, 0]);
    let checksum = delta.decrease16(ONE_HOP).apply(header.load::<u16, 10>());
    header.store::<u8, 8>(header.load::<u8, 8>().wrapping_sub(1));
    header.store::<u16, 10>(checksum);
}

/// Decrements the hop limit of an IPv6 header.
#[inline(always)]
pub fn use_hop6(header: &Window<'_, 40>) {
    header.store::<u8, 7>(header.load::<u8, 7>().wrapping_sub(1));
}

/// The Ethernet header of a frame.
#[inline(always)]
pub fn ethernet<'a>(frame: &Frame<'a>) -> Option<Window<'a, 14>> {
    frame.window::<14>(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hop_of_an_ipv4_header_keeps_its_checksum_right() {
        // The header of RFC 1071 calculators: 192.168.0.1 -> 192.168.0.199, UDP, checksum 0xb861 at TTL 64.
        let mut header =
            [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7];

        use_hop4(&Frame::from_slice(&mut header).window::<20>(0).unwrap(), Delta::NONE);

        // One less in the upper byte of a word is 0x0100 more in the checksum.
        assert_eq!(header[8..12], [0x3f, 0x11, 0xb9, 0x61]);
    }
}
