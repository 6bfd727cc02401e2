//! What a run has made, on disk, so that the run after a crash can remove it.
use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{HarnessError, Netns};

/// Where runs keep their records; emptied by a reboot, as their namespaces are.
pub(crate) const FOLDER: &str = "/run/penstock-harness";

/// An open record. Every entry is on disk before the thing itself exists or right after it got its number.
#[derive(Debug)]
pub(crate) struct Record {
    file: File,
    path: PathBuf,
    folders: Vec<PathBuf>,
}

/// One line of a record.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Entry {
    /// The process that keeps the record, or one that it started: id and start time, since ids are used again.
    Owner(ProcessMark),
    Process(ProcessMark),
    Namespace(String),
    /// A folder to remove with all that is in it.
    Folder(PathBuf),
}

/// A process, told apart from a later one with the same id by its start time in clock ticks after boot.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ProcessMark {
    pub(crate) id: u32,
    pub(crate) started: u64,
}

impl ProcessMark {
    /// The process that has this id now, if there is one.
    pub(crate) fn of(id: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        start_time(&stat).map(|started| Self { id, started })
    }

    fn is_alive(self) -> bool {
        Self::of(self.id) == Some(self)
    }
}

/// Field 22 of `/proc/ID/stat`. The name in field 2 may hold spaces and parentheses.
fn start_time(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(19)?.parse().ok()
}

impl Entry {
    fn line(&self) -> String {
        match self {
            Self::Owner(mark) => format!("owner {} {}\n", mark.id, mark.started),
            Self::Process(mark) => format!("process {} {}\n", mark.id, mark.started),
            Self::Namespace(name) => format!("namespace {name}\n"),
            Self::Folder(path) => format!("folder {}\n", path.display()),
        }
    }

    /// A line cut short by a crash is no entry.
    fn parse(line: &str) -> Option<Self> {
        let (kind, rest) = line.split_once(' ')?;
        let mark = || {
            let (id, started) = rest.split_once(' ')?;
            Some(ProcessMark { id: id.parse().ok()?, started: started.parse().ok()? })
        };
        match kind {
            "owner" => mark().map(Self::Owner),
            "process" => mark().map(Self::Process),
            "namespace" => Some(Self::Namespace(rest.to_owned())),
            "folder" => Some(Self::Folder(PathBuf::from(rest))),
            _ => None,
        }
    }
}

impl Record {
    /// Starts the record of run `id`.
    pub(crate) fn start(folder: &Path, id: &str) -> Result<Self, HarnessError> {
        let path = folder.join(id);
        fs::create_dir_all(folder).map_err(HarnessError::io(format!("make {}", folder.display())))?;
        let file = File::create_new(&path)
            .map_err(HarnessError::io(format!("start the record {}", path.display())))?;
        let mut record = Self { file, path, folders: Vec::new() };
        let owner = ProcessMark::of(std::process::id()).ok_or_else(|| HarnessError::Io {
            action: "read the harness's own entry in /proc".to_owned(),
            source: std::io::ErrorKind::NotFound.into(),
        })?;
        record.add(&Entry::Owner(owner))?;
        Ok(record)
    }

    pub(crate) fn add(&mut self, entry: &Entry) -> Result<(), HarnessError> {
        if let Entry::Folder(path) = entry {
            self.folders.push(path.clone());
        }
        self.file
            .write_all(entry.line().as_bytes())
            .map_err(HarnessError::io(format!("write {}", self.path.display())))
    }

    /// Removes the recorded folders, then the record itself.
    pub(crate) fn end(&self) -> Result<(), HarnessError> {
        for folder in self.folders.iter().filter(|folder| folder.exists()) {
            fs::remove_dir_all(folder).map_err(HarnessError::io(format!("remove {}", folder.display())))?;
        }
        fs::remove_file(&self.path).map_err(HarnessError::io(format!("remove {}", self.path.display())))
    }
}

/// Removes what runs that are no longer alive have left. Returns how many there were.
pub(crate) fn remove_leftovers(folder: &Path) -> Result<usize, HarnessError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(HarnessError::io(format!("read {}", folder.display()))(error)),
    };
    let mut removed = 0;
    for entry in entries.flatten() {
        let Ok(text) = fs::read_to_string(entry.path()) else { continue };
        let entries: Vec<Entry> = text.lines().filter_map(Entry::parse).collect();
        let owner_lives = entries.iter().any(|entry| matches!(entry, Entry::Owner(mark) if mark.is_alive()));
        if owner_lives {
            continue;
        }
        remove_entries(&entries);
        fs::remove_file(entry.path())
            .map_err(HarnessError::io(format!("remove {}", entry.path().display())))?;
        removed += 1;
    }
    Ok(removed)
}

/// Processes first, then what they used. A thing that is already gone is no fault.
fn remove_entries(entries: &[Entry]) {
    for entry in entries {
        if let Entry::Process(mark) = entry
            && mark.is_alive()
            && let Ok(id) = i32::try_from(mark.id)
            && let Err(errno) = kill(Pid::from_raw(id), Signal::SIGKILL)
        {
            eprintln!("a process of an earlier run, {id}, cannot be ended: {errno}");
        }
    }
    for entry in entries {
        match entry {
            Entry::Namespace(name) if Path::new("/run/netns").join(name).exists() => {
                if let Err(error) = Netns::delete(name) {
                    eprintln!("namespace {name} of an earlier run stays: {error}");
                }
            }
            Entry::Folder(path) if path.exists() => {
                if let Err(error) = fs::remove_dir_all(path) {
                    eprintln!("{} of an earlier run stays: {error}", path.display());
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn start_time_is_found_behind_a_name_with_spaces_and_parentheses() {
        let stat = "77 (a b) c) S 1 77 77 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2";

        assert_eq!(start_time(stat), Some(987_654));
    }

    #[test]
    fn an_entry_reads_back_as_written_and_a_cut_line_is_none() {
        let entries = [
            Entry::Owner(ProcessMark { id: 4, started: 9 }),
            Entry::Process(ProcessMark { id: 5, started: 10 }),
            Entry::Namespace("penstock-1-a".to_owned()),
            Entry::Folder(PathBuf::from("/run/with space")),
        ];

        for entry in entries {
            assert_eq!(Entry::parse(entry.line().trim_end()), Some(entry));
        }
        assert_eq!(Entry::parse("process 12"), None);
    }

    #[test]
    fn leftovers_of_a_dead_run_end_and_those_of_a_living_run_stay() {
        let folder = tempfile::tempdir().unwrap();
        let mut owner = Command::new("true").spawn().unwrap();
        let mut left = Command::new("sleep").arg("600").spawn().unwrap();
        let mut kept = Command::new("sleep").arg("600").spawn().unwrap();
        let dead = ProcessMark { id: owner.id(), started: 1 };
        owner.wait().unwrap();
        let lines = |owner, process: u32| {
            [Entry::Owner(owner), Entry::Process(ProcessMark::of(process).unwrap())]
                .map(|entry| entry.line())
                .concat()
        };
        fs::write(folder.path().join("dead"), lines(dead, left.id())).unwrap();
        let alive = ProcessMark::of(std::process::id()).unwrap();
        fs::write(folder.path().join("alive"), lines(alive, kept.id())).unwrap();

        let removed = remove_leftovers(folder.path()).unwrap();

        assert_eq!(removed, 1);
        assert!(!left.wait().unwrap().success());
        assert_eq!(kept.try_wait().unwrap(), None);
        assert!(!folder.path().join("dead").exists());
        assert!(folder.path().join("alive").exists());
        kept.kill().unwrap();
        kept.wait().unwrap();
    }
}
