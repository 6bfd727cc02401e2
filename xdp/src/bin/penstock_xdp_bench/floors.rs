//! The least that each way of forwarding has to do, without any choice: what the packet door is measured against.
use aya_ebpf::{
    bindings::xdp_action::{XDP_DROP, XDP_PASS, XDP_TX},
    helpers::bpf_xdp_adjust_head,
    macros::xdp,
    programs::XdpContext,
};
use penstock_xdp::{
    checksum::{Delta, fold},
    frame::{Frame, Window},
};

const ENGINE4: u32 = u32::from_ne_bytes([10, 0, 0, 1]);
const ENGINE6: [u64; 2] =
    [u64::from_ne_bytes([0xfd, 2, 0, 0, 0, 0, 0, 0]), u64::from_ne_bytes([0, 0, 0, 0, 0, 0, 0, 1])];

#[expect(unsafe_code, reason = "packet memory")]
#[inline(always)]
fn frame(context: &XdpContext) -> Frame<'_> {
    // SAFETY: the kernel lends the packet to this program; a resized packet gets a new frame.
    unsafe { Frame::from_addresses(context.data(), context.data_end()) }
}

#[expect(unsafe_code, reason = "a helper of the kernel")]
#[inline(always)]
fn grow(context: &XdpContext, bytes: i32) -> Option<Frame<'_>> {
    // SAFETY: the context is the one that the kernel gave to this program.
    (unsafe { bpf_xdp_adjust_head(context.ctx, -bytes) } == 0).then(|| frame(context))
}

#[inline(always)]
fn swap_macs<const N: usize>(window: &Window<'_, N>) {
    let (destination, destination_tail) = (window.load::<u32, 0>(), window.load::<u16, 4>());
    let (source, source_tail) = (window.load::<u32, 6>(), window.load::<u16, 10>());
    window.store::<u32, 0>(source);
    window.store::<u16, 4>(source_tail);
    window.store::<u32, 6>(destination);
    window.store::<u16, 10>(destination_tail);
}

/// `XDP_PASS`.
#[xdp]
pub(crate) fn floor_pass(_context: XdpContext) -> u32 {
    XDP_PASS
}

/// `XDP_DROP`: the end of the way of live frames.
#[xdp]
pub(crate) fn floor_drop(_context: XdpContext) -> u32 {
    XDP_DROP
}

/// `XDP_TX` with MAC addresses swapped.
#[xdp]
pub(crate) fn floor_mac_swap(context: XdpContext) -> u32 {
    let Some(ethernet) = frame(&context).window::<14>(0) else {
        return XDP_DROP;
    };
    swap_macs(&ethernet);
    XDP_TX
}

/// IPv4 destination and both checksums rewritten.
#[xdp]
pub(crate) fn floor_nat(context: XdpContext) -> u32 {
    let Some(packet) = frame(&context).window::<54>(0) else {
        return XDP_DROP;
    };
    if packet.load::<u16, 12>() != 0x0800_u16.to_be() || packet.load::<u8, 14>() != 0x45 {
        return XDP_PASS;
    }
    swap_macs(&packet);
    let delta = Delta::NONE.replace32(packet.load::<u32, 30>(), ENGINE4);
    packet.store::<u32, 30>(ENGINE4);
    packet.store::<u16, 24>(delta.apply(packet.load::<u16, 24>()));
    packet.store::<u16, 50>(delta.apply(packet.load::<u16, 50>()));
    XDP_TX
}

/// The upper half of an IPv6 destination and the TCP checksum rewritten.
#[xdp]
pub(crate) fn floor_nat6(context: XdpContext) -> u32 {
    let Some(packet) = frame(&context).window::<74>(0) else {
        return XDP_DROP;
    };
    if packet.load::<u16, 12>() != 0x86dd_u16.to_be() {
        return XDP_PASS;
    }
    swap_macs(&packet);
    let delta = Delta::NONE.replace64(packet.load::<u64, 38>(), ENGINE6[0]);
    packet.store::<u64, 38>(ENGINE6[0]);
    packet.store::<u16, 70>(delta.apply(packet.load::<u16, 70>()));
    XDP_TX
}

/// An IPv4 header in front, its checksum summed whole.
#[xdp]
pub(crate) fn floor_ipip(context: XdpContext) -> u32 {
    let Some(inner) = frame(&context).window::<34>(0) else {
        return XDP_DROP;
    };
    let (length, tos) = (u16::from_be(inner.load::<u16, 16>()), inner.load::<u8, 15>());
    let source = inner.load::<u32, 26>() & u32::from_ne_bytes([0, 0, 0xff, 0xff])
        | u32::from_ne_bytes([172, 16, 0, 0]);
    let (mac, mac_tail) = (inner.load::<u32, 0>(), inner.load::<u16, 4>());
    let Some(outer) = grow(&context, 20).and_then(|frame| frame.window::<54>(0)) else {
        return XDP_DROP;
    };
    outer.store::<u32, 0>(u32::from_ne_bytes([2, 0, 0, 0]));
    outer.store::<u16, 4>(u16::from_ne_bytes([0, 9]));
    outer.store::<u32, 6>(mac);
    outer.store::<u16, 10>(mac_tail);
    outer.store::<u16, 12>(0x0800_u16.to_be());
    let words = [
        u16::from_ne_bytes([0x45, tos]),
        (length + 20).to_be(),
        0,
        0,
        u16::from_ne_bytes([64, 4]),
        0,
        source as u16,
        (source >> 16) as u16,
        ENGINE4 as u16,
        (ENGINE4 >> 16) as u16,
    ];
    let sum = words.iter().map(|&word| u64::from(word)).sum();
    outer.store::<u16, 14>(words[0]);
    outer.store::<u16, 16>(words[1]);
    outer.store::<u32, 18>(0);
    outer.store::<u16, 22>(words[4]);
    outer.store::<u16, 24>(!fold(sum));
    outer.store::<u32, 26>(source);
    outer.store::<u32, 30>(ENGINE4);
    XDP_TX
}

/// An IPv6 header in front.
#[xdp]
pub(crate) fn floor_ip6ip6(context: XdpContext) -> u32 {
    let Some(inner) = frame(&context).window::<54>(0) else {
        return XDP_DROP;
    };
    let (length, source) = (u16::from_be(inner.load::<u16, 18>()), inner.load::<u64, 30>());
    let (mac, mac_tail) = (inner.load::<u32, 0>(), inner.load::<u16, 4>());
    let Some(outer) = grow(&context, 40).and_then(|frame| frame.window::<54>(0)) else {
        return XDP_DROP;
    };
    outer.store::<u32, 0>(u32::from_ne_bytes([2, 0, 0, 0]));
    outer.store::<u16, 4>(u16::from_ne_bytes([0, 9]));
    outer.store::<u32, 6>(mac);
    outer.store::<u16, 10>(mac_tail);
    outer.store::<u16, 12>(0x86dd_u16.to_be());
    outer.store::<u32, 14>(0x6000_0000_u32.to_be());
    outer.store::<u16, 18>((length + 40).to_be());
    outer.store::<u16, 20>(u16::from_ne_bytes([41, 64]));
    outer.store::<u64, 22>(u64::from_ne_bytes([1, 0, 0, 0, 0, 0, 0, 0]));
    outer.store::<u64, 30>(source);
    outer.store::<u64, 38>(ENGINE6[0]);
    outer.store::<u64, 46>(ENGINE6[1]);
    XDP_TX
}
