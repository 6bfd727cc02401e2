//! The processes that a testbed starts.
use std::path::{Path, PathBuf};

/// Paths of the built programs.
#[derive(Clone, Debug)]
pub struct Binaries {
    pub agent: PathBuf,
    pub controller: PathBuf,
    pub engine: PathBuf,
    pub load: PathBuf,
}

/// Programs are not built: `cargo xtask build`, or `cargo xtask test` for tests.
#[derive(Debug, thiserror::Error)]
#[error("{} was not built: run `cargo xtask build` (or `cargo xtask test` for tests)", path.display())]
pub struct NotBuilt {
    path: PathBuf,
}

impl Binaries {
    /// Programs in the folder of the running executable, or one above: tests stand in `deps`.
    ///
    /// # Errors
    /// A program, or the kernel object that agents load, is missing.
    pub fn find() -> Result<Self, NotBuilt> {
        let executable = std::env::current_exe().unwrap_or_default();
        let beside = executable.parent().unwrap_or(Path::new("."));
        let folder = match beside.file_name() {
            Some(name) if name == "deps" => beside.parent().unwrap_or(beside),
            _ => beside,
        };
        let program = |name: &str| {
            let path = folder.join(name);
            if path.is_file() { Ok(path) } else { Err(NotBuilt { path }) }
        };
        program("penstock-xdp.o")?;
        Ok(Self {
            agent: program("penstock-agent")?,
            controller: program("penstock-controller")?,
            engine: program("penstock-engine")?,
            load: program("penstock-load")?,
        })
    }
}
