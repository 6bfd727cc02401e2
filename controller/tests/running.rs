//! The controller's process: what a person sees of it while it runs, and how it ends.
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::Duration;

use penstock_controller::ca::{self, Subject};
use tempfile::TempDir;

const TALK: &str = include_str!("../../examples/talk.toml");
const DAY: Duration = Duration::from_secs(86_400);

/// A fleet file that can run, in a folder of its own.
struct Fleet {
    folder: TempDir,
}

impl Fleet {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let authority = folder.path().join("ca");
        ca::init(&authority, DAY).expect("an authority");
        let subject = Subject::Controller { names: vec![] };
        ca::issue(&authority, &subject, DAY, &folder.path().join("tls")).expect("a certificate");
        let text = format!(
            "{TALK}\n[controller]\nlisten = \"127.0.0.1:0\"\nmetrics = \"127.0.0.1:0\"\nstate_dir = \"state\"\n\
             tls = {{ ca = \"tls/ca.pem\", certificate = \"tls/cert.pem\", key = \"tls/key.pem\" }}\n"
        );
        std::fs::write(folder.path().join("fleet.toml"), text).expect("a fleet file");
        Self { folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("fleet.toml")
    }
}

fn controller(arguments: &[&str], path: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_penstock-controller"));
    command.arg(arguments[0]).arg(path).args(&arguments[1..]).env("RUST_LOG", "info");
    command
}

fn output(arguments: &[&str], path: &Path) -> Output {
    controller(arguments, path).output().expect("the controller's binary starts")
}

fn json(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// A running controller, ended when dropped.
struct Running {
    process: Child,
    log: BufReader<ChildStderr>,
}

impl Running {
    fn start(fleet: &Fleet) -> Self {
        let mut process =
            controller(&["run"], &fleet.path()).stderr(Stdio::piped()).spawn().expect("the binary starts");
        let log = BufReader::new(process.stderr.take().expect("a piped log"));
        Self { process, log }
    }

    /// Reads the log until a line has this text.
    fn line_with(&mut self, text: &str) -> String {
        let mut seen = String::new();
        loop {
            let mut line = String::new();
            let length = self.log.read_line(&mut line).expect("a log of text");
            assert!(length > 0, "the log ended without {text:?}: {seen}");
            if line.contains(text) {
                return line;
            }
            seen += &line;
        }
    }

    fn terminate(&mut self) -> Option<i32> {
        let process = i32::try_from(self.process.id()).expect("a process id");
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(process), nix::sys::signal::Signal::SIGTERM)
            .expect("the process is there");
        self.process.wait().expect("an exit status").code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // An error means that it ended already.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

#[test]
fn a_running_controller_shows_its_plan_explains_it_and_can_be_replayed() {
    let fleet = Fleet::new();
    let mut running = Running::start(&fleet);
    let metrics = running.line_with("metrics are served");
    running.line_with("snapshot published");

    let status = json(&output(&["status", "--json"], &fleet.path()));
    let explained = json(&output(&["explain", "--running", "--frontend", "B", "--json"], &fleet.path()));
    let drained = json(&output(&["solve", "--running", "--drain", "engine-c", "--json"], &fleet.path()));
    let address = metrics.rsplit_once("address=").unwrap().1.trim().to_owned();
    let mut scrape = TcpStream::connect(address).unwrap();
    scrape.write_all(b"GET /metrics HTTP/1.1\r\nhost: controller\r\n\r\n").unwrap();
    let mut page = String::new();
    scrape.read_to_string(&mut page).unwrap();
    let code = running.terminate();
    let replayed = output(&["replay"], &fleet.folder.path().join("state/records"));

    assert_eq!((status["mode"].as_str(), status["epoch"].as_str()), (Some("planned"), Some("1.1")));
    assert_eq!(status["published"].as_array().unwrap().len(), 5);
    let sentence = explained["pairs"][2]["sentence"].as_str().unwrap();
    assert!(sentence.starts_with("B sends 25.6 % to engine-c"), "{sentence}");
    // 250 requests/s, and room for 190 without engine-c.
    let shed: f64 = drained["shed"].as_array().unwrap().iter().map(|row| row["rps"].as_f64().unwrap()).sum();
    assert!((shed - 60.0).abs() < 1e-6, "{shed}");
    assert!(page.starts_with("HTTP/1.1 200 OK"), "{page}");
    assert!(page.contains("\npenstock_controller_publishes_total 1\n"), "{page}");
    assert!(
        page.contains(
            "penstock_controller_weight_ratio{frontend=\"C\",class=\"chat\",group=\"engine-c\"} 1\n"
        )
    );
    assert_eq!(code, Some(0));
    let text = String::from_utf8_lossy(&replayed.stdout);
    assert!(replayed.status.success() && text.contains("identical bit by bit"), "{text}");
    assert!(!fleet.folder.path().join("state/admin.sock").exists());
}

#[test]
fn a_faulty_file_starts_nothing_and_exits_with_2() {
    let fleet = Fleet::new();
    let faulty = std::fs::read_to_string(fleet.path()).unwrap().replace("rps = 90.0", "rps = -90.0");
    std::fs::write(fleet.path(), faulty).unwrap();

    for command in ["check", "run", "solve", "explain"] {
        let output = output(&[command], &fleet.path());

        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{command}: {error}");
        assert!(error.contains("demand[0].rps: -90 is negative"), "{command}: {error}");
    }
    assert!(!fleet.folder.path().join("state").exists());
}

#[test]
fn a_file_for_offline_solving_does_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fleet.toml");
    std::fs::write(&path, TALK).unwrap();

    let output = output(&["run"], &path);

    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("the fleet file lacks controller.tls"));
}

#[test]
fn flags_that_fit_no_part_of_the_fleet_exit_with_2() {
    let fleet = Fleet::new();

    for (flag, value, text) in [
        ("--replicas", "engine-z=3", "names no engine group"),
        ("--replicas", "engine-a", "is not of the form GROUP=COUNT"),
        ("--demand", "B.chat=-1", "--demand \"B.chat=-1\""),
        ("--drain", "nobody", "names no engine or engine group"),
    ] {
        let output = output(&["solve", flag, value], &fleet.path());

        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(text), "{error}");
    }
}
