use bytemuck::{Pod, Zeroable};

use crate::HashKey;

/// The one value of the `CONFIG` map.
///
/// | offset | bytes | field        | meaning                                                                 |
/// |-------:|------:|--------------|-------------------------------------------------------------------------|
/// |      0 |    32 | `hash_key`   | [`HashKey`] expanded from the fleet's secret                             |
/// |     32 |     8 | `placement`  | [`Placement`] of the services in force, written at once                  |
/// |     40 |     8 | `epoch`      | epoch of the snapshot in force; written last                             |
/// |     48 |     4 | `nat_prefix` | upper 32 bits of the prefixes of IPv6 `dnat`, wire order; 0 = none       |
/// |     52 |     4 | `flags`      | [`FLAG_REDIRECT_ONLY`], [`FLAG_RESET_LOST`]                              |
/// |     56 |     2 | `tick`       | [`crate::Tick`] now                                                      |
/// |     58 |     2 | `pad`        | zero                                                                     |
/// |     60 |     4 | `shed_salt`  | changes every 10 min, so that the same keys are not refused all day      |
///
/// The agent writes, the kernel reads. 64 bytes.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Pod, Zeroable)]
pub struct Config {
    pub hash_key: HashKey,
    pub placement: u64,
    pub epoch: u64,
    pub nat_prefix: u32,
    pub flags: u32,
    pub tick: u16,
    pub pad: u16,
    pub shed_salt: u32,
}

const _: () = assert!(size_of::<Config>() == 64);

/// Never `XDP_TX`: a packet that leaves by its ingress port is redirected there. For veth, whose far end needs a
/// program of its own to take a transmitted frame.
pub const FLAG_REDIRECT_ONLY: u32 = 1;
/// TCP flows of an engine that is out are reset, not re-slotted.
pub const FLAG_RESET_LOST: u32 = 1 << 1;

/// Which half of `SERVICES` is in force, and the factor by which it was placed: one word, so that both change at once.
///
/// | bits     | field    | meaning                                                     |
/// |---------:|----------|-------------------------------------------------------------|
/// |       63 | `half`   | 0 or 1                                                      |
/// |  0 to 63 | `factor` | of [`crate::Vip::position`]; odd, the half's bit in it       |
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Placement(pub u64);

impl Placement {
    const HALF: u32 = 63;

    /// The factor number `tries` for a half: odd multiples of the golden ratio.
    pub const fn of(half: u32, tries: u32) -> Self {
        let factor = (2 * tries as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self(factor << 1 >> 1 | (half as u64) << Self::HALF)
    }

    #[inline(always)]
    pub const fn half(self) -> u32 {
        (self.0 >> Self::HALF) as u32
    }
}
