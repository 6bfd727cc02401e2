//! Debian packages, where the machine has them.
use anyhow::{Context, Result, bail};

use crate::shell::{Step, find_program};

/// Installs Debian packages; elsewhere fails with their names.
pub(crate) fn install(purpose: &str, packages: &[&str]) -> Result<()> {
    if find_program("apt-get").is_none() {
        bail!(
            "{purpose}: install what Debian calls {} with this system's package manager",
            packages.join(" ")
        );
    }
    println!("setup: {purpose}: installing the Debian packages {}", packages.join(" "));
    let apt = || Step::new("apt-get").env("DEBIAN_FRONTEND", "noninteractive");
    apt().args(["update", "-qq"]).run().context("package lists cannot be fetched: check the network")?;
    apt().args(["install", "-y", "-qq", "--no-install-recommends"]).args(packages).run().with_context(|| {
        format!("install by hand: apt-get install --no-install-recommends {}", packages.join(" "))
    })
}

/// Whether every package is installed.
pub(crate) fn present(packages: &[&str]) -> bool {
    let Some(states) =
        Step::new("dpkg-query").args(["-W", "-f", "${db:Status-Abbrev}\n"]).args(packages).output()
    else {
        return false;
    };
    states.lines().filter(|state| state.starts_with("ii")).count() == packages.len()
}

/// Whether this is Debian 12.
pub(crate) fn on_debian_12() -> bool {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let has = |line: &str| release.lines().any(|found| found == line);
    has("ID=debian") && has("VERSION_ID=\"12\"")
}
