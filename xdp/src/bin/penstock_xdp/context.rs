//! The kernel as the stages see it: maps, helpers and the packet's context.
use penstock_xdp::shared::{SharedWord, SlotWords};

use aya_ebpf::{
    helpers::{bpf_xdp_adjust_head, bpf_xdp_adjust_tail},
    programs::XdpContext,
};
use penstock_abi::{Config, Engine, NextHop, Reason, Reply, ReplyKey, Service, Traffic};
use penstock_xdp::{
    frame::Frame,
    kernel::{Kernel, Shrink},
};

use crate::{maps, next_hop};

/// One packet's context.
pub(crate) struct Packet {
    pub(crate) context: XdpContext,
}

impl Packet {
    #[expect(unsafe_code, reason = "the kernel gives a packet as two addresses")]
    #[inline(always)]
    pub(crate) fn frame(&self) -> Frame<'_> {
        // SAFETY: the kernel lends the packet to this program until it returns or resizes the packet; stages take
        // the new frame from `grow` and the verifier refuses any use of the old one.
        unsafe { Frame::from_addresses(self.context.data(), self.context.data_end()) }
    }
}

#[inline(always)]
fn bump(counter: &mut u64, by: u64) {
    *counter = counter.wrapping_add(by);
}

#[expect(unsafe_code, reason = "counters of this CPU")]
#[inline(always)]
fn add(traffic: *mut Traffic, bytes: u16, new_flow: bool) {
    // SAFETY: the value belongs to this CPU, where an XDP program is not interrupted by another.
    let traffic = unsafe { &mut *traffic };
    bump(&mut traffic.packets, 1);
    bump(&mut traffic.bytes, u64::from(bytes));
    if new_flow {
        bump(&mut traffic.new_flows, 1);
    }
}

impl Shrink for Packet {
    #[expect(unsafe_code, reason = "a helper of the kernel")]
    #[inline(always)]
    fn shrink<const BYTES: i32>(&self) -> Option<Frame<'_>> {
        // SAFETY: the context is the one that the kernel gave to this program.
        let status = unsafe { bpf_xdp_adjust_head(self.context.ctx, BYTES) };
        (status == 0).then(|| self.frame())
    }
}

impl Kernel for Packet {
    #[inline(always)]
    fn config(&self) -> Option<&Config> {
        maps::CONFIG.get(0)
    }

    #[inline(always)]
    fn service_record(&self, position: u32) -> Option<&Service> {
        maps::SERVICES.get(position)
    }

    #[inline(always)]
    fn vip(&self, service: u16) -> Option<&Service> {
        maps::VIPS.get(u32::from(service))
    }

    #[inline(always)]
    fn routes(&self, group: u32) -> Option<&SharedWord> {
        maps::ROUTES.get(group)
    }

    #[inline(always)]
    fn slot(&self, at: u32) -> Option<&SlotWords> {
        maps::SLOTS.get(at)
    }

    #[inline(always)]
    fn engine(&self, index: u16) -> Option<&Engine> {
        maps::ENGINES.get(u32::from(index))
    }

    #[inline(always)]
    fn flow_bucket(&self, index: u32) -> Option<&maps::Ways> {
        maps::FLOWS.get(index)
    }

    #[inline(always)]
    fn affinity_bucket(&self, index: u32) -> Option<&maps::Ways> {
        maps::AFFINITY.get(index)
    }

    #[expect(unsafe_code, reason = "the entry is copied at once")]
    #[inline(always)]
    fn reply(&self, key: &ReplyKey) -> Option<Reply> {
        // SAFETY: the value is copied out; entries change only when services do, and 8 bytes are read whole.
        unsafe { maps::REPLIES.get(key) }.copied()
    }

    #[inline(always)]
    fn next_hop4(&self, source: u32, destination: u32) -> Option<&NextHop> {
        next_hop::find4(&self.context, source, destination)
    }

    #[inline(always)]
    fn next_hop6(&self, source: [u64; 2], destination: [u64; 2]) -> Option<&NextHop> {
        next_hop::find6(&self.context, &source, &destination)
    }

    #[inline(always)]
    fn ingress(&self) -> u32 {
        self.context.ingress_ifindex() as u32
    }

    #[expect(unsafe_code, reason = "a helper of the kernel")]
    #[inline(always)]
    fn grow<const BYTES: i32>(&self) -> Option<Frame<'_>> {
        // SAFETY: the context is the one that the kernel gave to this program.
        let status = unsafe { bpf_xdp_adjust_head(self.context.ctx, -BYTES) };
        (status == 0).then(|| self.frame())
    }

    #[expect(unsafe_code, reason = "a helper of the kernel")]
    #[inline(always)]
    fn resize<const BYTES: u32>(&self) -> Option<Frame<'_>> {
        // Opaque, or else the compiler subtracts the addresses in 32 bits, which the verifier refuses.
        let held = core::hint::black_box(self.context.data_end() - self.context.data());
        let change = BYTES as i32 - held as i32;
        if change > 0 {
            return None;
        }
        // SAFETY: the context is the one that the kernel gave to this program.
        let status = unsafe { bpf_xdp_adjust_tail(self.context.ctx, change) };
        (status == 0).then(|| self.frame())
    }

    #[expect(unsafe_code, reason = "a counter of this CPU")]
    #[inline(always)]
    fn count(&self, reason: Reason) {
        if let Some(counter) = maps::REASONS.get_ptr_mut(reason as u32) {
            // SAFETY: the value belongs to this CPU, where an XDP program is not interrupted by another.
            bump(unsafe { &mut *counter }, 1);
        }
    }

    #[inline(always)]
    fn count_forwarded(&self, service: u16, engine: u16, bytes: u16, new_flow: bool) {
        if let Some(traffic) = maps::ENGINE_TRAFFIC.get_ptr_mut(u32::from(engine)) {
            add(traffic, bytes, new_flow);
        }
        if let Some(traffic) = maps::SERVICE_TRAFFIC.get_ptr_mut(u32::from(service)) {
            add(traffic, bytes, new_flow);
        }
    }

    #[expect(unsafe_code, reason = "a counter of this CPU")]
    #[inline(always)]
    fn count_refused(&self, service: u16) {
        if let Some(traffic) = maps::SERVICE_TRAFFIC.get_ptr_mut(u32::from(service)) {
            // SAFETY: as for `count`.
            bump(unsafe { &mut (*traffic).refused }, 1);
        }
    }
}
