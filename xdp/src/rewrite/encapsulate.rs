//! `ipip` and `ip6ip6`: an outer IP header whose source varies by flow, so that the engine's NIC spreads the flows.
use penstock_abi::{Engine, Reason};

use super::Refusal;
use crate::{checksum::fold, frame::Window, kernel::Kernel, parse};

const IPV4_BYTES: u16 = 20;
const IPV6_BYTES: i32 = 40;
const PROTOCOL_IPV4: u8 = 4;
const PROTOCOL_IPV6: u8 = 41;
const TTL: u8 = 64;

/// Puts an IPv4 header in front of an IPv4 packet of `total` bytes, and gives the new Ethernet header.
///
/// # Errors
///
/// `NoRoom` when the driver has no headroom left.
#[inline(always)]
pub fn ipip<'k, K: Kernel>(
    kernel: &'k K,
    engine: &Engine,
    (total, tos): (u16, u8),
    entropy: u64,
) -> Result<Window<'k, 14>, Refusal> {
    let frame = kernel.grow::<{ IPV4_BYTES as i32 }>().ok_or(Reason::NoRoom)?;
    let outer = frame.window::<34>(0).ok_or(Reason::NoRoom)?;
    let length = (total + IPV4_BYTES).to_be();
    let first = u16::from_ne_bytes([0x45, tos]);
    let [low, high, ..] = entropy.to_ne_bytes();
    let source_low = u16::from_ne_bytes([low, high]);
    // The engine's sum has version and header length but no TOS.
    let sum = u64::from(engine.outer_sum)
        + u64::from(u16::from_ne_bytes([0, tos]))
        + u64::from(length)
        + u64::from(source_low);
    outer.store::<u16, 12>(parse::ETHER_IPV4);
    outer.store::<u16, 14>(first);
    outer.store::<u16, 16>(length);
    outer.store::<u32, 18>(0);
    outer.store::<u16, 22>(u16::from_ne_bytes([TTL, PROTOCOL_IPV4]));
    outer.store::<u16, 24>(!fold(sum));
    outer.store::<u32, 26>(engine.outer4 | u32::from_ne_bytes([0, 0, low, high]));
    outer.store::<u32, 30>(engine.address4);
    frame.window::<14>(0).ok_or(Reason::NoRoom)
}

/// Puts an IPv6 header in front of an IPv6 packet of `payload` bytes, its header counted.
///
/// # Errors
///
/// `NoRoom` when the driver has no headroom left.
#[inline(always)]
pub fn ip6ip6<'k, K: Kernel>(
    kernel: &'k K,
    engine: &Engine,
    (payload, first_word): (u16, u32),
    entropy: u64,
) -> Result<Window<'k, 14>, Refusal> {
    let frame = kernel.grow::<IPV6_BYTES>().ok_or(Reason::NoRoom)?;
    let outer = frame.window::<54>(0).ok_or(Reason::NoRoom)?;
    outer.store::<u16, 12>(parse::ETHER_IPV6);
    // Version, traffic class and flow label are the inner packet's.
    outer.store::<u32, 14>(first_word);
    outer.store::<u16, 18>(payload.to_be());
    outer.store::<u16, 20>(u16::from_ne_bytes([PROTOCOL_IPV6, TTL]));
    outer.store::<u64, 22>(engine.outer6);
    outer.store::<u64, 30>(entropy);
    outer.store::<u64, 38>(engine.address6[0]);
    outer.store::<u64, 46>(engine.address6[1]);
    frame.window::<14>(0).ok_or(Reason::NoRoom)
}
