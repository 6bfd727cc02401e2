//! The command line: one file a command.
mod explain;
mod order;
mod run;
mod status;

use std::{io::Write, path::PathBuf};

use penstock_agent::{config::ConfigError, orders::Order};

/// Where the configuration is looked for.
const CONFIG: &str = "/etc/penstock/agent.toml";

/// The process on a frontend host of an inference load balancer.
#[derive(Debug, clap::Parser)]
#[command(name = "penstock-agent", version)]
pub(crate) enum Command {
    /// Load the data path, follow the controller and report demand.
    Run(run::Run),
    /// Show what this host's agent does.
    Status(status::StatusCommand),
    /// Show where a conversation goes and why, from the live maps.
    Explain(explain::Explain),
    /// Install nothing more until `resume`.
    Freeze(order::Plain),
    /// Send a service's class to one engine until `resume`.
    Pin(order::Pin),
    /// Send every class to its nearest engines until `resume`.
    Nearest(order::Plain),
    /// Take the data path off its devices until `resume`: packets pass to the host stack.
    Detach(order::Plain),
    /// Take all orders back.
    Resume(order::Plain),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ConfigPath {
    /// The agent's file.
    #[arg(long, value_name = "FILE", default_value = CONFIG)]
    config: PathBuf,
}

/// What was asked for does not exist.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(String);

pub(crate) fn run(command: &Command, out: &mut dyn Write) -> anyhow::Result<()> {
    match command {
        Command::Run(run) => run.run(),
        Command::Status(status) => status.run(out),
        Command::Explain(explain) => explain.run(out),
        Command::Freeze(plain) => plain.run(&Order::Freeze, out),
        Command::Pin(pin) => pin.run(out),
        Command::Nearest(plain) => plain.run(&Order::Nearest, out),
        Command::Detach(plain) => plain.run(&Order::Detach, out),
        Command::Resume(plain) => plain.run(&Order::Resume, out),
    }
}

/// Whether the person who typed the command or wrote the file must act.
pub(crate) fn is_usage(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.is::<ConfigError>() || cause.is::<UsageError>())
}
