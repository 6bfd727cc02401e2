//! One run of the harness: everything that it makes, and its removal.
use std::{
    fs,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;

use crate::{
    HarnessError, Netns, Process, device,
    link::{End, Mac},
    record::{self, Entry, ProcessMark, Record},
    relay::{Pair, Relay, RelayCounters},
    wait::eventually,
};

/// How long processes may take to end by themselves before they are killed.
const GRACE: Duration = Duration::from_secs(3);

/// Runs of this process so far: each gets names of its own.
static RUNS: AtomicU32 = AtomicU32::new(0);

/// Namespaces, links, the WAN relay and processes of one test or demo. Dropping it ends and removes them all, and the
/// next run removes what a crash left.
#[derive(Debug)]
pub struct Run {
    id: String,
    folder: PathBuf,
    record: Record,
    namespaces: Vec<Netns>,
    relays: Vec<Relay>,
    processes: Vec<Process>,
    next_mac: u32,
}

/// A process that a run has started.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct ProcessId(usize);

/// A link across the WAN: both ends are TAP devices, `one_way` apart.
#[derive(Clone, Debug)]
pub struct WanLink {
    pub ends: [End; 2],
    pub one_way: Duration,
}

impl Run {
    /// Removes what earlier runs left and opens a new one with a folder for logs and files.
    ///
    /// # Errors
    /// Not root, or `/run` or the temporary folder cannot be written.
    pub fn start(purpose: &str) -> Result<Self, HarnessError> {
        let uid = nix::unistd::geteuid();
        if !uid.is_root() {
            return Err(HarnessError::NotRoot { uid: uid.as_raw() });
        }
        let records = Path::new(record::FOLDER);
        record::remove_leftovers(records)?;
        let number = RUNS.fetch_add(1, Ordering::Relaxed);
        let id = format!("ps-{purpose}-{}-{number}", process::id());
        let mut record = Record::start(records, &id)?;
        let folder = std::env::temp_dir().join(&id);
        record.add(&Entry::Folder(folder.clone()))?;
        fs::create_dir(&folder).map_err(HarnessError::io(format!("make {}", folder.display())))?;
        Ok(Self {
            id,
            folder,
            record,
            namespaces: Vec::new(),
            relays: Vec::new(),
            processes: Vec::new(),
            next_mac: 1,
        })
    }

    /// A name that no other run has; good for pins and sockets.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Folder for this run's files; removed with it.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Has a folder that processes of this run will make, such as one of pins, removed at the end.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn remove_at_end(&mut self, folder: &Path) -> Result<(), HarnessError> {
        self.record.add(&Entry::Folder(folder.to_owned()))
    }

    /// Makes a namespace. `name` is unique within the run.
    ///
    /// # Errors
    /// The kernel or `ip` refuses.
    pub fn namespace(&mut self, name: &str) -> Result<Netns, HarnessError> {
        let full = format!("{}-{name}", self.id);
        self.record.add(&Entry::Namespace(full.clone()))?;
        let netns = Netns::create(full)?;
        self.namespaces.push(netns.clone());
        Ok(netns)
    }

    /// Joins two ends by a veth pair.
    ///
    /// # Errors
    /// The kernel or `ip` refuses.
    pub fn link(&mut self, a: &End, b: &End) -> Result<(), HarnessError> {
        a.netns.ip(&format!(
            "link add {} type veth peer name {} netns {}",
            a.device,
            b.device,
            b.netns.name()
        ))?;
        self.configure(a, b)
    }

    /// Joins pairs of ends by TAP devices and one relay thread.
    ///
    /// # Errors
    /// The kernel or `ip` refuses.
    pub fn wan(&mut self, links: &[WanLink]) -> Result<(), HarnessError> {
        let open = |end: &End| {
            end.netns
                .enter(|| device::open_tap(&end.device))?
                .map_err(HarnessError::io(format!("make the TAP device {}", end.device)))
        };
        let pairs = links
            .iter()
            .map(|WanLink { ends: [a, b], one_way }| {
                Ok(Pair { taps: [open(a)?, open(b)?], one_way: *one_way })
            })
            .collect::<Result<Vec<_>, HarnessError>>()?;
        self.relays.push(Relay::start(pairs)?);
        for WanLink { ends: [a, b], .. } in links {
            self.configure(a, b)?;
        }
        Ok(())
    }

    /// Counters of each WAN relay, in the order of the calls of [`Run::wan`].
    pub fn wan_counters(&self) -> impl Iterator<Item = &RelayCounters> {
        self.relays.iter().map(Relay::counters)
    }

    fn configure(&mut self, a: &End, b: &End) -> Result<(), HarnessError> {
        let macs = (Mac(self.next_mac), Mac(self.next_mac + 1));
        self.next_mac += 2;
        a.configure(macs.0, b, macs.1)?;
        b.configure(macs.1, a, macs.0)
    }

    /// Starts a program; its output goes to `NAME.log` in the run's folder.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn spawn(
        &mut self,
        name: &str,
        netns: Option<&Netns>,
        program: &Path,
        arguments: &[String],
    ) -> Result<ProcessId, HarnessError> {
        let process = Process::start(&self.folder, name, netns, program, arguments)?;
        if let Some(mark) = ProcessMark::of(process.id()) {
            self.record.add(&Entry::Process(mark))?;
        }
        self.processes.push(process);
        Ok(ProcessId(self.processes.len() - 1))
    }

    /// Runs a program to its end.
    ///
    /// # Errors
    /// It cannot be started, takes longer than `limit`, or ends with another status than 0.
    pub fn complete(
        &mut self,
        name: &str,
        netns: Option<&Netns>,
        program: &Path,
        arguments: &[String],
        limit: Duration,
    ) -> Result<(), HarnessError> {
        let id = self.spawn(name, netns, program, arguments)?;
        let process = self.process(id);
        let status = process.wait_end(limit)?;
        if status.success() {
            return Ok(());
        }
        let program = format!("{} {}", program.display(), arguments.join(" "));
        Err(HarnessError::Command { program, status, output: process.log_tail() })
    }

    pub fn process(&mut self, id: ProcessId) -> &mut Process {
        &mut self.processes[id.0]
    }

    /// Polls `look` until it gives a value, and fails at once when a process of `needs` has ended.
    ///
    /// # Errors
    /// [`HarnessError::Deadline`] or [`HarnessError::EndedEarly`].
    pub fn eventually<T>(
        &mut self,
        what: &str,
        limit: Duration,
        needs: &[ProcessId],
        mut look: impl FnMut() -> Option<T>,
    ) -> Result<T, HarnessError> {
        eventually(what, limit, || {
            if let Some(value) = look() {
                return Some(Ok(value));
            }
            needs.iter().find_map(|id| self.processes[id.0].expect_running().err()).map(Err)
        })?
    }

    /// Asks every process to end, then kills those that do not within a grace time.
    fn end_processes(&mut self) {
        for process in self.processes.iter_mut().rev() {
            if let Err(error) = process.signal(Signal::SIGTERM) {
                eprintln!("{error}");
            }
        }
        let deadline = Instant::now() + GRACE;
        for process in &mut self.processes {
            let left = deadline.saturating_duration_since(Instant::now());
            if process.wait_end(left).is_err()
                && let Err(error) = process.kill()
            {
                eprintln!("{error}");
            }
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for process in &self.processes {
                eprintln!("--- {} ends with:\n{}", process.name(), process.log_tail());
            }
        }
        self.end_processes();
        self.relays.clear();
        for netns in self.namespaces.drain(..) {
            if let Err(error) = Netns::delete(netns.name()) {
                eprintln!("{error}");
            }
        }
        if let Err(error) = self.record.end() {
            eprintln!("{error}");
        }
    }
}
