use bytemuck::{Pod, Zeroable};

/// Key of the `REPLIES` map: where an IPv4 reply comes from.
///
/// | offset | bytes | field      | meaning                         |
/// |-------:|------:|------------|---------------------------------|
/// |      0 |     4 | `address`  | engine's address, wire order    |
/// |      4 |     2 | `port`     | engine's port, wire order       |
/// |      6 |     1 | `protocol` | 6 or 17                         |
/// |      7 |     1 | `pad`      | zero                            |
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Pod, Zeroable)]
pub struct ReplyKey {
    pub address: u32,
    pub port: u16,
    pub protocol: u8,
    pub pad: u8,
}

/// Value of the `REPLIES` map: the VIP that the client knows.
///
/// | offset | bytes | field     | meaning                              |
/// |-------:|------:|-----------|--------------------------------------|
/// |      0 |     4 | `vip`     | VIP, wire order                      |
/// |      4 |     2 | `port`    | VIP's port, wire order               |
/// |      6 |     2 | `service` | index of the service                 |
///
/// The agent writes, the kernel reads. 8,192 entries, 16 bytes and the hash map's own 48 each: 512 KiB.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Pod, Zeroable)]
pub struct Reply {
    pub vip: u32,
    pub port: u16,
    pub service: u16,
}

const _: () = assert!(size_of::<ReplyKey>() == 8 && size_of::<Reply>() == 8);
