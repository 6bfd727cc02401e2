//! One network namespace, by name.
use std::{
    fs::{self, File},
    io::Write,
    process::{Command, Stdio},
    thread,
};

use nix::sched::{CloneFlags, setns};

use crate::HarnessError;

/// A network namespace that a [`Run`](crate::Run) made and will remove.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Netns {
    name: String,
}

/// Switches that every namespace has: no address detection delays, no reverse-path filter between our own links.
const SWITCHES: [(&str, &str); 7] = [
    ("ipv6/conf/all/accept_dad", "0"),
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv6/conf/all/accept_ra", "0"),
    ("ipv6/conf/default/accept_ra", "0"),
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    ("ipv4/ip_local_port_range", "1024 65000"),
];

impl Netns {
    pub(crate) fn create(name: String) -> Result<Self, HarnessError> {
        run("ip", &["netns", "add", &name], "")?;
        let netns = Self { name };
        for (key, value) in SWITCHES {
            netns.sysctl(key, value)?;
        }
        netns.ip("link set lo up")?;
        Ok(netns)
    }

    /// Its name under `/run/netns`.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn path(&self) -> String {
        format!("/run/netns/{}", self.name)
    }

    /// Runs lines of `ip` commands, without the word `ip`, in this namespace.
    ///
    /// # Errors
    /// The first line that `ip` refuses.
    pub fn ip(&self, lines: &str) -> Result<(), HarnessError> {
        run("ip", &["-n", &self.name, "-batch", "-"], lines)
    }

    /// The same with IPv6 as the family that `ip` assumes.
    ///
    /// # Errors
    /// The first line that `ip` refuses.
    pub fn ip6(&self, lines: &str) -> Result<(), HarnessError> {
        run("ip", &["-6", "-n", &self.name, "-batch", "-"], lines)
    }

    /// Writes a key below `/proc/sys/net`, with slashes.
    ///
    /// # Errors
    /// A key that the kernel does not have, or a value that it refuses.
    pub fn sysctl(&self, key: &str, value: &str) -> Result<(), HarnessError> {
        self.enter(|| fs::write(format!("/proc/sys/net/{key}"), value))?
            .map_err(HarnessError::io(format!("set {key} to {value} in {}", self.name)))
    }

    /// Lets the namespace pass packets between its links.
    ///
    /// # Errors
    /// As [`Netns::sysctl`].
    pub fn forward(&self) -> Result<(), HarnessError> {
        self.sysctl("ipv4/ip_forward", "1")?;
        self.sysctl("ipv6/conf/all/forwarding", "1")
    }

    /// Runs `work` on a thread that is in this namespace. Sockets that it makes stay there.
    ///
    /// # Errors
    /// The namespace is gone, or the process may not enter it.
    ///
    /// # Panics
    /// When `work` does.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, HarnessError> {
        let file = File::open(self.path()).map_err(HarnessError::io(format!("open {}", self.path())))?;
        thread::scope(|scope| {
            let inside = scope.spawn(move || {
                setns(&file, CloneFlags::CLONE_NEWNET)
                    .map_err(HarnessError::errno(format!("enter {}", self.name)))?;
                Ok(work())
            });
            match inside.join() {
                Ok(value) => value,
                Err(payload) => std::panic::resume_unwind(payload),
            }
        })
    }

    pub(crate) fn delete(name: &str) -> Result<(), HarnessError> {
        run("ip", &["netns", "del", name], "")
    }
}

/// Runs a command to its end with `input` as its standard input.
fn run(program: &str, arguments: &[&str], input: &str) -> Result<(), HarnessError> {
    let started = |source| HarnessError::Start { program: program.to_owned(), source };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(started)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that ended early says why on its standard error; a broken pipe would hide it.
        match stdin.write_all(input.as_bytes()) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                return Err(HarnessError::io(format!("write to {program}"))(error));
            }
            _ => {}
        }
    }
    let output = child.wait_with_output().map_err(HarnessError::io(format!("wait for {program}")))?;
    if output.status.success() {
        return Ok(());
    }
    Err(HarnessError::Command {
        program: format!("{program} {}", arguments.join(" ")),
        status: output.status,
        output: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}
