//! `penstock-demo`: a whole fleet on this machine, the same load under three policies, and the comparison.
use std::{path::PathBuf, process::ExitCode};

use clap::Parser;
use penstock_bench::demo::{
    run::{Options, run},
    stop::{Stop, Stopped},
};
use penstock_controller::fleet::fault::{Faults, ReadError};

/// Status of a faulty fleet file or command line. Nothing was started.
const USAGE: u8 = 2;
/// Status after Ctrl-C, as shells have it.
const INTERRUPTED: u8 = 130;

#[derive(Debug, Parser)]
#[command(
    name = "penstock-demo",
    about = "Runs a fleet of network namespaces with real processes, and compares policies under the same load"
)]
struct Arguments {
    /// Another fleet than the three-region example.
    #[arg(long, value_name = "FILE")]
    fleet: Option<PathBuf>,
    /// Measured seconds of each of the three policies.
    #[arg(long, value_name = "N", default_value_t = 9.0, value_parser = positive)]
    seconds: f64,
    /// Also write the result to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Factor on demand and capacity; by default the largest, up to 1, that this machine's CPUs can hold.
    #[arg(long, value_name = "FACTOR", value_parser = positive)]
    scale: Option<f64>,
    /// Tokens that one event of a stream carries after the first token.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    stream_interval: u32,
}

fn main() -> ExitCode {
    let Arguments { fleet, seconds, json, scale, stream_interval } = Arguments::parse();
    let options = Options { fleet, seconds, json, scale, stream_interval };
    let result = Stop::listen().map_err(Into::into).and_then(|stop| run(&options, &stop));
    let Err(error) = result else { return ExitCode::SUCCESS };
    if error.is::<Stopped>() {
        eprintln!("stopped; everything is removed");
        return ExitCode::from(INTERRUPTED);
    }
    eprintln!("error: {error:#}");
    if let Some(ReadError::Faulty { path, faults: Faults(faults) }) = error.downcast_ref() {
        for fault in faults {
            eprintln!("{}:{fault}", path.display());
        }
        return ExitCode::from(USAGE);
    }
    ExitCode::FAILURE
}

fn positive(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|error| format!("{error}"))?;
    if value.is_finite() && value > 0.0 { Ok(value) } else { Err("it must be above 0".to_owned()) }
}
