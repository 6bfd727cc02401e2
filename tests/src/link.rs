//! A link's ends: device, addresses, hardware address, and the neighbours that spare address resolution.
use std::{
    fmt::Write,
    net::{Ipv4Addr, Ipv6Addr},
};

use crate::{HarnessError, Netns, device};

/// One end of a link.
#[derive(Clone, Debug)]
pub struct End {
    pub netns: Netns,
    /// At most 15 bytes.
    pub device: String,
    /// Address and prefix length.
    pub v4: Option<(Ipv4Addr, u8)>,
    pub v6: Option<(Ipv6Addr, u8)>,
    /// The other end carries an XDP program.
    pub faces_xdp: bool,
    pub mtu: u16,
}

impl End {
    /// An end without addresses, with the usual MTU.
    pub fn new(netns: &Netns, device: &str) -> Self {
        Self {
            netns: netns.clone(),
            device: device.to_owned(),
            v4: None,
            v6: None,
            faces_xdp: false,
            mtu: 1500,
        }
    }

    #[must_use]
    pub const fn v4(mut self, address: Ipv4Addr, prefix: u8) -> Self {
        self.v4 = Some((address, prefix));
        self
    }

    #[must_use]
    pub const fn v6(mut self, address: Ipv6Addr, prefix: u8) -> Self {
        self.v6 = Some((address, prefix));
        self
    }

    #[must_use]
    pub const fn faces_xdp(mut self) -> Self {
        self.faces_xdp = true;
        self
    }

    #[must_use]
    pub const fn mtu(mut self, mtu: u16) -> Self {
        self.mtu = mtu;
        self
    }

    /// Addresses, MTU and hardware address of this end, and the other end as a permanent neighbour.
    pub(crate) fn configure(&self, mac: Mac, other: &Self, other_mac: Mac) -> Result<(), HarnessError> {
        let device = &self.device;
        let mut lines = format!("link set {device} mtu {} address {mac} up\n", self.mtu);
        // Without duplicate detection an IPv6 address serves at once.
        let addresses = [
            self.v4.map(|(address, prefix)| format!("{address}/{prefix}")),
            self.v6.map(|(address, prefix)| format!("{address}/{prefix} nodad")),
        ];
        for address in addresses.into_iter().flatten() {
            writeln!(lines, "addr add dev {device} {address}").expect("a string takes every line");
        }
        let neighbours = [
            other.v4.map(|(address, _)| address.to_string()),
            other.v6.map(|(address, _)| address.to_string()),
        ];
        for neighbour in neighbours.into_iter().flatten() {
            writeln!(lines, "neigh replace {neighbour} lladdr {other_mac} dev {device} nud permanent")
                .expect("a string takes every line");
        }
        self.netns.ip(&lines)?;
        // The kernel makes the other end a target of redirects only if GRO is switched on while this end is up.
        if self.faces_xdp {
            self.netns
                .enter(|| device::face_xdp(&self.device))?
                .map_err(HarnessError::io(format!("set the offloads of {}", self.device)))?;
        }
        Ok(())
    }
}

/// A hardware address of the locally administered range.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Mac(pub(crate) u32);

impl std::fmt::Display for Mac {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [a, b, c, d] = self.0.to_be_bytes();
        write!(f, "02:70:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_addresses_are_local_and_distinct() {
        assert_eq!(Mac(1).to_string(), "02:70:00:00:00:01");
        assert_eq!(Mac(0x0102_0304).to_string(), "02:70:01:02:03:04");
    }
}
