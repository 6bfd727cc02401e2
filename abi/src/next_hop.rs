use bytemuck::{Pod, Zeroable};

/// Value of the `NEXT_HOPS_OF_CPU` map: one remembered FIB answer of one CPU, direct-mapped by destination.
///
/// | offset | bytes | field        | meaning                                                            |
/// |-------:|------:|--------------|--------------------------------------------------------------------|
/// |      0 |    16 | `address`    | destination, wire order; IPv4 in the first word              |
/// |     16 |     8 | `expires_at` | jiffies64 after which the FIB is asked again; 0 = empty             |
/// |     24 |     8 | `mac_head`   | as in [`crate::Engine`]                                             |
/// |     32 |     4 | `mac_tail`   | as in [`crate::Engine`]                                             |
/// |     36 |     4 | `ifindex`    | port towards it, for `way` [`NextHop::FORWARD`]                      |
/// |     40 |     2 | `mtu`        | largest IP packet towards it, bytes; 0 = not known                  |
/// |     42 |     1 | `family`     | 4 or 6                                                              |
/// |     43 |     1 | `way`        | [`NextHop::FORWARD`], [`NextHop::LOCAL`] or [`NextHop::UNKNOWN`]     |
/// |     44 |     4 | `pad`        | zero                                                                |
///
/// The kernel writes and reads. 48 KiB a CPU.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Pod, Zeroable)]
pub struct NextHop {
    pub address: [u64; 2],
    pub expires_at: u64,
    pub mac_head: u64,
    pub mac_tail: u32,
    pub ifindex: u32,
    pub mtu: u16,
    pub family: u8,
    pub way: u8,
    pub pad: u32,
}

const _: () = assert!(size_of::<NextHop>() == 48);

impl NextHop {
    /// The FIB does not know the way, or the neighbour is not resolved: the host's stack must route.
    pub const UNKNOWN: u8 = 0;
    pub const FORWARD: u8 = 1;
    /// An address of this host.
    pub const LOCAL: u8 = 2;
}
