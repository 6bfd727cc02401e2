//! Builds the kernel object and the binaries, and lays the object beside the binaries that load it.
use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use crate::{
    setup::KernelToolchain,
    shell::{Step, cargo, find_program},
};

/// What the kernel object is called beside the binaries.
const OBJECT: &str = "penstock-xdp.o";
/// Separates arguments in `CARGO_ENCODED_RUSTFLAGS`.
const FLAG_SEPARATOR: &str = "\x1f";
/// All of the workspace that the host's compiler builds. Build and test select the same packages, so that cargo
/// resolves the same features and compiles each crate once.
pub(crate) const HOST_PACKAGES: &[&str] = &["--workspace", "--exclude", "penstock-xdp"];

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Profile {
    Dev,
    Release,
}

impl Profile {
    fn folder(self) -> &'static str {
        match self {
            Self::Dev => "debug",
            Self::Release => "release",
        }
    }
}

/// The workspace's folder.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_owned()
}

/// A built binary.
pub(crate) fn binary(profile: Profile, name: &str) -> Result<PathBuf> {
    let file = target().join(profile.folder()).join(name);
    if !file.is_file() {
        bail!("{} was not built", file.display());
    }
    Ok(file)
}

/// Kernel object and host binaries.
pub(crate) fn all(profile: Profile, kernel: &KernelToolchain) -> Result<()> {
    let object = kernel_object(kernel)?;
    // The tests' own dependencies change features of shared crates: built together, each crate is compiled once.
    let flags: &[&str] = if profile == Profile::Release { &["--release"] } else { &["--all-targets"] };
    cargo().args(["build"]).args(HOST_PACKAGES).args(flags).run()?;
    let beside = target().join(profile.folder()).join(OBJECT);
    fs::copy(&object, &beside)
        .with_context(|| format!("copying {} to {}", object.display(), beside.display()))?;
    Ok(())
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Compiles the kernel program in a target folder of its own: another compiler would rebuild the host's crates.
fn kernel_object(kernel: &KernelToolchain) -> Result<PathBuf> {
    let folder = target().join("bpf");
    let Some(linker) = find_program("bpf-linker") else {
        bail!("bpf-linker is missing: run `cargo xtask setup`");
    };
    let flags = [
        "-Clink-arg=--btf".to_owned(),
        format!("-Clinker={}", linker.display()),
        "-Cdebuginfo=2".to_owned(),
        "-Cpanic=abort".to_owned(),
        "-Ctarget-cpu=v3".to_owned(),
        "--cfg=bpf_target_arch=\"x86_64\"".to_owned(),
    ];
    let build = match kernel {
        KernelToolchain::Nightly => Step::new("rustup")
            .args(["run", "nightly", "cargo", "build", "-Zbuild-std=core"])
            .without_env("RUSTC"),
        KernelToolchain::DebianRustc => {
            cargo().args(["build"]).env("RUSTC", "/usr/bin/rustc").env("RUSTC_BOOTSTRAP", "1")
        }
    };
    build
        .args([
            "--package",
            "penstock-xdp",
            "--bins",
            "--release",
            "--target",
            "bpfel-unknown-none",
            "--target-dir",
        ])
        .args([&folder])
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join(FLAG_SEPARATOR))
        .without_env("RUSTUP_TOOLCHAIN")
        .run()
        .context("the kernel program was not built")?;
    Ok(folder.join("bpfel-unknown-none/release/penstock-xdp"))
}
