//! Next hops of engines, resolved through the host's routes and neighbours.
//!
//! `ip` (iproute2) answers in batches; a netlink socket tells when an answer may have changed. Neighbours in use are
//! marked `managed`, so that the kernel keeps them resolved. What cannot be resolved is left to the kernel's FIB.
use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write as _},
    net::IpAddr,
    os::fd::{AsRawFd as _, OwnedFd},
    process::{Command, Stdio},
};

use nix::{
    errno::Errno,
    sys::socket::{
        AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket,
    },
};
use serde::Deserialize;

/// RTMGRP_LINK, RTMGRP_NEIGH, RTMGRP_IPV4_IFADDR, RTMGRP_IPV4_ROUTE, RTMGRP_IPV6_IFADDR, RTMGRP_IPV6_ROUTE.
const GROUPS: u32 = 0x1 | 0x4 | 0x10 | 0x40 | 0x100 | 0x400;

/// The link towards an address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Hop {
    pub(super) next: [u8; 6],
    pub(super) own: [u8; 6],
    pub(super) ifindex: u32,
    pub(super) mtu: u16,
}

#[derive(Debug)]
pub(super) struct Resolver {
    events: OwnedFd,
}

#[derive(Deserialize)]
struct Route {
    dst: IpAddr,
    gateway: Option<IpAddr>,
    dev: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
}

#[derive(Deserialize)]
struct Neighbour {
    dst: IpAddr,
    dev: String,
    lladdr: Option<String>,
    #[serde(default)]
    state: Vec<String>,
    #[serde(default, deserialize_with = "is_there")]
    managed: bool,
}

#[derive(Deserialize)]
struct Device {
    ifindex: u32,
    ifname: String,
    mtu: u32,
    address: Option<String>,
}

/// `ip` writes flags as keys with the value null.
fn is_there<'de, D: serde::Deserializer<'de>>(value: D) -> Result<bool, D::Error> {
    serde::de::IgnoredAny::deserialize(value).map(|_| true)
}

impl Resolver {
    pub(super) fn new() -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let events = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)?;
        bind(events.as_raw_fd(), &NetlinkAddr::new(0, GROUPS))?;
        Ok(Self { events })
    }

    /// Whether links, addresses, routes or neighbours changed since the last call.
    pub(super) fn changed(&self) -> bool {
        let mut message = [0; 8192];
        let mut changed = false;
        loop {
            match recv(self.events.as_raw_fd(), &mut message, MsgFlags::MSG_DONTWAIT) {
                Ok(_) | Err(Errno::ENOBUFS) => changed = true,
                Err(Errno::EINTR) => {}
                Err(_) => return changed,
            }
        }
    }

    /// The next hops of those targets for which one is known.
    pub(super) fn resolve(&self, targets: &BTreeSet<IpAddr>) -> io::Result<BTreeMap<IpAddr, Hop>> {
        if targets.is_empty() {
            return Ok(BTreeMap::new());
        }
        let routes = routes(targets)?;
        let devices: BTreeMap<String, Device> = list::<Device>(&["link", "show"])?
            .into_iter()
            .map(|device| (device.ifname.clone(), device))
            .collect();
        let neighbours: BTreeMap<(IpAddr, String), Neighbour> = list::<Neighbour>(&["neigh", "show"])?
            .into_iter()
            .map(|neighbour| ((neighbour.dst, neighbour.dev.clone()), neighbour))
            .collect();
        manage(&routes, &neighbours)?;
        Ok(routes
            .iter()
            .filter_map(|(target, (via, device))| {
                let neighbour = neighbours.get(&(*via, device.clone()))?;
                Some((*target, hop(neighbour, devices.get(device)?)?))
            })
            .collect())
    }
}

fn hop(neighbour: &Neighbour, device: &Device) -> Option<Hop> {
    if neighbour.state.iter().any(|state| state == "FAILED" || state == "INCOMPLETE") {
        return None;
    }
    Some(Hop {
        next: mac(neighbour.lladdr.as_deref()?)?,
        own: mac(device.address.as_deref()?)?,
        ifindex: device.ifindex,
        mtu: u16::try_from(device.mtu).unwrap_or(u16::MAX),
    })
}

fn mac(text: &str) -> Option<[u8; 6]> {
    let mut address = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut address {
        *byte = u8::from_str_radix(parts.next()?, 16).ok()?;
    }
    parts.next().is_none().then_some(address)
}

/// For each target, the neighbour that a packet to it is handed to, and the device. Local targets have none.
fn routes(targets: &BTreeSet<IpAddr>) -> io::Result<BTreeMap<IpAddr, (IpAddr, String)>> {
    let words: Vec<String> = targets.iter().map(|target| format!("route get {target}")).collect();
    let output = batch(&words)?;
    let routes = output.lines().flat_map(|line| serde_json::from_str::<Vec<Route>>(line).unwrap_or_default());
    Ok(routes
        .filter(|route| route.kind.as_deref().is_none_or(|kind| kind == "unicast"))
        .filter_map(|route| Some((route.dst, (route.gateway.unwrap_or(route.dst), route.dev?))))
        .collect())
}

/// Has the kernel resolve neighbours and keep them so. Those that a person or a routing daemon set stay.
fn manage(
    routes: &BTreeMap<IpAddr, (IpAddr, String)>,
    neighbours: &BTreeMap<(IpAddr, String), Neighbour>,
) -> io::Result<()> {
    let vias: BTreeSet<&(IpAddr, String)> = routes.values().collect();
    let words: Vec<String> = vias
        .into_iter()
        .filter(|via| {
            neighbours.get(via).is_none_or(|known| {
                !known.managed && !known.state.iter().any(|state| state == "PERMANENT" || state == "NOARP")
            })
        })
        .map(|(address, device)| format!("neigh replace {address} dev {device} managed"))
        .collect();
    if !words.is_empty() {
        batch(&words)?;
    }
    Ok(())
}

fn list<T: for<'de> Deserialize<'de>>(words: &[&str]) -> io::Result<Vec<T>> {
    let output = Command::new("ip").arg("-json").args(words).stdin(Stdio::null()).output()?;
    serde_json::from_slice(&output.stdout).map_err(io::Error::from)
}

/// Runs lines of `ip` commands; a line that fails leaves no output.
fn batch(lines: &[String]) -> io::Result<String> {
    let mut child = Command::new("ip")
        .args(["-json", "-force", "-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let input = child.stdin.take();
    let text = lines.join("\n");
    let writer =
        std::thread::spawn(move || input.map_or(Ok(()), |mut input| input.write_all(text.as_bytes())));
    let output = child.wait_with_output()?;
    // A writer that failed means that `ip` ended early, and its missing answers are unresolved targets.
    drop(writer.join());
    String::from_utf8(output.stdout).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_neighbour_gives_the_hop_of_its_device() {
        let neighbour: Neighbour = serde_json::from_str(
            r#"{"dst":"10.2.0.1","dev":"eth1","lladdr":"02:00:00:00:00:0a","managed":null,"state":["REACHABLE"]}"#,
        )
        .unwrap();
        let device: Device = serde_json::from_str(
            r#"{"ifindex":7,"ifname":"eth1","mtu":9000,"address":"02:00:00:00:00:0b","flags":[]}"#,
        )
        .unwrap();

        let expected = Hop { next: [2, 0, 0, 0, 0, 10], own: [2, 0, 0, 0, 0, 11], ifindex: 7, mtu: 9000 };
        assert!(neighbour.managed);
        assert_eq!(hop(&neighbour, &device), Some(expected));
    }

    #[test]
    fn a_neighbour_that_does_not_answer_gives_none() {
        let neighbour: Neighbour =
            serde_json::from_str(r#"{"dst":"10.2.0.7","dev":"a0","managed":null,"state":["INCOMPLETE"]}"#)
                .unwrap();
        let device: Device =
            serde_json::from_str(r#"{"ifindex":3,"ifname":"a0","mtu":1500,"address":"56:88:48:ac:5f:d2"}"#)
                .unwrap();

        assert_eq!(hop(&neighbour, &device), None);
    }
}
