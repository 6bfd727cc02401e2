//! `penstock-controller`: checks fleet files, solves them offline, and runs the global process.
mod cli;

use std::process::ExitCode;

use clap::Parser as _;

/// Status of a faulty fleet file or command line. Nothing was started.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let command = cli::Command::parse();
    match cli::run(&command, &mut std::io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", cli::describe(&error));
            if cli::is_usage(&error) { ExitCode::from(USAGE) } else { ExitCode::FAILURE }
        }
    }
}
