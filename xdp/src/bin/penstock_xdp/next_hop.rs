//! The next hop of packets whose way the agent does not know: replies, and engines not yet resolved.
//!
//! The FIB costs 140 ns (IPv4) to 300 ns (IPv6), so each CPU remembers its answers for about a second.
use aya_ebpf::{
    bindings::{BPF_FIB_LKUP_RET_NOT_FWDED, BPF_FIB_LKUP_RET_SUCCESS, bpf_fib_lookup as FibLookup},
    helpers::{bpf_fib_lookup, bpf_jiffies64},
    programs::XdpContext,
};
use penstock_abi::{NEXT_HOPS, NextHop, Reason, mac_words};

use crate::maps;

/// At 250 to 1,000 ticks a second: one to four seconds.
const REMEMBERED_FOR: u64 = 1000;
/// Answers without a neighbour are asked for again soon, since the stack resolves it meanwhile.
const UNKNOWN_FOR: u64 = 20;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

#[inline(always)]
fn position(first: u64, second: u64) -> u32 {
    let mixed = (first ^ second.rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as u32 & (NEXT_HOPS as u32 - 1)
}

#[inline(always)]
fn now() -> u64 {
    #[expect(unsafe_code, reason = "a helper of the kernel")]
    // SAFETY: the helper has no preconditions.
    unsafe {
        bpf_jiffies64()
    }
}

/// Out of line: the way back of a packet is not on the measured path of the way there.
#[inline(never)]
pub(crate) fn find4<'k>(context: &XdpContext, source: u32, destination: u32) -> Option<&'k NextHop> {
    let address = [u64::from(destination), 0];
    let place = place(address, 4)?;
    if place.family == 4 && place.address == address && now() < place.expires_at {
        return Some(place);
    }
    let mut query = empty_query(AF_INET, context);
    query.__bindgen_anon_3.ipv4_src = source;
    query.__bindgen_anon_4.ipv4_dst = destination;
    ask(context, &mut query, place);
    place.address = address;
    place.family = 4;
    Some(place)
}

#[inline(never)]
pub(crate) fn find6<'k>(
    context: &XdpContext,
    source: &[u64; 2],
    destination: &[u64; 2],
) -> Option<&'k NextHop> {
    let place = place(*destination, 6)?;
    if place.family == 6 && place.address == *destination && now() < place.expires_at {
        return Some(place);
    }
    let mut query = empty_query(AF_INET6, context);
    query.__bindgen_anon_3.ipv6_src = words(source);
    query.__bindgen_anon_4.ipv6_dst = words(destination);
    ask(context, &mut query, place);
    place.address = *destination;
    place.family = 6;
    Some(place)
}

#[inline(always)]
fn words(address: &[u64; 2]) -> [u32; 4] {
    let [first, second] = [address[0].to_be(), address[1].to_be()];
    [(first >> 32) as u32, first as u32, (second >> 32) as u32, second as u32].map(u32::to_be)
}

#[expect(unsafe_code, reason = "a value of this CPU")]
#[inline(always)]
fn place<'k>(address: [u64; 2], family: u8) -> Option<&'k mut NextHop> {
    let at = position(address[0], address[1].wrapping_add(u64::from(family)));
    // SAFETY: the value belongs to this CPU, where an XDP program is not interrupted by another.
    maps::NEXT_HOPS_OF_CPU.get_ptr_mut(at).map(|place| unsafe { &mut *place })
}

#[inline(always)]
fn empty_query(family: u8, context: &XdpContext) -> FibLookup {
    #[expect(unsafe_code, reason = "a struct of the kernel's ABI, which wants unused fields zero")]
    // SAFETY: all fields are integers and unions of integers.
    let mut query: FibLookup = unsafe { core::mem::zeroed() };
    query.family = family;
    query.ifindex = context.ingress_ifindex() as u32;
    query
}

#[inline(always)]
fn ask(context: &XdpContext, query: &mut FibLookup, place: &mut NextHop) {
    if let Some(counter) = maps::REASONS.get_ptr_mut(Reason::FibLookup as u32) {
        #[expect(unsafe_code, reason = "a counter of this CPU")]
        // SAFETY: the value belongs to this CPU, where an XDP program is not interrupted by another.
        unsafe {
            *counter += 1;
        }
    }
    #[expect(unsafe_code, reason = "a helper of the kernel")]
    // SAFETY: context and query live through the call, and the size is the query's.
    let answer = unsafe { bpf_fib_lookup(context.ctx.cast(), query, size_of::<FibLookup>() as i32, 0) };
    place.way = if answer == i64::from(BPF_FIB_LKUP_RET_SUCCESS) {
        NextHop::FORWARD
    } else if answer == i64::from(BPF_FIB_LKUP_RET_NOT_FWDED) {
        NextHop::LOCAL
    } else {
        NextHop::UNKNOWN
    };
    (place.mac_head, place.mac_tail) = mac_words(query.dmac, query.smac);
    place.ifindex = query.ifindex;
    place.expires_at = now() + if place.way == NextHop::FORWARD { REMEMBERED_FOR } else { UNKNOWN_FOR };
}
