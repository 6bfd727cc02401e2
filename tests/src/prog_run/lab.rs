//! A namespace, a data path and its program, for one test.
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

use aya::{
    Ebpf, EbpfLoader,
    programs::{TestRun, TestRunOptions, Xdp},
};
use nix::sched::{CloneFlags, unshare};
use penstock_agent::install::{InstallConfig, InstallError, Installer, Mode, OpenError, load_program};

use super::{
    Fleet,
    packet::{CLIENT_ROUTER, ENGINE_ROUTER, OWN_IN, OWN_OUT},
};

const BPFFS: &str = "/sys/fs/bpf";
/// Room for the largest packet that a program can make of a test's.
const OUT_BYTES: usize = 4096;

/// Why a test could not start. Each text has the remedy.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    #[error("a network namespace needs root: run `cargo xtask test` as root")]
    Namespace(#[source] nix::Error),
    #[error("the kernel program is missing at {path}: run `cargo xtask build`")]
    NoObject { path: PathBuf },
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Install(#[from] InstallError),
    #[error("`{command}` failed: {output}")]
    Command { command: String, output: String },
    #[error("cannot run `{command}`: install iproute2")]
    Start { command: String, source: std::io::Error },
    #[error("cannot write {path}")]
    Sysctl { path: String, source: std::io::Error },
    #[error("the kernel refused the program")]
    Load(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("BPF_PROG_TEST_RUN failed")]
    Run(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// What the program said of a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    Aborted,
    Drop,
    Pass,
    Transmit,
    Redirect,
}

/// Verdict, and the packet as the program left it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Outcome {
    pub verdict: Verdict,
    pub frame: Vec<u8>,
}

/// Devices `in0` (198.18.0.1/24, fd01::1/64; router 198.18.0.2, fd01::2 towards everybody) and `out0` (10.2.254.1/16,
/// fd02::fe/64; every engine behind one MAC address;
/// 10.3.0.0/16, fd03::/16 and fd77::/16 routed there too), and the packet door in the kernel.
#[derive(Debug)]
pub struct Lab {
    pub installer: Installer,
    config: InstallConfig,
    ebpf: Ebpf,
    ingress: u32,
}

impl Lab {
    pub fn new() -> Result<Self, LabError> {
        Self::with(|_config| {})
    }

    /// A lab with a snapshot in force.
    pub fn of(fleet: &Fleet) -> Result<Self, LabError> {
        let mut lab = Self::new()?;
        lab.installer.install(&fleet.snapshot)?;
        Ok(lab)
    }

    /// A lab whose data path is set up with a changed configuration.
    pub fn with(change: impl FnOnce(&mut InstallConfig)) -> Result<Self, LabError> {
        static LABS: AtomicU32 = AtomicU32::new(0);
        let object = object();
        if !object.exists() {
            return Err(LabError::NoObject { path: object });
        }
        unshare(CloneFlags::CLONE_NEWNET).map_err(LabError::Namespace)?;
        devices()?;
        let number = LABS.fetch_add(1, Ordering::Relaxed);
        let mut config = InstallConfig {
            object,
            pin_dir: Path::new(BPFFS).join(format!("penstock-prog-run-{}-{number}", std::process::id())),
            devices: Vec::new(),
            mode: Mode::Best,
            redirect_only: false,
            reset_lost: false,
            outer4: InstallConfig::OUTER4,
            outer6: InstallConfig::OUTER6,
            max_moved: 1.0,
        };
        change(&mut config);
        let installer = Installer::open(&config)?;
        let ebpf = load(&config)?;
        let ingress = index_of("in0")?;
        Ok(Self { installer, config, ebpf, ingress })
    }

    /// The packet door, on this lab's maps.
    pub fn program(&mut self) -> Result<&mut Xdp, LabError> {
        program(&mut self.ebpf, "penstock")
    }

    /// Sets the data path up once more on the same folder, as an agent that was restarted or upgraded does.
    pub fn upgrade(&mut self) -> Result<(), LabError> {
        self.installer = Installer::open(&self.config)?;
        Ok(())
    }

    /// The object that this lab's program is from.
    pub fn object(&self) -> &Path {
        &self.config.object
    }

    /// `struct xdp_md` of a frame that comes in: data, data_end, data_meta, ingress_ifindex, rx_queue_index,
    /// egress_ifindex.
    pub fn context(&self, frame: &[u8]) -> Vec<u8> {
        let length = u32::try_from(frame.len()).expect("a small packet");
        [0, length, 0, self.ingress, 0, 0].map(u32::to_ne_bytes).concat()
    }

    /// Runs the packet door once on a frame that came in by `in0`.
    pub fn run(&mut self, frame: &[u8]) -> Result<Outcome, LabError> {
        self.run_program("penstock", frame)
    }

    /// Runs one of the object's programs once.
    pub fn run_program(&mut self, name: &'static str, frame: &[u8]) -> Result<Outcome, LabError> {
        let context = self.context(frame);
        let program = program(&mut self.ebpf, name)?;
        let mut out = vec![0; OUT_BYTES];
        let options = TestRunOptions {
            data_in: Some(frame),
            data_out: Some(&mut out),
            ctx_in: Some(&context),
            repeat: 1,
            ..TestRunOptions::new()
        };
        let result = program.test_run(options).map_err(|error| LabError::Run(error.into()))?;
        out.truncate(result.data_size_out as usize);
        let verdict = match result.return_value {
            1 => Verdict::Drop,
            2 => Verdict::Pass,
            3 => Verdict::Transmit,
            4 => Verdict::Redirect,
            _ => Verdict::Aborted,
        };
        Ok(Outcome { verdict, frame: out })
    }

    /// Makes packets come in by another device.
    pub fn come_in_by(&mut self, device: &str) -> Result<(), LabError> {
        self.ingress = index_of(device)?;
        Ok(())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Err(error) = Installer::remove(&self.config) {
            eprintln!("cannot remove {}: {error}", self.config.pin_dir.display());
        }
    }
}

/// Where `cargo xtask build` leaves the object, or what `PENSTOCK_OBJECT` names.
fn object() -> PathBuf {
    let built = || {
        let target = env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"), PathBuf::from);
        target.join("bpf/bpfel-unknown-none/release/penstock-xdp")
    };
    env::var_os("PENSTOCK_OBJECT").map_or_else(built, PathBuf::from)
}

/// The same programs as the installer's, on the same pinned maps, for test runs.
fn load(config: &InstallConfig) -> Result<Ebpf, LabError> {
    let bytes = fs::read(&config.object).map_err(|error| LabError::Load(error.into()))?;
    let mut loader = EbpfLoader::new();
    for map in penstock_abi::MAPS {
        loader.map_pin_path(map.name, Installer::map_folder(&config.pin_dir).join(map.name));
    }
    let mut ebpf = loader.load(&bytes).map_err(|error| LabError::Load(error.into()))?;
    for name in ["penstock", "penstock_decap"] {
        load_program(program(&mut ebpf, name)?).map_err(|error| LabError::Load(error.into()))?;
    }
    Ok(ebpf)
}

fn program<'e>(ebpf: &'e mut Ebpf, name: &'static str) -> Result<&'e mut Xdp, LabError> {
    let program = ebpf.program_mut(name).ok_or_else(|| LabError::Load(format!("it has no {name}").into()))?;
    program.try_into().map_err(|error: aya::programs::ProgramError| LabError::Load(error.into()))
}

fn mac(address: [u8; 6]) -> String {
    address.map(|byte| format!("{byte:02x}")).join(":")
}

fn devices() -> Result<(), LabError> {
    let (own_in, own_out, client, engine) =
        (mac(OWN_IN), mac(OWN_OUT), mac(CLIENT_ROUTER), mac(ENGINE_ROUTER));
    ip("link set lo up")?;
    ip(&format!("link add in0 address {own_in} type veth peer name in1"))?;
    ip(&format!("link add out0 address {own_out} type veth peer name out1"))?;
    for device in ["in0", "in1", "out0", "out1"] {
        ip(&format!("link set {device} up"))?;
    }
    ip("addr add 198.18.0.1/24 dev in0")?;
    ip("addr add fd01::1/64 dev in0 nodad")?;
    ip("addr add 10.2.254.1/16 dev out0")?;
    ip("addr add fd02::fe/64 dev out0 nodad")?;
    ip("route add default via 198.18.0.2")?;
    ip("-6 route add default via fd01::2")?;
    ip("-6 route add fd77::/16 via fd02::1")?;
    ip(&format!("neigh add 198.18.0.2 lladdr {client} dev in0"))?;
    ip(&format!("neigh add fd01::2 lladdr {client} dev in0"))?;
    for last in 1..=3 {
        ip(&format!("neigh add 10.2.0.{last} lladdr {engine} dev out0"))?;
        ip(&format!("neigh add fd02::{last} lladdr {engine} dev out0"))?;
    }
    ip("route add 10.3.0.0/16 via 10.2.0.1")?;
    ip("-6 route add fd03::/16 via fd02::1")?;
    for path in ["ipv4/conf/all/forwarding", "ipv6/conf/all/forwarding"] {
        let path = format!("/proc/sys/net/{path}");
        fs::write(&path, "1").map_err(|source| LabError::Sysctl { path, source })?;
    }
    Ok(())
}

/// Runs `ip` with these words, in this thread's namespace.
pub(super) fn ip(words: &str) -> Result<String, LabError> {
    let command = format!("ip {words}");
    let started = Command::new("ip").args(words.split(' ')).output();
    let output = started.map_err(|source| LabError::Start { command: command.clone(), source })?;
    if !output.status.success() {
        return Err(LabError::Command {
            command,
            output: String::from_utf8_lossy(&output.stderr).into_owned(),
        });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn index_of(device: &str) -> Result<u32, LabError> {
    nix::net::if_::if_nametoindex(device).map_err(LabError::Namespace)
}
