//! `penstock-bench`: runs one suite, prints its rows and writes them as JSON.
use std::{fs::File, io::Write, path::PathBuf, process::ExitCode};

use anyhow::Context;
use clap::Parser;
use penstock_bench::{
    row::{Report, print_table},
    suite::{Options, SUITES},
};

#[derive(Debug, Parser)]
#[command(
    name = "penstock-bench",
    about = "Measures one part of Penstock beside a floor or a peer in the same run"
)]
struct Arguments {
    /// Which suite; `list` names them.
    suite: String,
    /// Fewer repetitions and smaller cases.
    #[arg(long)]
    quick: bool,
    /// Also write the rows to this file as {"rows": [..]}.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Agents of the delivery suite.
    #[arg(long, value_name = "N")]
    agents: Option<usize>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut out = std::io::stdout().lock();
    if arguments.suite == "list" {
        for (name, about, _) in SUITES {
            // A closed pipe ends the listing early, which is what its reader wants.
            if writeln!(out, "{name:<10} {about}").is_err() {
                break;
            }
        }
        return ExitCode::SUCCESS;
    }
    let Some((_, _, run)) = SUITES.iter().find(|(name, ..)| *name == arguments.suite) else {
        let known: Vec<_> = SUITES.iter().map(|(name, ..)| *name).collect();
        eprintln!("error: no suite is named {:?}; known: {}", arguments.suite, known.join(", "));
        return ExitCode::from(2);
    };
    let options = Options { quick: arguments.quick, agents: arguments.agents };
    let outcome = run(&options).and_then(|rows| {
        print_table(&mut out, &rows).context("printing the rows")?;
        if let Some(path) = &arguments.json {
            let file = File::create(path).with_context(|| format!("creating {}", path.display()))?;
            serde_json::to_writer_pretty(file, &Report { rows: &rows })
                .with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(())
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
