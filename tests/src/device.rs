//! The two device requests that no command of the base system makes: a TAP with offloads, and checksum and GRO
//! switches. The only file of the harness that meets the kernel's C interface.
use std::{
    fs::{File, OpenOptions},
    io,
    os::{fd::AsRawFd, unix::fs::OpenOptionsExt},
};

/// Bytes of a device name with its terminating zero.
const NAME_BYTES: usize = 16;

const ETHTOOL_SET_TX_CHECKSUM: u32 = 0x17;
const ETHTOOL_SET_GRO: u32 = 0x2c;

/// The kernel's `struct ifreq`, with the member that `TUNSETIFF` reads.
#[repr(C)]
struct TapRequest {
    name: [u8; NAME_BYTES],
    flags: libc::c_short,
    padding: [u8; 22],
}

/// The kernel's `struct ifreq`, with the member that `SIOCETHTOOL` reads.
#[repr(C)]
struct EthtoolRequest {
    name: [u8; NAME_BYTES],
    value: *mut EthtoolValue,
    padding: [u8; 16],
}

#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

const _: () = assert!(size_of::<TapRequest>() == size_of::<libc::ifreq>());
const _: () = assert!(size_of::<EthtoolRequest>() == size_of::<libc::ifreq>());

/// Makes a TAP device in the calling thread's network namespace. Frames carry a virtio header of 10 bytes in both
/// directions; the kernel may hand over checksums still to be filled and TCP segments of up to 64 KB.
///
/// # Errors
/// What the kernel answers; `InvalidInput` for a name that is too long.
#[expect(unsafe_code, reason = "the kernel makes and configures TAP devices through ioctl alone")]
pub(crate) fn open_tap(name: &str) -> io::Result<File> {
    let flags = libc::c_short::try_from(libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR)
        .expect("the three flags lie in the lower 15 bits");
    let mut request = TapRequest { name: device_name(name)?, flags, padding: [0; 22] };
    let tap =
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
    // SAFETY: the descriptor is open, and TUNSETIFF reads and writes one `ifreq`, whose size `request` has.
    let answer = unsafe { libc::ioctl(tap.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    checked(answer)?;
    let offloads = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6;
    // SAFETY: the descriptor is open, and TUNSETOFFLOAD takes its flags by value.
    let answer = unsafe { libc::ioctl(tap.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(offloads)) };
    checked(answer)?;
    Ok(tap)
}

/// What the far end of a veth needs when an XDP program runs on the near one: sent packets with complete checksums,
/// and GRO, so that redirected frames are received at all. Acts in the calling thread's network namespace.
///
/// # Errors
/// What the kernel answers; `InvalidInput` for a name that is too long.
pub(crate) fn face_xdp(name: &str) -> io::Result<()> {
    ethtool(name, ETHTOOL_SET_TX_CHECKSUM, 0)?;
    ethtool(name, ETHTOOL_SET_GRO, 1)
}

#[expect(unsafe_code, reason = "the kernel switches offloads through ioctl alone")]
fn ethtool(name: &str, command: u32, data: u32) -> io::Result<()> {
    let mut value = EthtoolValue { command, data };
    let mut request = EthtoolRequest { name: device_name(name)?, value: &raw mut value, padding: [0; 16] };
    let socket = std::net::UdpSocket::bind((std::net::Ipv6Addr::UNSPECIFIED, 0))?;
    // SAFETY: the descriptor is open, SIOCETHTOOL reads one `ifreq`, whose size `request` has, and its pointer leads
    // to a value of two words that outlives the call.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
    checked(answer)
}

fn device_name(name: &str) -> io::Result<[u8; NAME_BYTES]> {
    let mut bytes = [0; NAME_BYTES];
    if name.len() >= NAME_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("device name {name} is too long")));
    }
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    Ok(bytes)
}

fn checked(answer: libc::c_int) -> io::Result<()> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
