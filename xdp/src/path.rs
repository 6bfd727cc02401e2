//! The whole way of a packet through the stages.
use penstock_abi::Reason;

use crate::{
    frame::Frame,
    kernel::Kernel,
    parse::{ETHER_IPV4, ETHER_IPV6},
    path4, path6,
    rewrite::link,
    verdict::Verdict,
};

/// Decides about one packet, and changes it if it is forwarded.
#[inline(always)]
pub fn run<K: Kernel>(kernel: &K, frame: Frame<'_>) -> Verdict {
    let Some(ethernet) = link::ethernet(&frame) else {
        return pass(kernel, Reason::Malformed);
    };
    match ethernet.load::<u16, 12>() {
        ETHER_IPV4 => path4::run(kernel, &frame, &ethernet),
        ETHER_IPV6 => path6::run(kernel, &frame, &ethernet),
        _ => pass(kernel, Reason::OtherTraffic),
    }
}

#[inline(always)]
pub(crate) fn pass<K: Kernel>(kernel: &K, reason: Reason) -> Verdict {
    kernel.count(reason);
    Verdict::Pass
}

#[inline(always)]
pub(crate) fn drop<K: Kernel>(kernel: &K, reason: Reason) -> Verdict {
    kernel.count(reason);
    Verdict::Drop
}

/// The rewritten packet goes to the host's stack, which finds the way or answers that there is none.
#[inline(always)]
pub(crate) fn route<K: Kernel>(kernel: &K) -> Verdict {
    kernel.count(Reason::Routed);
    Verdict::Pass
}
