//! Runs other programs, and says what failed and how to go on.
use std::{
    ffi::{OsStr, OsString},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

/// One call of another program.
#[derive(Debug)]
pub(crate) struct Step {
    program: OsString,
    command: Command,
}

impl Step {
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        let program = program.as_ref().to_owned();
        Self { command: Command::new(&program), program }
    }

    pub(crate) fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.command.args(arguments);
        self
    }

    pub(crate) fn env(mut self, key: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(key, value);
        self
    }

    pub(crate) fn without_env(mut self, key: &str) -> Self {
        self.command.env_remove(key);
        self
    }

    /// Runs it with its output shown; fails with the exit status.
    pub(crate) fn run(mut self) -> Result<()> {
        let status = self.command.stdin(Stdio::null()).status().with_context(|| self.cannot_start())?;
        if !status.success() {
            bail!("{} ended with {status}", self.line());
        }
        Ok(())
    }

    /// Whether it ran and succeeded; its output is hidden.
    pub(crate) fn succeeds(mut self) -> bool {
        self.command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    }

    /// Its standard output as text, or `None` where it cannot run or fails.
    pub(crate) fn output(mut self) -> Option<String> {
        let output = self.command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Becomes that program, so that signals and the exit status are its own.
    pub(crate) fn hand_over(mut self) -> Result<()> {
        let error = self.command.exec();
        Err(error).with_context(|| self.cannot_start())
    }

    fn cannot_start(&self) -> String {
        format!("cannot start {}", self.program.to_string_lossy())
    }

    fn line(&self) -> String {
        let mut line = self.program.to_string_lossy().into_owned();
        for argument in self.command.get_args() {
            line.push(' ');
            line.push_str(&argument.to_string_lossy());
        }
        line
    }
}

/// Cargo, as the caller started it.
pub(crate) fn cargo() -> Step {
    Step::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Where a program stands: in `PATH`, in the folder of cargo's own installs, or in the folders that only root's `PATH` has.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo_home =
        cargo_home.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")));
    std::env::split_paths(&path)
        .chain(cargo_home.map(|home| home.join("bin")))
        .chain([PathBuf::from("/usr/sbin"), PathBuf::from("/sbin")])
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}
