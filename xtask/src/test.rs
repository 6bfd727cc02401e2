//! Runs every tier of tests, and the lints.
use std::path::Path;

use anyhow::{Context, Result};

use crate::{
    build::{self, HOST_PACKAGES, Profile},
    setup::KernelToolchain,
    shell::{Step, cargo, find_program},
};

/// Unit, property and sim tests first, then those that need the kernel, one at a time: they share two cores with the
/// processes that they start.
pub(crate) fn all(kernel: &KernelToolchain, filters: &[String]) -> Result<()> {
    cargo().args(["fmt", "--all", "--check"]).run().context("run `cargo fmt --all`")?;
    build::all(Profile::Dev, kernel)?;
    cargo().args(["test"]).args(HOST_PACKAGES).args(["--lib", "--bins"]).args(filters).run()?;
    cargo()
        .args(["test"])
        .args(HOST_PACKAGES)
        .args(["--test", "*"])
        .args(filters)
        .env("RUST_TEST_THREADS", "1")
        .run()
}

/// Formatting, clippy and the layer and licence rules.
pub(crate) fn lint() -> Result<()> {
    cargo().args(["fmt", "--all", "--check"]).run().context("run `cargo fmt --all`")?;
    cargo().args(["clippy"]).args(HOST_PACKAGES).args(["--all-targets", "--", "-D", "warnings"]).run()?;
    match find_program("cargo-deny") {
        Some(deny) => deny_rules(&deny),
        None => {
            println!("lint: deny.toml was not checked: `cargo install cargo-deny --locked` brings the tool");
            Ok(())
        }
    }
}

fn deny_rules(deny: &Path) -> Result<()> {
    Step::new(deny).args(["--workspace", "check", "bans", "licenses", "sources"]).run()
}
