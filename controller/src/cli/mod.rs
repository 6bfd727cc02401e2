//! The command line: one file a command.
mod agents;
mod ca;
mod check;
mod diff;
mod explain;
mod inputs;
mod replay;
mod rollback;
mod run;
mod solve;
mod status;
mod what_if;

use std::fmt::Write as _;
use std::io::Write;

use penstock_controller::fleet::fault::ReadError;
use penstock_controller::run::service::RunError;
use what_if::WhatIfError;

/// The global process of an inference load balancer.
#[derive(Debug, clap::Parser)]
#[command(name = "penstock-controller", version)]
pub(crate) enum Command {
    /// Report every fault of a fleet file by line and key.
    Check(check::Check),
    /// Run the controller of a fleet.
    Run(run::Run),
    /// Solve the assignment for the demand that a fleet file states.
    Solve(solve::Solve),
    /// Say why each weight is what it is, and what would change it.
    Explain(explain::Explain),
    /// Say what changed between two snapshots, and which input changed it.
    Diff(diff::Diff),
    /// Show the running controller of a fleet file.
    Status(status::Status),
    /// Show every frontend host: its epoch, how far it is behind, what went wrong, what a person ordered.
    Agents(agents::Agents),
    /// Publish what was in force at an earlier epoch, and hold publications until released.
    Rollback(rollback::Rollback),
    /// Solve recorded ticks again and compare every bit.
    Replay(replay::Replay),
    /// Make a small fleet's certificates.
    #[command(subcommand)]
    Ca(ca::Ca),
}

pub(crate) fn run(command: &Command, out: &mut dyn Write) -> anyhow::Result<()> {
    match command {
        Command::Check(check) => check.run(out),
        Command::Run(run) => run.run(),
        Command::Solve(solve) => solve.run(out),
        Command::Explain(explain) => explain.run(out),
        Command::Diff(diff) => diff.run(out),
        Command::Status(status) => status.run(out),
        Command::Agents(agents) => agents.run(out),
        Command::Rollback(rollback) => rollback.run(out),
        Command::Replay(replay) => replay.run(out),
        Command::Ca(ca) => ca.run(out),
    }
}

/// The error and its causes, one a line; a faulty fleet file as `FILE:LINE: KEY: WHAT`, one fault a line.
pub(crate) fn describe(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for (depth, cause) in error.chain().enumerate() {
        let lead = if depth == 0 { "error: " } else { "\ncaused by: " };
        // Writing to a `String` cannot fail.
        _ = write!(text, "{lead}{cause}");
        if let Some(ReadError::Faulty { path, faults }) = cause.downcast_ref() {
            for fault in &faults.0 {
                _ = write!(text, "\n{}:{fault}", path.display());
            }
        }
    }
    text
}

/// Whether the person who typed the command or wrote the file must act.
pub(crate) fn is_usage(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.is::<ReadError>() || cause.is::<WhatIfError>() || is_not_runnable(cause))
}

/// A fleet file without what a running fleet needs.
fn is_not_runnable(cause: &(dyn std::error::Error + 'static)) -> bool {
    matches!(cause.downcast_ref(), Some(RunError::NotRunnable { .. }))
}
