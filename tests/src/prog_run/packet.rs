//! Packets from fields, with checksums by definition.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const ACK: u8 = 0x10;

/// MAC addresses of the lab's devices and of what stands beyond them.
pub const OWN_IN: [u8; 6] = [2, 0, 0, 0, 0, 0x10];
pub const CLIENT_ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 0x11];
pub const OWN_OUT: [u8; 6] = [2, 0, 0, 0, 0, 0x20];
pub const ENGINE_ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 0x21];

/// A packet with one IP header and one transport header.
#[derive(Clone, Debug)]
pub struct Packet {
    pub destination_mac: [u8; 6],
    pub source_mac: [u8; 6],
    /// VLAN tags, outermost first.
    pub tags: Vec<u16>,
    pub source: IpAddr,
    pub destination: IpAddr,
    pub ttl: u8,
    /// TOS or traffic class.
    pub traffic_class: u8,
    /// IPv4 options, a multiple of four bytes.
    pub options: Vec<u8>,
    /// IPv4 identification, and flags with fragment offset.
    pub fragment: (u16, u16),
    pub transport: Transport,
    pub source_port: u16,
    pub destination_port: u16,
    pub payload: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Transport {
    Tcp {
        flags: u8,
        sequence: u32,
        acknowledgement: u32,
    },
    Udp,
    /// UDP over IPv4 without a checksum.
    UdpUnchecked,
}

impl Packet {
    /// A TCP packet from a client, as it comes to the lab's device.
    pub fn tcp(source: (&str, u16), destination: (&str, u16), flags: u8) -> Self {
        let transport = Transport::Tcp { flags, sequence: 0x0102_0304, acknowledgement: 0x0506_0708 };
        Self::new(source, destination, transport)
    }

    pub fn udp(source: (&str, u16), destination: (&str, u16)) -> Self {
        Self::new(source, destination, Transport::Udp)
    }

    fn new(source: (&str, u16), destination: (&str, u16), transport: Transport) -> Self {
        let address = |text: &str| text.parse().expect("an IP address");
        Self {
            destination_mac: OWN_IN,
            source_mac: CLIENT_ROUTER,
            tags: Vec::new(),
            source: address(source.0),
            destination: address(destination.0),
            ttl: 64,
            traffic_class: 0,
            options: Vec::new(),
            fragment: (0x1234, 0x4000),
            transport,
            source_port: source.1,
            destination_port: destination.1,
            payload: b"a body of odd length.".to_vec(),
        }
    }

    /// As it leaves towards the engines, one hop later.
    #[must_use]
    pub fn towards_engine(mut self) -> Self {
        (self.destination_mac, self.source_mac) = (ENGINE_ROUTER, OWN_OUT);
        self.ttl -= 1;
        self
    }

    /// As it comes from an engine.
    #[must_use]
    pub fn from_engine(mut self) -> Self {
        (self.destination_mac, self.source_mac) = (OWN_OUT, ENGINE_ROUTER);
        self
    }

    /// As it leaves towards clients, one hop later.
    #[must_use]
    pub fn towards_client(mut self) -> Self {
        (self.destination_mac, self.source_mac) = (CLIENT_ROUTER, OWN_IN);
        self.ttl -= 1;
        self
    }

    #[must_use]
    pub fn with_destination(mut self, address: &str, port: u16) -> Self {
        self.destination = address.parse().expect("an IP address");
        self.destination_port = port;
        self
    }

    #[must_use]
    pub fn with_source(mut self, address: &str, port: u16) -> Self {
        self.source = address.parse().expect("an IP address");
        self.source_port = port;
        self
    }

    #[must_use]
    pub fn with_ttl(mut self, ttl: u8) -> Self {
        self.ttl = ttl;
        self
    }

    pub fn ethernet(&self) -> Vec<u8> {
        let kind: u16 = if self.source.is_ipv4() { 0x0800 } else { 0x86dd };
        ethernet(self.destination_mac, self.source_mac, &self.tags, kind)
    }

    /// The whole frame.
    pub fn frame(&self) -> Vec<u8> {
        [self.ethernet(), self.ip()].concat()
    }

    /// From the IP header on.
    pub fn ip(&self) -> Vec<u8> {
        let transport = self.transport_bytes();
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let header = Ipv4Header {
                    source,
                    destination,
                    ttl: self.ttl,
                    tos: self.traffic_class,
                    protocol: self.protocol(),
                    fragment: self.fragment,
                    options: &self.options,
                };
                [header.bytes(transport.len()), transport].concat()
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let header = Ipv6Header {
                    source,
                    destination,
                    hop_limit: self.ttl,
                    traffic_class: self.traffic_class,
                    next: self.protocol(),
                };
                [header.bytes(transport.len()), transport].concat()
            }
            (source, destination) => unreachable!("{source} and {destination} are of two families"),
        }
    }

    fn protocol(&self) -> u8 {
        if matches!(self.transport, Transport::Tcp { .. }) { 6 } else { 17 }
    }

    fn transport_bytes(&self) -> Vec<u8> {
        let ports = [self.source_port.to_be_bytes(), self.destination_port.to_be_bytes()].concat();
        let (mut bytes, checksum_at) = match self.transport {
            Transport::Tcp { flags, sequence, acknowledgement } => {
                let rest = [0x50, flags, 0xff, 0xfe, 0, 0, 0, 0];
                ([&ports, &sequence.to_be_bytes()[..], &acknowledgement.to_be_bytes(), &rest].concat(), 16)
            }
            Transport::Udp | Transport::UdpUnchecked => {
                let length = u16::try_from(8 + self.payload.len()).expect("a small payload");
                ([&ports, &length.to_be_bytes()[..], &[0, 0]].concat(), 6)
            }
        };
        bytes.extend(&self.payload);
        if self.transport == Transport::UdpUnchecked {
            return bytes;
        }
        let mut sum = checksum(&[self.pseudo_header(bytes.len()), bytes.clone()].concat());
        if sum == 0 && self.transport == Transport::Udp {
            sum = 0xffff;
        }
        bytes[checksum_at..checksum_at + 2].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    fn pseudo_header(&self, length: usize) -> Vec<u8> {
        let length = u32::try_from(length).expect("a small packet").to_be_bytes();
        let octets = |address: IpAddr| match address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        [octets(self.source), octets(self.destination), length.to_vec(), vec![0, 0, 0, self.protocol()]]
            .concat()
    }
}

pub fn ethernet(destination: [u8; 6], source: [u8; 6], tags: &[u16], kind: u16) -> Vec<u8> {
    let mut bytes = [destination, source].concat();
    for (depth, tag) in tags.iter().enumerate() {
        let outer = depth + 1 < tags.len();
        bytes.extend(if outer { [0x88, 0xa8] } else { [0x81, 0x00] });
        bytes.extend(tag.to_be_bytes());
    }
    bytes.extend(kind.to_be_bytes());
    bytes
}

/// Fields of an IPv4 header.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4Header<'a> {
    pub source: Ipv4Addr,
    pub destination: Ipv4Addr,
    pub ttl: u8,
    pub tos: u8,
    pub protocol: u8,
    pub fragment: (u16, u16),
    pub options: &'a [u8],
}

impl Ipv4Header<'_> {
    pub fn bytes(&self, payload: usize) -> Vec<u8> {
        let length = 20 + self.options.len();
        let words = u8::try_from(length / 4).expect("at most 60 bytes");
        let total = u16::try_from(length + payload).expect("a small packet");
        let mut bytes = vec![0x40 | words, self.tos];
        bytes.extend(total.to_be_bytes());
        bytes.extend(self.fragment.0.to_be_bytes());
        bytes.extend(self.fragment.1.to_be_bytes());
        bytes.extend([self.ttl, self.protocol, 0, 0]);
        bytes.extend(self.source.octets());
        bytes.extend(self.destination.octets());
        bytes.extend(self.options);
        let sum = checksum(&bytes);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes
    }
}

/// Fields of an IPv6 header.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6Header {
    pub source: Ipv6Addr,
    pub destination: Ipv6Addr,
    pub hop_limit: u8,
    pub traffic_class: u8,
    pub next: u8,
}

impl Ipv6Header {
    pub fn bytes(&self, payload: usize) -> Vec<u8> {
        let first = 6_u32 << 28 | u32::from(self.traffic_class) << 20 | 0x000a_bcde;
        let mut bytes = first.to_be_bytes().to_vec();
        bytes.extend(u16::try_from(payload).expect("a small packet").to_be_bytes());
        bytes.extend([self.next, self.hop_limit]);
        bytes.extend(self.source.octets());
        bytes.extend(self.destination.octets());
        bytes
    }
}

/// The Internet checksum by its definition (RFC 1071): ones' complement of the ones' complement sum.
pub fn checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).expect("folded to 16 bits")
}
