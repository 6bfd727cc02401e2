//! On an engine host: takes the outer header of `ipip` and `ip6ip6` off.
use crate::{
    frame::Frame,
    kernel::Shrink,
    parse::{ETHER_IPV4, ETHER_IPV6},
    verdict::Verdict,
};

const PROTOCOL_IPV4: u8 = 4;
const PROTOCOL_IPV6: u8 = 41;

/// Gives the host's stack the inner packet; anything else is passed as it is.
#[inline(always)]
pub fn decapsulate<K: Shrink>(kernel: &K, frame: &Frame<'_>) -> Verdict {
    let Some(ethernet) = frame.window::<14>(0) else {
        return Verdict::Pass;
    };
    let (head, tail) = (ethernet.load::<u64, 0>(), ethernet.load::<u32, 8>());
    let inner = match ethernet.load::<u16, 12>() {
        ETHER_IPV4 => match frame.window::<20>(14) {
            Some(outer) if outer.load::<u8, 0>() == 0x45 && outer.load::<u8, 9>() == PROTOCOL_IPV4 => {
                kernel.shrink::<20>()
            }
            _ => return Verdict::Pass,
        },
        ETHER_IPV6 => match frame.window::<40>(14) {
            Some(outer) if outer.load::<u8, 6>() == PROTOCOL_IPV6 => kernel.shrink::<40>(),
            _ => return Verdict::Pass,
        },
        _ => return Verdict::Pass,
    };
    let Some(ethernet_inner) = inner.and_then(|frame| frame.window::<14>(0)) else {
        return Verdict::Drop;
    };
    ethernet_inner.store::<u64, 0>(head);
    ethernet_inner.store::<u32, 8>(tail);
    ethernet_inner.store::<u16, 12>(ethernet_type(inner));
    Verdict::Pass
}

/// The outer and the inner packet are of one family, which the inner version tells.
#[inline(always)]
fn ethernet_type(frame: Option<Frame<'_>>) -> u16 {
    let version = frame.and_then(|frame| frame.window::<1>(14)).map_or(0, |start| start.load::<u8, 0>() >> 4);
    if version == 6 { ETHER_IPV6 } else { ETHER_IPV4 }
}
