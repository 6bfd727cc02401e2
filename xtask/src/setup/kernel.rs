//! The compiler of the kernel program: a rustc with `core` for BPF, and `bpf-linker` of the same LLVM.
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::packages;
use crate::shell::{Step, cargo, find_program};

/// A rustc that can build the kernel program.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum KernelToolchain {
    /// A nightly of rustup with `rust-src`; `core` is built along.
    Nightly,
    /// Debian 12's `rustc-web`, whose `core` for BPF is ready-made.
    DebianRustc,
}

const RUSTC_PACKAGES: &[&str] = &["rustc-web", "libstd-rust-web-dev-bpf"];
const LLVM_PACKAGES: &[&str] = &["llvm-22-dev", "libpolly-22-dev"];
const LLVM_PREFIX: &str = "/usr/lib/llvm-22";
const LINKER_VERSION: &str = "0.13.0";

/// Finds or installs the toolchain, and says which it is.
pub(crate) fn provide() -> Result<KernelToolchain> {
    let toolchain = find().map_or_else(install, Ok)?;
    let name = match toolchain {
        KernelToolchain::Nightly => "rustup's nightly with rust-src",
        KernelToolchain::DebianRustc => "Debian's rustc-web",
    };
    println!("setup: the kernel program is built by {name}");
    provide_linker()?;
    Ok(toolchain)
}

fn find() -> Option<KernelToolchain> {
    if nightly_has_source() {
        return Some(KernelToolchain::Nightly);
    }
    packages::present(RUSTC_PACKAGES).then_some(KernelToolchain::DebianRustc)
}

fn nightly_has_source() -> bool {
    let Some(sysroot) =
        Step::new("rustc").args(["+nightly", "--print", "sysroot"]).env("RUSTUP_AUTO_INSTALL", "0").output()
    else {
        return false;
    };
    Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library/core/src/lib.rs").exists()
}

fn install() -> Result<KernelToolchain> {
    if find_program("rustup").is_some() {
        println!("setup: asking rustup for a nightly toolchain with rust-src");
        let nightly = Step::new("rustup")
            .args(["toolchain", "install", "nightly", "--profile", "minimal", "--component", "rust-src"])
            .succeeds();
        if nightly && nightly_has_source() {
            return Ok(KernelToolchain::Nightly);
        }
        println!("setup: rustup has none to give");
    }
    if !packages::on_debian_12() {
        bail!(
            "the kernel program needs a nightly Rust with its source: run `rustup toolchain install nightly --component rust-src` \
             where the network allows it (only Debian 12 has a ready-made rustc for BPF)"
        );
    }
    packages::install("the kernel program's compiler", RUSTC_PACKAGES)?;
    Ok(KernelToolchain::DebianRustc)
}

fn provide_linker() -> Result<()> {
    if let Some(linker) = find_program("bpf-linker")
        && let Some(version) = Step::new(&linker).args(["--version"]).output()
        && version.trim().ends_with(LINKER_VERSION)
    {
        return Ok(());
    }
    if !packages::present(LLVM_PACKAGES) {
        packages::install("LLVM 22, for bpf-linker", LLVM_PACKAGES)?;
    }
    println!("setup: building bpf-linker {LINKER_VERSION}, about a minute");
    cargo()
        .args([
            "install",
            "bpf-linker",
            "--version",
            LINKER_VERSION,
            "--no-default-features",
            "--features",
            "llvm-22",
        ])
        .env("LLVM_PREFIX", LLVM_PREFIX)
        .run()
        .context(
            "bpf-linker needs crates.io, a C++ compiler (Debian: g++) and LLVM 22 under /usr/lib/llvm-22",
        )
}
