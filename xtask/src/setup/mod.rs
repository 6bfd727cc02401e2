//! Brings a machine to the state that the build, the tests and the demo need. Each step says what it does before it
//! does it, skips what is there, and fails with the remedy.
mod kernel;
mod packages;

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};

pub(crate) use kernel::KernelToolchain;

use crate::shell::{Step, find_program};

/// Programs that tests and demo call, with the Debian package that has each.
const PROGRAMS: &[(&str, &str)] = &[
    ("ip", "iproute2"),
    ("ethtool", "ethtool"),
    ("nsenter", "util-linux"),
    ("sysctl", "procps"),
    ("curl", "curl"),
    ("cc", "gcc"),
];

/// Everything that build, demo and tests need.
pub(crate) fn all() -> Result<KernelToolchain> {
    require_linux_root()?;
    let missing: Vec<_> = PROGRAMS
        .iter()
        .filter(|(program, _)| find_program(program).is_none())
        .map(|(_, package)| *package)
        .collect();
    if !missing.is_empty() {
        packages::install("programs that the tests and the demo call", &missing)?;
    }
    mount_bpffs()?;
    require_bpf()?;
    kernel::provide()
}

/// What a suite compares with, where that does not come with the build.
pub(crate) fn bench_peers(suite: Option<&str>) -> Result<()> {
    match suite {
        Some("solver") => provide_highs(),
        _ => Ok(()),
    }
}

fn require_linux_root() -> Result<()> {
    if !cfg!(target_os = "linux") {
        bail!("Penstock's data path needs Linux; plain `cargo build` and `cargo test` work without it");
    }
    if !nix::unistd::geteuid().is_root() {
        bail!(
            "this needs root (packages, network namespaces, BPF): run it as root, or as `sudo -E env PATH=$PATH cargo xtask ..`; \
             plain `cargo build` and `cargo test` work without root"
        );
    }
    Ok(())
}

/// Pinned maps live in bpffs.
fn mount_bpffs() -> Result<()> {
    const BPFFS: &str = "/sys/fs/bpf";
    let mounts = fs::read_to_string("/proc/mounts").context("reading /proc/mounts")?;
    let mounted = mounts.lines().any(|line| {
        let mut fields = line.split(' ').skip(1);
        fields.next() == Some(BPFFS) && fields.next() == Some("bpf")
    });
    if mounted {
        return Ok(());
    }
    println!("setup: mounting bpffs on {BPFFS}");
    Step::new("mount").args(["-t", "bpf", "bpf", BPFFS]).run().context(
        "bpffs cannot be mounted: the kernel needs CONFIG_BPF_SYSCALL, and a container needs CAP_SYS_ADMIN",
    )
}

fn require_bpf() -> Result<()> {
    const BTF: &str = "/sys/kernel/btf/vmlinux";
    if !Path::new(BTF).exists() {
        bail!(
            "{BTF} is missing: the kernel program needs a kernel of 6.1 or later with CONFIG_DEBUG_INFO_BTF=y"
        );
    }
    Ok(())
}

/// HiGHS for the solver suite, through its Python wheel in a folder of the target folder.
fn provide_highs() -> Result<()> {
    let folder = crate::build::root().join("target/highs");
    let python = folder.join("bin/python3");
    if Step::new(&python).args(["-c", "import highspy"]).succeeds() {
        return Ok(());
    }
    if !Step::new("python3").args(["-c", "import venv, ensurepip"]).succeeds() {
        packages::install("Python, for the solver suite's peer", &["python3", "python3-venv"])?;
    }
    println!("setup: installing highspy into {}", folder.display());
    Step::new("python3").args(["-m", "venv"]).args([&folder]).run()?;
    Step::new(&python)
        .args(["-m", "pip", "install", "--quiet", "highspy==1.16.0", "numpy"])
        .run()
        .context("HiGHS comes from PyPI: make the registry reachable, then run this again")
}
