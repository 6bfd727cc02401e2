//! `cargo xtask`: set-up, build, demo, tests and benches, each from a fresh clone.
#![expect(clippy::print_stdout, reason = "the front end of a command-line tool")]

mod build;
mod setup;
mod shell;
mod test;

use anyhow::Result;
use clap::{Parser, Subcommand};

use build::Profile;
use shell::Step;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Sets up, builds, shows, tests and measures Penstock")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Installs what is missing: packages, the kernel toolchain, bpffs. Needs root.
    Setup,
    /// Builds the kernel object and the release binaries.
    Build,
    /// Sets up, builds and runs the three-region fleet; arguments go to the demo (`--help` lists them).
    Demo {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
    /// Sets up, builds and runs every test; arguments filter test names.
    Test {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
    /// Sets up, builds and runs one bench suite; `list` names them.
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
    /// Formatting, clippy over the workspace, and `deny.toml` where cargo-deny is installed.
    Lint,
}

fn main() -> Result<()> {
    match Arguments::parse().command {
        Command::Setup => setup::all().map(drop),
        Command::Build => {
            let kernel = setup::all()?;
            build::all(Profile::Release, &kernel)
        }
        Command::Demo { rest } => {
            let kernel = setup::all()?;
            build::all(Profile::Release, &kernel)?;
            Step::new(build::binary(Profile::Release, "penstock-demo")?).args(rest).hand_over()
        }
        Command::Test { rest } => {
            let kernel = setup::all()?;
            setup::provide_sdks()?;
            test::all(&kernel, &rest)
        }
        Command::Bench { rest } => {
            let kernel = setup::all()?;
            setup::bench_peers(rest.first().map(String::as_str))?;
            build::all(Profile::Release, &kernel)?;
            Step::new(build::binary(Profile::Release, "penstock-bench")?).args(rest).hand_over()
        }
        Command::Lint => test::lint(),
    }
}
