//! Gives the program under test a fresh packet each time: `BPF_PROG_TEST_RUN` repeats on what the last run left.
use aya_ebpf::{
    bindings::xdp_action::XDP_ABORTED,
    btf_maps::{Array, ProgramArray},
    helpers::bpf_xdp_adjust_head,
    macros::{btf_map, xdp},
    programs::XdpContext,
};
use penstock_xdp::{
    frame::Frame,
    harness::{Setup, TEMPLATE_WORDS},
};

#[btf_map]
static UNDER_TEST: ProgramArray<1> = ProgramArray::new();
#[btf_map]
static SETUP: Array<Setup, 1> = Array::new();

/// Spreads consecutive numbers, so that flows come in no order.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

#[expect(unsafe_code, reason = "packet and map memory")]
#[inline(always)]
fn frame(context: &XdpContext) -> Frame<'_> {
    // SAFETY: the kernel lends the packet to this program; a resized packet gets a new frame.
    unsafe { Frame::from_addresses(context.data(), context.data_end()) }
}

/// Restores length and headers, varies the flow, and goes on to the program under test.
#[expect(unsafe_code, reason = "helpers of the kernel, and the one writer of its setup")]
#[xdp]
pub(crate) fn harness(context: XdpContext) -> u32 {
    let Some(setup) = SETUP.get_ptr_mut(0) else {
        return XDP_ABORTED;
    };
    // SAFETY: one CPU runs the harness, and user space writes between runs.
    let setup = unsafe { &mut *setup };
    // Opaque, or else the compiler subtracts the addresses in 32 bits, which the verifier refuses.
    let held = core::hint::black_box(context.data_end() - context.data());
    let grown = held as i32 - setup.length as i32;
    // SAFETY: the context is the one that the kernel gave to this program.
    if grown != 0 && unsafe { bpf_xdp_adjust_head(context.ctx, grown) } != 0 {
        return XDP_ABORTED;
    }
    let number = setup.sequence;
    setup.sequence = number.wrapping_add(1);
    let flow = if setup.flows == 0 {
        number as u32
    } else {
        (number.wrapping_mul(SPREAD) >> 20) as u32 & (setup.flows - 1)
    };
    let packet = frame(&context);
    let filled = if setup.is_v6 == 0 { fill4(&packet, setup, flow) } else { fill6(&packet, setup, flow) };
    if filled.is_none() {
        return XDP_ABORTED;
    }
    // SAFETY: the map holds programs of the same type.
    unsafe { UNDER_TEST.tail_call(&context, 0) };
    XDP_ABORTED
}

macro_rules! store_words {
    ($window:expr, $template:expr, $($word:literal)+) => {
        $($window.store::<u64, { $word * 8 }>($template[$word]);)+
    };
}

const _: () = assert!(TEMPLATE_WORDS == 10);

#[inline(always)]
fn fill4(packet: &Frame<'_>, setup: &Setup, flow: u32) -> Option<()> {
    let window = packet.window::<64>(0)?;
    store_words!(window, setup.template, 0 1 2 3 4 5 6 7);
    window.store::<u32, 26>((0x0a00_0000 | flow & 0x00ff_ffff).to_be());
    window.store::<u16, 34>((1024 + (flow >> 24) as u16).to_be());
    Some(())
}

#[inline(always)]
fn fill6(packet: &Frame<'_>, setup: &Setup, flow: u32) -> Option<()> {
    let window = packet.window::<80>(0)?;
    store_words!(window, setup.template, 0 1 2 3 4 5 6 7 8 9);
    window.store::<u32, 34>((flow & 0x00ff_ffff).to_be());
    window.store::<u32, 50>((flow & 0x00ff_ffff).to_be());
    window.store::<u16, 54>((1024 + (flow >> 24) as u16).to_be());
    Some(())
}
