//! A process of the fleet, started in a namespace, with its output in a log file.
use std::{
    fs::{self, File},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{HarnessError, Netns, wait::eventually};

/// Bytes of a log that an error message repeats.
const LOG_TAIL: usize = 2_000;

/// A started process. Dropping it does not end it: its [`Run`](crate::Run) does.
#[derive(Debug)]
pub struct Process {
    name: String,
    log: PathBuf,
    child: Child,
}

impl Process {
    /// Starts `program` in `netns` (or in the caller's namespace), in a process group of its own, so that Ctrl-C at a
    /// terminal reaches the harness alone.
    pub(crate) fn start(
        directory: &Path,
        name: &str,
        netns: Option<&Netns>,
        program: &Path,
        arguments: &[String],
    ) -> Result<Self, HarnessError> {
        let log = directory.join(format!("{name}.log"));
        let open = || File::options().create(true).append(true).open(&log);
        let action = format!("open {}", log.display());
        let out = open().map_err(HarnessError::io(&action))?;
        let err = open().map_err(HarnessError::io(&action))?;
        let mut command = match netns {
            // Unlike `ip netns exec` it keeps the mounts, so bpffs and cgroups stay visible. It becomes the program.
            Some(netns) => {
                let mut command = Command::new("nsenter");
                command.arg(format!("--net={}", netns.path())).arg("--").arg(program);
                command
            }
            None => Command::new(program),
        };
        let child = command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .process_group(0)
            .spawn()
            .map_err(|source| HarnessError::Start { program: program.display().to_string(), source })?;
        Ok(Self { name: name.to_owned(), log, child })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its output so far.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn log(&self) -> Result<String, HarnessError> {
        let bytes = fs::read(&self.log).map_err(HarnessError::io(format!("read {}", self.log.display())))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The end of its output, or why there is none.
    pub(crate) fn log_tail(&self) -> String {
        match self.log() {
            Ok(log) => log[log.floor_char_boundary(log.len().saturating_sub(LOG_TAIL))..].to_owned(),
            Err(error) => error.to_string(),
        }
    }

    /// Its exit status, if it has ended.
    ///
    /// # Errors
    /// The kernel does not know the child.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, HarnessError> {
        self.child.try_wait().map_err(HarnessError::io(format!("wait for {}", self.name)))
    }

    /// Fails when the process has ended, with the end of its log.
    ///
    /// # Errors
    /// [`HarnessError::EndedEarly`].
    pub fn expect_running(&mut self) -> Result<(), HarnessError> {
        let Some(status) = self.ended()? else { return Ok(()) };
        Err(HarnessError::EndedEarly {
            name: self.name.clone(),
            status,
            log: self.log.clone(),
            tail: self.log_tail(),
        })
    }

    /// Waits until it ends by itself.
    ///
    /// # Errors
    /// [`HarnessError::Deadline`] when it still runs after `limit`.
    pub fn wait_end(&mut self, limit: Duration) -> Result<ExitStatus, HarnessError> {
        let what = format!("end of {}", self.name);
        eventually(&what, limit, || self.ended().transpose())?
    }

    /// Sends a signal, if it still runs.
    ///
    /// # Errors
    /// The kernel refuses the signal.
    pub fn signal(&mut self, signal: Signal) -> Result<(), HarnessError> {
        if self.ended()?.is_some() {
            return Ok(());
        }
        let pid = i32::try_from(self.child.id()).expect("Linux process ids fit 31 bits");
        kill(Pid::from_raw(pid), signal)
            .map_err(HarnessError::errno(format!("send {signal} to {}", self.name)))
    }

    /// Ends it at once, without a chance to clean up, and collects it.
    ///
    /// # Errors
    /// The kernel refuses the signal or does not know the child.
    pub fn kill(&mut self) -> Result<ExitStatus, HarnessError> {
        self.child.kill().map_err(HarnessError::io(format!("kill {}", self.name)))?;
        self.child.wait().map_err(HarnessError::io(format!("wait for {}", self.name)))
    }
}
