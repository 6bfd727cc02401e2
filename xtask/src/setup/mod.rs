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

/// The SDKs that tests call.
const PYTHON_SDK: &str = "openai==3.57.0";
const NODE_SDK: &str = "openai@6.49.0";

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
        Some("proxy") => provide_proxies(),
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

/// The proxies that the HTTP door is measured with.
fn provide_proxies() -> Result<()> {
    let missing: Vec<_> = [("haproxy", "haproxy"), ("nginx", "nginx-light"), ("taskset", "util-linux")]
        .into_iter()
        .filter(|(program, _)| find_program(program).is_none())
        .map(|(_, package)| package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    packages::install("proxies that the suite compares with", &missing)?;
    // Debian starts what it installs. Where there is no systemd, nothing was started.
    for service in ["haproxy", "nginx"] {
        Step::new("systemctl").args(["disable", "--now", service]).succeeds();
    }
    Ok(())
}

/// OpenAI's SDKs for the tests of the HTTP door, each in a folder of the target folder.
pub(crate) fn provide_sdks() -> Result<()> {
    let folder = crate::build::root().join("target/sdk");
    let python = folder.join("python/bin/python3");
    if !Step::new(&python).args(["-c", "import openai"]).succeeds() {
        if !Step::new("python3").args(["-c", "import venv, ensurepip"]).succeeds() {
            packages::install("Python, for OpenAI's SDK", &["python3", "python3-venv"])?;
        }
        println!("setup: installing OpenAI's Python SDK into {}", folder.display());
        Step::new("python3").args(["-m", "venv"]).args([&folder.join("python")]).run()?;
        Step::new(&python)
            .args(["-m", "pip", "install", "--quiet", PYTHON_SDK])
            .run()
            .context("the SDK comes from PyPI: make the registry reachable, then run this again")?;
    }
    if !folder.join("node/node_modules/openai").exists() {
        if find_program("npm").is_none() {
            packages::install("Node, for OpenAI's SDK", &["nodejs", "npm"])?;
        }
        println!("setup: installing OpenAI's Node SDK into {}", folder.display());
        Step::new("npm")
            .args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"])
            .args([folder.join("node").as_os_str(), NODE_SDK.as_ref()])
            .run()
            .context("the SDK comes from npm: make the registry reachable, then run this again")?;
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
