//! What `cargo xtask bench xdp` loads beside the packet door: a harness, and the floors that figures are held against.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]

#[cfg(target_arch = "bpf")]
mod floors;
#[cfg(target_arch = "bpf")]
mod harness;

#[cfg(not(target_arch = "bpf"))]
fn main() {
    eprintln!("this is a kernel program: build it for bpfel-unknown-none, with `cargo xtask build`");
}

#[cfg(target_arch = "bpf")]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    #[expect(clippy::empty_loop, reason = "unreachable: the verifier refuses a program that could panic")]
    loop {}
}

#[cfg(target_arch = "bpf")]
#[expect(unsafe_code, reason = "the section in which the kernel looks for the licence")]
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
