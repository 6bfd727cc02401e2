//! What `cargo xtask bench xdp` tells its harness in the kernel.

/// Words of a packet that the harness restores: 80 bytes, which hold all headers of a plain TCP packet over IPv6.
pub const TEMPLATE_WORDS: usize = 10;

/// Value of the harness's `SETUP` map.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Setup {
    /// Bytes of the packet.
    pub length: u32,
    pub is_v6: u32,
    /// Flows to vary over, a power of two; 0 for one that never repeats.
    pub flows: u32,
    pub pad: u32,
    /// Number of the next packet.
    pub sequence: u64,
    pub template: [u64; TEMPLATE_WORDS],
}
