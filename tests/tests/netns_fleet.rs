//! The three-region fleet with real processes and real packets: clients reach engines in the proportions of the
//! assignment, and go on doing so without a controller.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a suite stops at its first failure")]
use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use penstock_bench::{
    load::record::{Outcome, Record, read},
    testbed::fleet::{Clients, Load, Options, Testbed},
};
use penstock_controller::fleet::settings::PolicyName;

/// Demand and capacity are three times the file's, so that the smallest frontend offers 120 requests/s.
const SCALE: f64 = 3.0;
const SECONDS: f64 = 34.0;
/// Requests from here on count: by then the controller has measured this load alone for several seconds.
const COUNTED_FROM: Duration = Duration::from_secs(7);
const MIN_REQUESTS: usize = 3_000;
/// Two points.
const TOLERANCE: f64 = 0.02;
/// The slot hash's key stands in the ledger, so that the same keys fall into the same slots in every run.
const LEDGER: &str = r#"{"epoch":281474976710656,"secret":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16],
    "engines":{"used":{},"freed":{}},"services":{"used":{},"freed":{}}}"#;

/// Weight of each (frontend, group) in the optimum, by the controller's own solver.
fn optimum(testbed: &Testbed, fleet_file: &Path) -> BTreeMap<(String, String), f64> {
    let output = Command::new(&testbed.setup.binaries.controller)
        .args(["solve", "--json"])
        .arg(fleet_file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let rows = report["weights"].as_array().unwrap().iter();
    rows.map(|row| ((text(&row["frontend"]), text(&row["group"])), row["weight"].as_f64().unwrap())).collect()
}

fn counted(record: &Record) -> bool {
    Duration::from_micros(record.at_us) >= COUNTED_FROM
}

#[test]
fn the_split_follows_the_assignment_and_a_killed_controller_loses_no_request() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let text = fs::read_to_string(root.join("examples/talk.toml")).unwrap();
    // Short answers by engines that are never full: the split is in question here, not their latency.
    let options = Options { scale: SCALE, round_trips: Some(2.0), stream_interval: 1, engine_speed: 100.0 };
    let mut testbed = Testbed::build("fleet", &text, options).unwrap();
    let mut control = testbed.start_control("lp", PolicyName::Optimizer, Some(LEDGER)).unwrap();
    let expected = optimum(&testbed, control.fleet_file());
    let clients = Clients {
        seconds: SECONDS,
        seed: 5,
        mean_turns: 1.0,
        ipv4_share: 0.2,
        even: true,
        output_tokens: Some(1),
        prefill_seconds: BTreeMap::new(),
    };

    // The controller comes back under load: the seconds without any would count in its measured demand for a while.
    control.pause_controller(&mut testbed.run).unwrap();
    let start = Instant::now();
    let loads = testbed.start_clients("load", &clients).unwrap();
    wait_until(start + Duration::from_millis(1_500));
    testbed.resume_controller(&mut control).unwrap();
    wait_until(start + Duration::from_secs(20));
    control.controller(&mut testbed.run).kill().unwrap();
    for load in &loads {
        let status = testbed.run.process(load.process).wait_end(Duration::from_secs(60)).unwrap();
        assert!(status.success(), "{}", testbed.run.process(load.process).log().unwrap());
    }

    for (frontend, count) in check(&testbed, &loads, &expected) {
        assert!(count >= MIN_REQUESTS, "frontend {frontend} has only {count} requests");
    }
}

/// No request failed, and each frontend's split is the expected one. Gives the counted requests of each frontend.
fn check(
    testbed: &Testbed,
    loads: &[Load],
    expected: &BTreeMap<(String, String), f64>,
) -> BTreeMap<String, usize> {
    let mut by_engine: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut totals: BTreeMap<String, usize> = BTreeMap::new();
    for load in loads {
        for record in read(&load.records).unwrap() {
            let Outcome::Answered(answered) = &record.outcome else {
                panic!("{} at frontend {} lost a request: {record:?}", load.service, load.frontend)
            };
            if counted(&record) {
                *by_engine.entry((load.frontend.to_string(), answered.engine.clone())).or_default() += 1;
                *totals.entry(load.frontend.to_string()).or_default() += 1;
            }
        }
    }
    for ((frontend, group), weight) in expected {
        let engines: Vec<_> = testbed.fleet.engines_of(&group.as_str().into()).collect();
        let share = |engine: &str| {
            let count = by_engine.get(&(frontend.clone(), engine.to_owned())).copied().unwrap_or(0);
            count as f64 / totals[frontend] as f64
        };
        let measured: f64 = engines.iter().map(|engine| share(engine.id.as_str())).sum();
        assert!((measured - weight).abs() < TOLERANCE, "{frontend} -> {group}: {measured} is not {weight}");
        for engine in &engines {
            let (measured, weight) = (share(engine.id.as_str()), weight / engines.len() as f64);
            assert!(
                (measured - weight).abs() < TOLERANCE,
                "{frontend} -> {}: {measured} is not {weight}",
                engine.id
            );
        }
    }
    totals
}

fn wait_until(time: Instant) {
    while let Some(left) = time.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        thread::park_timeout(left);
    }
}
