use std::{
    net::{Ipv4Addr, Ipv6Addr},
    path::PathBuf,
};

/// Where and how the data path is set up.
#[derive(Clone, Debug, PartialEq)]
pub struct InstallConfig {
    /// The kernel program, as built by `cargo xtask build`.
    pub object: PathBuf,
    /// Folder on a BPF file system, of this agent alone. Maps are pinned below it in a folder named by their layout.
    pub pin_dir: PathBuf,
    /// Ports that packets come in by: towards clients, and towards engines whose replies are rewritten.
    pub devices: Vec<String>,
    pub mode: Mode,
    /// A packet that leaves by its ingress port is redirected, not transmitted: for veth, whose far end needs a
    /// program of its own to take a transmitted frame.
    pub redirect_only: bool,
    /// TCP flows of an engine that is out are reset, not re-slotted.
    pub reset_lost: bool,
    /// Source of outer IPv4 headers; its last 16 bits vary by flow.
    pub outer4: Ipv4Addr,
    /// Source of outer IPv6 headers; its lower half varies by flow.
    pub outer6: Ipv6Addr,
    /// Largest fraction of a table's slots that one snapshot may move unless it answers a failure; 1 for no limit.
    pub max_moved: f64,
}

impl InstallConfig {
    /// Outer sources when the configuration names none: addresses that nobody is routed to (RFC 1918, RFC 6666).
    pub const OUTER4: Ipv4Addr = Ipv4Addr::new(172, 16, 0, 0);
    pub const OUTER6: Ipv6Addr = Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 0);
}

/// Which attachment is accepted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Mode {
    /// Native, and generic where the driver has no native XDP.
    #[default]
    Best,
    Native,
    Generic,
}

/// What was found possible at one device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Attached {
    Native,
    /// Native, with packets in several buffers.
    NativeFrags,
    Generic,
}

impl Attached {
    pub const fn label(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::NativeFrags => "native with frags",
            Self::Generic => "generic",
        }
    }
}
