//! `penstock-agent`: the process on a frontend host, and the questions and orders of a person there.
mod cli;

use std::process::ExitCode;

use clap::Parser as _;

/// Status of a faulty configuration or command line. Nothing was started.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let command = cli::Command::parse();
    match cli::run(&command, &mut std::io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            if cli::is_usage(&error) { ExitCode::from(USAGE) } else { ExitCode::FAILURE }
        }
    }
}
