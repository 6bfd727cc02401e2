//! Faulty files end a process with status 2 and the place of each fault, before anything is started.
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use penstock_bench::testbed::binaries::Binaries;

const TALK: &str = include_str!("../../examples/talk.toml");

/// Runs `program` with `arguments` and the text as its file.
fn run(program: &Path, arguments: &[&str], name: &str, text: &str) -> (Output, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let file = folder.path().join(name);
    fs::write(&file, text).expect("the temporary folder can be written");
    let output = Command::new(program).args(arguments).arg(&file).output().expect("the program was built");
    (output, file)
}

/// The line of `text` on which the `nth` occurrence of `part` stands.
fn line_of(text: &str, part: &str, nth: usize) -> usize {
    let (at, _) = text.match_indices(part).nth(nth).expect("the part stands in the text");
    text[..at].matches('\n').count() + 1
}

#[test]
fn every_fault_of_a_fleet_file_is_named_by_line_and_key_with_status_2() {
    let controller = Binaries::find().expect("`cargo xtask test` builds the programs").controller;
    // (what is wrong, what it replaces, what the line holds then, words of the message)
    let faults = [
        ("an unknown key", "headroom = 0.05", "headrom = 0.05", "headrom"),
        ("a negative number", "rps = 90.0", "rps = -90.0", "rps"),
        ("a number that is none", "rps = 120.0", "rps = nan", "rps"),
        ("an unknown site", "site = \"region-3\"\nmodel", "site = \"region-9\"\nmodel", "region-9"),
        (
            "a class without engines",
            "model = \"chat-70b\"\npriority",
            "model = \"other\"\npriority",
            "class[0]",
        ),
        (
            "an RTT given twice and differently",
            "region-2.region-3 = 40.0",
            "region-2.region-3 = 40.0\nregion-3.region-2 = 41.0",
            "region-",
        ),
    ];
    for (what, good, bad, word) in faults {
        let text = TALK.replacen(good, bad, 1);
        assert_ne!(text, TALK, "{what} is not in the file");

        for command in ["check", "solve", "run"] {
            let (output, file) = run(&controller, &[command], "fleet.toml", &text);

            let message = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{command}: {what}: {message}");
            let place = format!("{}:", file.display());
            let located = message.lines().any(|line| {
                let number = line.strip_prefix(&place).and_then(|rest| rest.split(':').next());
                line.contains(word) && number.is_some_and(|number| number.parse::<usize>().is_ok())
            });
            assert!(located, "{command}: {what}: no line with {word} in {message}");
        }
    }
}

#[test]
fn two_faults_of_a_fleet_file_are_both_reported_at_their_lines() {
    let controller = Binaries::find().expect("`cargo xtask test` builds the programs").controller;
    let text = TALK.replacen("rps = 90.0", "rps = -1.0", 1).replacen("rps = 40.0", "rps = inf", 1);

    let (output, file) = run(&controller, &["check"], "fleet.toml", &text);

    let message = String::from_utf8_lossy(&output.stderr);
    for part in ["rps = -1.0", "rps = inf"] {
        let place = format!("{}:{}:", file.display(), line_of(&text, part, 0));
        assert!(message.contains(&place), "{place} is missing in {message}");
    }
}

#[test]
fn a_faulty_agent_file_ends_with_status_2_and_its_line() {
    let agent = Binaries::find().expect("`cargo xtask test` builds the programs").agent;
    let good = "host = \"h\"\ncontrollers = [\"10.0.0.1:7460\"]\ndevice = \"eth0\"\nstate_dir = \"state\"\n\
                [tls]\nca = \"ca.pem\"\ncert = \"cert.pem\"\nkey = \"key.pem\"\n";
    for (bad, place) in [
        (good.replace("device", "devices"), "line 3"),
        (good.replace("10.0.0.1:7460", "10.0.0.1"), ":2: controllers"),
        (good.replace("\"h\"", "\"\""), ":1: host"),
    ] {
        let (output, _) = run(&agent, &["run"], "agent.toml", &bad);

        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(place), "{place} is missing in {message}");
    }
}
