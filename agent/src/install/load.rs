//! From an object file to a program in the kernel, pinned and attached.
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use aya::{
    Ebpf, EbpfLoader,
    programs::{
        ProgramError, Xdp, XdpMode,
        links::{FdLink, PinnedLink},
        xdp::XdpLink,
    },
};
use penstock_abi::MAPS;
use tracing::{info, warn};

use super::{
    config::{Attached, InstallConfig, Mode},
    error::OpenError,
};

const PROGRAM: &str = "penstock";
const PROGRAM_FRAGS: &str = "penstock_frags";
const VERIFIER_TRIES: u32 = 50;
/// Between two tries, so that a burst of signals passes.
const VERIFIER_PAUSE: Duration = Duration::from_millis(100);
const BPFFS_MAGIC: i64 = 0xcafe_4a11;

/// Loads the object; its maps are those pinned in `folder`, made where they are missing.
pub(super) fn load(config: &InstallConfig, folder: &Path) -> Result<Ebpf, OpenError> {
    let path = &config.object;
    let object = fs::read(path).map_err(|source| OpenError::Object { path: path.clone(), source })?;
    require_bpffs(&config.pin_dir)?;
    for needed in [folder.to_owned(), link_folder(config)] {
        fs::create_dir_all(&needed).map_err(|source| OpenError::PinFolder { path: needed, source })?;
    }
    let mut loader = EbpfLoader::new();
    for map in MAPS {
        loader.map_pin_path(map.name, folder.join(map.name));
    }
    loader.load(&object).map_err(|source| OpenError::Load { path: path.clone(), source: source.into() })
}

pub(super) fn link_folder(config: &InstallConfig) -> PathBuf {
    config.pin_dir.join("links")
}

/// Attaches to every device, in place of an earlier program where a pinned link has one.
pub(super) fn attach(ebpf: &mut Ebpf, config: &InstallConfig) -> Result<Vec<(String, Attached)>, OpenError> {
    for name in [PROGRAM, PROGRAM_FRAGS] {
        program(ebpf, config, name)?
            .load()
            .map_err(|source| OpenError::Program { name, source: Box::new(source) })?;
    }
    config
        .devices
        .iter()
        .map(|device| {
            let attached = match replace(ebpf, config, device)? {
                Some(attached) => attached,
                None => attach_anew(ebpf, config, device)?,
            };
            info!(device, mode = attached.label(), "program attached");
            Ok((device.clone(), attached))
        })
        .collect()
}

/// Has the kernel verify a program. A signal to this process interrupts the verifier, which is no fault of the program:
/// then it is tried again.
pub fn load_program(program: &mut Xdp) -> Result<(), ProgramError> {
    for _ in 1..VERIFIER_TRIES {
        match program.load() {
            Err(ProgramError::LoadError { io_error, .. }) if io_error.kind() == io::ErrorKind::WouldBlock => {
                std::thread::park_timeout(VERIFIER_PAUSE);
            }
            other => return other,
        }
    }
    program.load()
}

fn program<'e>(
    ebpf: &'e mut Ebpf,
    config: &InstallConfig,
    name: &'static str,
) -> Result<&'e mut Xdp, OpenError> {
    let missing = || OpenError::NoProgram { name, path: config.object.clone() };
    let program = ebpf.program_mut(name).ok_or_else(missing)?;
    program.try_into().map_err(|source| OpenError::Program { name, source: Box::new(source) })
}

/// Puts the program into a link that is pinned already: no packet meets the device without one.
fn replace(ebpf: &mut Ebpf, config: &InstallConfig, device: &str) -> Result<Option<Attached>, OpenError> {
    for (attached, name) in
        [(Attached::Native, PROGRAM), (Attached::NativeFrags, PROGRAM_FRAGS), (Attached::Generic, PROGRAM)]
    {
        let path = link_path(config, device, attached);
        if !path.exists() {
            continue;
        }
        let failed = |source| OpenError::Link { device: device.to_owned(), source };
        let pinned = PinnedLink::from_pin(&path).map_err(failed)?;
        let link = XdpLink::try_from(FdLink::from(pinned)).map_err(failed)?;
        let xdp = program(ebpf, config, name)?;
        match xdp.attach_to_link(link) {
            Ok(id) => {
                // The pin keeps the link; only this process's handle goes.
                drop(
                    xdp.take_link(id)
                        .map_err(|source| OpenError::Program { name, source: Box::new(source) })?,
                );
                return Ok(Some(attached));
            }
            Err(error) => {
                // The device of this link is gone, and one of the same name has come.
                warn!(device, %error, "the pinned link has no device any more");
                fs::remove_file(&path).map_err(|source| OpenError::PinFolder { path, source })?;
            }
        }
    }
    Ok(None)
}

fn attach_anew(ebpf: &mut Ebpf, config: &InstallConfig, device: &str) -> Result<Attached, OpenError> {
    let native = [(Attached::Native, PROGRAM), (Attached::NativeFrags, PROGRAM_FRAGS)];
    let generic = [(Attached::Generic, PROGRAM)];
    let ways = match config.mode {
        Mode::Best => [&native[..], &generic].concat(),
        Mode::Native => native.to_vec(),
        Mode::Generic => generic.to_vec(),
    };
    let mut tried = Vec::new();
    for (attached, name) in ways {
        let mode = if attached == Attached::Generic { XdpMode::Skb } else { XdpMode::Driver };
        let xdp = program(ebpf, config, name)?;
        match xdp.attach(device, mode) {
            Ok(id) => {
                let link = xdp
                    .take_link(id)
                    .map_err(|source| OpenError::Program { name, source: Box::new(source) })?;
                // The attachment of old kernels, by netlink, would end with this process.
                let Ok(link) = FdLink::try_from(link) else {
                    tried.push(format!("{}: the kernel has no BPF links for XDP", attached.label()));
                    continue;
                };
                if attached == Attached::Generic && config.mode == Mode::Best {
                    warn!(
                        device,
                        refused = tried.join("; "),
                        "native XDP is not possible here: generic is slower"
                    );
                }
                link.pin(link_path(config, device, attached))
                    .map_err(|source| OpenError::PinLink { device: device.to_owned(), source })?;
                return Ok(attached);
            }
            Err(ProgramError::UnknownInterface { name }) => {
                return Err(OpenError::NoDevice { device: name });
            }
            Err(error) => tried.push(format!("{}: {}", attached.label(), root_cause(&error))),
        }
    }
    Err(OpenError::Attach { device: device.to_owned(), tried: tried.join("; ") })
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

fn link_path(config: &InstallConfig, device: &str, attached: Attached) -> PathBuf {
    let kind = match attached {
        Attached::Native => "native",
        Attached::NativeFrags => "frags",
        Attached::Generic => "generic",
    };
    link_folder(config).join(format!("{device}-{kind}"))
}

/// Takes every program of this agent off its devices and removes all pins.
pub(super) fn remove(config: &InstallConfig) -> io::Result<()> {
    match fs::remove_dir_all(&config.pin_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn require_bpffs(pin_dir: &Path) -> Result<(), OpenError> {
    let existing = pin_dir.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    let kind =
        file_system(existing).map_err(|source| OpenError::PinFolder { path: existing.to_owned(), source })?;
    if kind == BPFFS_MAGIC { Ok(()) } else { Err(OpenError::NotBpffs { path: pin_dir.to_owned() }) }
}

fn file_system(path: &Path) -> io::Result<i64> {
    use std::os::unix::ffi::OsStrExt;

    let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    let mut answer = std::mem::MaybeUninit::<libc::statfs>::uninit();
    #[expect(unsafe_code, reason = "std has no call for the kind of a file system")]
    // SAFETY: the path ends with a zero and the answer has the size that the call writes.
    let status = unsafe { libc::statfs(path.as_ptr(), answer.as_mut_ptr()) };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    #[expect(unsafe_code, reason = "the call has written it")]
    // SAFETY: the call succeeded, so it wrote the whole answer.
    let answer = unsafe { answer.assume_init() };
    Ok(answer.f_type)
}
