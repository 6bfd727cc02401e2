//! Internet checksums, changed by difference (RFC 1624).

/// What the replacement of some words adds to a ones' complement sum.
///
/// All words are in wire order as loaded, and each stands at an even offset of what the checksum covers; the sum is
/// then right in either byte order (RFC 1071, section 2).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[must_use]
pub struct Delta(u64);

impl Delta {
    pub const NONE: Self = Self(0);

    #[inline(always)]
    pub fn replace16(self, old: u16, new: u16) -> Self {
        Self(self.0 + u64::from(!old) + u64::from(new))
    }

    #[inline(always)]
    pub fn replace32(self, old: u32, new: u32) -> Self {
        Self(self.0 + u64::from(!old) + u64::from(new))
    }

    #[inline(always)]
    pub fn replace64(self, old: u64, new: u64) -> Self {
        Self(self.0 + halves(!old) + halves(new))
    }

    /// A word that becomes smaller by `less`, without a borrow: what it was does not matter.
    #[inline(always)]
    pub fn decrease16(self, less: u16) -> Self {
        Self(self.0 + u64::from(!less))
    }

    /// The checksum after the replacement.
    #[inline(always)]
    #[must_use]
    pub fn apply(self, checksum: u16) -> u16 {
        !fold(self.0 + u64::from(!checksum))
    }

    /// The same for UDP, where zero means "no checksum": it stays, and a computed zero is sent as all ones.
    #[inline(always)]
    #[must_use]
    pub fn apply_udp(self, checksum: u16) -> u16 {
        if checksum == 0 {
            return 0;
        }
        match self.apply(checksum) {
            0 => 0xffff,
            other => other,
        }
    }
}

#[inline(always)]
fn halves(word: u64) -> u64 {
    (word & 0xffff_ffff) + (word >> 32)
}

/// Sums below 2^36 to 16 bits: at most 0x10fffe after the first step, 0x1000f after the second.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the last step leaves at most 16 bits")]
pub const fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the definition: big-endian words, end-around carry one by one.
    fn checksum_by_definition(bytes: &[u8]) -> u16 {
        let mut sum = 0_u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
            if sum > 0xffff {
                sum -= 0xffff;
            }
        }
        !u16::try_from(sum).unwrap()
    }

    #[test]
    fn replacing_words_of_every_size_gives_the_checksum_of_the_new_bytes() {
        let mut bytes: Vec<u8> = (0..64_u16).map(|n| (n * 37 % 251).to_le_bytes()[0]).collect();
        let at = |bytes: &[u8], start: usize| u64::from_ne_bytes(bytes[start..start + 8].try_into().unwrap());
        let before = checksum_by_definition(&bytes);
        let old = bytes.clone();

        bytes[2..4].copy_from_slice(&[0xff, 0xfe]);
        bytes[8..12].copy_from_slice(&[9, 8, 7, 6]);
        bytes[16..24].copy_from_slice(&[0, 1, 0xff, 0xff, 0xfd, 3, 2, 1]);
        let delta = Delta::NONE
            .replace16(u16::from_ne_bytes([old[2], old[3]]), u16::from_ne_bytes([0xff, 0xfe]))
            .replace32(u32::from_ne_bytes(old[8..12].try_into().unwrap()), u32::from_ne_bytes([9, 8, 7, 6]))
            .replace64(at(&old, 16), at(&bytes, 16));

        assert_eq!(u16::from_be(delta.apply(before.to_be())), checksum_by_definition(&bytes));
    }

    #[test]
    fn a_udp_checksum_of_zero_stays_and_a_computed_zero_is_sent_as_ones() {
        let delta = Delta::NONE.replace16(1, 0);

        assert_eq!(delta.apply_udp(0), 0);
        assert_eq!(Delta::NONE.replace16(0, 1).apply_udp(1), 0xffff);
    }
}
