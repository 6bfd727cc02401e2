use std::{io, path::PathBuf};

use aya::{
    EbpfError,
    maps::MapError,
    pin::PinError,
    programs::{ProgramError, links::LinkError},
};
use penstock_wire::{CheckError, ClassId, Epoch, ServiceId};

/// Why the data path could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Build it with `cargo xtask build`, or name it in the configuration's `object`.
    #[error("cannot read the kernel program {path}")]
    Object { path: PathBuf, source: io::Error },
    /// Run as root, on a kernel from 6.1 with BPF.
    #[error("the kernel refused the program {path}")]
    Load { path: PathBuf, source: Box<EbpfError> },
    #[error("program {name} is not in {path}: the object is of another version")]
    NoProgram { name: &'static str, path: PathBuf },
    #[error("the kernel refused program {name}")]
    Program { name: &'static str, source: Box<ProgramError> },
    /// Mount it: `mount -t bpf bpf /sys/fs/bpf`.
    #[error("{path} is not on a BPF file system; run `mount -t bpf bpf /sys/fs/bpf`")]
    NotBpffs { path: PathBuf },
    #[error("cannot prepare the pin folder {path}")]
    PinFolder { path: PathBuf, source: io::Error },
    /// The agent of this host is not running, or uses another `pin_dir`.
    #[error("no pinned map {path}: no agent has set up this folder")]
    NotPinned { path: PathBuf, source: MapError },
    #[error("cannot open map {name}")]
    Map { name: &'static str, source: MapError },
    #[error("cannot map {name} into memory")]
    Memory { name: &'static str, source: io::Error },
    #[error("cannot listen for changes of routes and neighbours")]
    Netlink { source: io::Error },
    #[error("there is no device {device} in this network namespace")]
    NoDevice { device: String },
    /// Native XDP needs a driver that supports it; generic XDP needs the flag in the configuration.
    #[error("cannot attach to {device}: {tried}")]
    Attach { device: String, tried: String },
    #[error("cannot pin the link of {device}")]
    PinLink { device: String, source: PinError },
    #[error("cannot use the pinned link of {device}")]
    Link { device: String, source: LinkError },
}

/// Why a snapshot was not installed. The previous one stays in force in every case.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The snapshot is not newer than the one in force.
    #[error("epoch {offered} is not newer than epoch {installed}")]
    StaleEpoch { offered: Epoch, installed: Epoch },
    /// The snapshot contradicts itself or exceeds a limit.
    #[error(transparent)]
    Invalid(#[from] CheckError),
    /// The kernel's map cannot hold so many.
    #[error("{count} {what}, at most {limit} fit")]
    TooLarge { what: &'static str, count: usize, limit: usize },
    #[error("index {index} of {what} is not below {limit}")]
    IndexTooLarge { what: &'static str, index: u16, limit: usize },
    /// Slots of all tables together, or free space is in pieces too small; fewer or smaller tables fit.
    #[error("no room for the {slots} slots of class {class}")]
    NoSlots { class: ClassId, slots: usize },
    /// Two services share VIP, port and protocol.
    #[error("service {service} has the VIP, port and protocol of another")]
    SameVip { service: ServiceId },
    /// Two `dnat` services share an IPv4 engine's address and port, so that a reply does not tell the VIP.
    #[error("service {service} reaches engine address {address} by dnat, and so does another VIP")]
    SharedEngine { service: ServiceId, address: std::net::SocketAddrV4 },
    /// Another secret would remap every key. Keep the fleet's secret.
    #[error("the snapshot has another secret than the one in force")]
    OtherSecret,
    /// A publish moved more traffic than this agent's limit, and is not marked as an answer to a failure.
    #[error("class {class} would move {moved} of {slots} slots, more than the limit")]
    TooManyMoves { class: ClassId, moved: usize, slots: usize },
    /// Candidates whose ids collide.
    #[error("class {class} has candidates that the slot tables cannot tell apart")]
    Candidates { class: ClassId },
    #[error("the kernel refused an entry of {map}")]
    Map { map: &'static str, source: MapError },
}
