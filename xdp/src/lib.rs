//! The in-kernel data path, one file per stage, in the order in which a packet meets them: [`parse`], [`key`],
//! [`slot`], [`flow`], [`rewrite`], [`verdict`]. [`path`] puts them together.
//!
//! Stages see the kernel through the trait [`kernel::Kernel`], so they run on the host too, in unit tests. The
//! programs that the kernel loads are under `bin`.
//!
//! # Building the object
//!
//! `cargo xtask build` does this. With a rustc that has `core` for BPF (Debian's `rustc-web`):
//!
//! ```sh
//! RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 \
//! CARGO_ENCODED_RUSTFLAGS="$(printf '%s\037' -Clinker=bpf-linker -Clink-arg=--btf -Cdebuginfo=2 -Cpanic=abort \
//!     --cfg='bpf_target_arch="x86_64"')-Ctarget-cpu=v3" \
//! cargo build --package penstock-xdp --release --target bpfel-unknown-none --bins --target-dir target/bpf
//! ```
//!
//! With rustup's nightly and `rust-src`: the same with `cargo +nightly`, without `RUSTC` and `RUSTC_BOOTSTRAP`, and
//! with `-Z build-std=core`. The object is `target/bpf/bpfel-unknown-none/release/penstock-xdp`.
#![cfg_attr(not(test), no_std)]

pub mod checksum;
pub mod flow;
pub mod frame;
pub mod harness;
pub mod kernel;
pub mod key;
pub mod parse;
pub mod path;
mod path4;
mod path6;
mod quoted;
pub mod rewrite;
pub mod shared;
pub mod slot;
pub mod verdict;
