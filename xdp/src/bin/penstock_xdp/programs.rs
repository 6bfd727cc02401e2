//! Entry points.
use aya_ebpf::{
    bindings::xdp_action::{XDP_DROP, XDP_PASS, XDP_TX},
    helpers::bpf_redirect,
    macros::xdp,
    programs::XdpContext,
};
use penstock_xdp::{path, rewrite::decapsulate, verdict::Verdict};

use crate::context::Packet;

/// The packet door, for devices whose packets are in one piece.
#[xdp]
pub(crate) fn penstock(context: XdpContext) -> u32 {
    decide(context)
}

/// The packet door, for devices with multi-buffer packets.
#[xdp(frags)]
pub(crate) fn penstock_frags(context: XdpContext) -> u32 {
    decide(context)
}

/// Passes everything: on the far end of a veth, it lets the near end transmit.
#[xdp]
pub(crate) fn penstock_pass(_context: XdpContext) -> u32 {
    XDP_PASS
}

/// For engine hosts: takes off the outer header of `ipip` and `ip6ip6`.
#[xdp(frags)]
pub(crate) fn penstock_decap(context: XdpContext) -> u32 {
    let packet = Packet { context };
    match decapsulate::decapsulate(&packet, &packet.frame()) {
        Verdict::Pass => XDP_PASS,
        Verdict::Drop | Verdict::Transmit | Verdict::Redirect { .. } => XDP_DROP,
    }
}

#[inline(always)]
fn decide(context: XdpContext) -> u32 {
    let packet = Packet { context };
    match path::run(&packet, packet.frame()) {
        Verdict::Pass => XDP_PASS,
        Verdict::Drop => XDP_DROP,
        Verdict::Transmit => XDP_TX,
        Verdict::Redirect { ifindex } => redirect(ifindex),
    }
}

#[expect(unsafe_code, reason = "a helper of the kernel")]
#[inline(always)]
fn redirect(ifindex: u32) -> u32 {
    // SAFETY: the helper checks the index when the packet leaves.
    unsafe { bpf_redirect(ifindex, 0) as u32 }
}

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    #[expect(clippy::empty_loop, reason = "unreachable: the verifier refuses a program that could panic")]
    loop {}
}

#[expect(unsafe_code, reason = "the section in which the kernel looks for the licence")]
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
