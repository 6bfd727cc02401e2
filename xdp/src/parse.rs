//! First stage: what the headers say, as far as forwarding needs it.
use penstock_abi::Reason;

use crate::{
    checksum::Delta,
    frame::{Frame, Window},
};

pub const ETHERNET_BYTES: usize = 14;
pub const ETHER_IPV4: u16 = 0x0800_u16.to_be();
pub const ETHER_IPV6: u16 = 0x86dd_u16.to_be();
pub const TCP: u8 = 6;
pub const UDP: u8 = 17;

pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const ACK: u8 = 0x10;

/// The transport header of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Transport<'a> {
    /// 6 or 17.
    pub protocol: u8,
    /// What TCP and UDP have alike: ports first.
    start: Window<'a, 8>,
    header: Header<'a>,
}

/// The header in full.
#[derive(Clone, Copy, Debug)]
pub enum Header<'a> {
    Tcp(Window<'a, 20>),
    Udp(Window<'a, 8>),
}

/// Where a packet stands in its flow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Phase {
    /// A TCP SYN, or the first packet of a QUIC connection.
    New,
    /// Any other TCP packet.
    Established,
    /// A UDP datagram, which does not tell.
    Datagram,
}

impl<'a> Transport<'a> {
    /// The transport header at `offset`, of a packet with `bytes` bytes from there on by its IP header.
    ///
    /// # Errors
    ///
    /// `OtherProtocol` for anything but TCP and UDP, `Malformed` for a header that is cut short or lies.
    #[inline(always)]
    pub fn parse(frame: &Frame<'a>, offset: usize, protocol: u8, bytes: u16) -> Result<Self, Reason> {
        if protocol != TCP && protocol != UDP {
            return Err(Reason::OtherProtocol);
        }
        let start = frame.window::<8>(offset).ok_or(Reason::Malformed)?;
        let header = if protocol == TCP {
            let header = frame.window::<20>(offset).ok_or(Reason::Malformed)?;
            let length = u16::from(header.load::<u8, 12>() >> 4) << 2;
            if length < 20 || length > bytes {
                return Err(Reason::Malformed);
            }
            Header::Tcp(header)
        } else {
            let length = u16::from_be(start.load::<u16, 4>());
            if length < 8 || length > bytes {
                return Err(Reason::Malformed);
            }
            Header::Udp(start)
        };
        Ok(Self { protocol, start, header })
    }

    #[inline(always)]
    pub fn header(&self) -> &Header<'a> {
        &self.header
    }

    /// Source port, wire order.
    #[inline(always)]
    pub fn source_port(&self) -> u16 {
        self.start.load::<u16, 0>()
    }

    /// Destination port, wire order.
    #[inline(always)]
    pub fn destination_port(&self) -> u16 {
        self.start.load::<u16, 2>()
    }

    /// Writes the source port, wire order.
    #[inline(always)]
    pub fn set_source_port(&self, port: u16) {
        self.start.store::<u16, 0>(port);
    }

    /// Writes the destination port, wire order.
    #[inline(always)]
    pub fn set_destination_port(&self, port: u16) {
        self.start.store::<u16, 2>(port);
    }

    /// Corrects the checksum for what changed in the packet and its addresses.
    #[inline(always)]
    pub fn patch_checksum(&self, delta: Delta) {
        match &self.header {
            Header::Tcp(header) => header.store::<u16, 16>(delta.apply(header.load::<u16, 16>())),
            Header::Udp(header) => header.store::<u16, 6>(delta.apply_udp(header.load::<u16, 6>())),
        }
    }
}

/// What tracking asks of a packet.
pub trait Progress {
    fn phase(&self) -> Phase;
    /// Whether the sender ends the flow.
    fn closes(&self) -> bool;
}

impl Progress for Transport<'_> {
    #[inline(always)]
    fn phase(&self) -> Phase {
        match &self.header {
            Header::Tcp(header) if header.load::<u8, 13>() & (SYN | ACK) == SYN => Phase::New,
            Header::Tcp(_) => Phase::Established,
            Header::Udp(_) => Phase::Datagram,
        }
    }

    #[inline(always)]
    fn closes(&self) -> bool {
        matches!(&self.header, Header::Tcp(header) if header.load::<u8, 13>() & (FIN | RST) != 0)
    }
}

/// An IPv4 header and what follows it.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4<'a> {
    pub header: Window<'a, 20>,
    /// Length of the packet by its header, bytes.
    pub total: u16,
    pub transport: Transport<'a>,
}

impl<'a> Ipv4<'a> {
    /// The packet whose IPv4 header starts at `offset`, `OPTIONS` saying whether a longer header is looked for.
    ///
    /// # Errors
    ///
    /// The reason for which the packet is passed to the host's stack.
    #[inline(always)]
    pub fn parse(
        frame: &Frame<'a>,
        header: Window<'a, 20>,
        offset: usize,
        header_bytes: u16,
    ) -> Result<Self, Reason> {
        let total = u16::from_be(header.load::<u16, 2>());
        if total < header_bytes || offset + usize::from(total) > frame.length() {
            return Err(Reason::Malformed);
        }
        if header.load::<u16, 6>() & 0x3fff_u16.to_be() != 0 {
            return Err(Reason::Fragment);
        }
        let protocol = header.load::<u8, 9>();
        let transport =
            Transport::parse(frame, offset + usize::from(header_bytes), protocol, total - header_bytes)?;
        Ok(Self { header, total, transport })
    }

    #[inline(always)]
    pub fn source(&self) -> u32 {
        self.header.load::<u32, 12>()
    }

    #[inline(always)]
    pub fn destination(&self) -> u32 {
        self.header.load::<u32, 16>()
    }

    #[inline(always)]
    pub fn ttl(&self) -> u8 {
        self.header.load::<u8, 8>()
    }
}

/// An IPv6 header and what follows it.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6<'a> {
    pub header: Window<'a, 40>,
    /// Length of the packet by its header, without the header's own 40, bytes.
    pub payload: u16,
    pub transport: Transport<'a>,
}

impl<'a> Ipv6<'a> {
    /// The packet whose IPv6 header starts at `offset`, without extension headers.
    ///
    /// # Errors
    ///
    /// The reason for which the packet is passed to the host's stack.
    #[inline(always)]
    pub fn parse(frame: &Frame<'a>, offset: usize) -> Result<Self, Reason> {
        let header = frame.window::<40>(offset).ok_or(Reason::Malformed)?;
        let payload = u16::from_be(header.load::<u16, 4>());
        if header.load::<u8, 0>() >> 4 != 6 || offset + 40 + usize::from(payload) > frame.length() {
            return Err(Reason::Malformed);
        }
        let transport = Transport::parse(frame, offset + 40, header.load::<u8, 6>(), payload)?;
        Ok(Self { header, payload, transport })
    }

    #[inline(always)]
    pub fn source(&self) -> [u64; 2] {
        [self.header.load::<u64, 8>(), self.header.load::<u64, 16>()]
    }

    #[inline(always)]
    pub fn destination(&self) -> [u64; 2] {
        [self.header.load::<u64, 24>(), self.header.load::<u64, 32>()]
    }

    #[inline(always)]
    pub fn hop_limit(&self) -> u8 {
        self.header.load::<u8, 7>()
    }
}
