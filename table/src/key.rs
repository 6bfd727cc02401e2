//! Public hashes: of an engine's id, and the mixing behind every pseudo-random choice of this crate.

/// Hash of an engine's id, the only form in which an id enters a table.
///
/// Public and without a key: whoever knows the ids can compute the tables. What keeps outsiders from aiming at an
/// engine is the secret in the slot hash of keys, which is not part of this crate.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct EngineKey(pub u64);

impl EngineKey {
    /// Hashes the bytes of an id, eight at a time in little-endian order, the last ones padded with zeros, and the
    /// length at the end.
    #[must_use]
    pub fn of(id: &str) -> Self {
        let mut state = 0;
        for chunk in id.as_bytes().chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            state = mix(state ^ u64::from_le_bytes(word));
        }
        Self(mix(state ^ id.len() as u64))
    }

    /// An independent hash of this key for each purpose.
    pub(crate) fn derive(self, purpose: u64) -> u64 {
        mix(mix(self.0) ^ purpose.wrapping_mul(0xd6e8_feb8_6659_fd93))
    }
}

/// The output function of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014):
/// a bijection of 64 bits in which each input bit changes about half of the output bits.
#[inline]
pub(crate) const fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixing_gives_the_published_first_outputs_of_splitmix64() {
        // The generator's state starts at 0 and grows by the golden ratio constant, which `mix` adds itself.
        let golden = 0x9e37_79b9_7f4a_7c15_u64;

        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mix(golden), 0x6e78_9e6a_a1b9_65f4);
        assert_eq!(mix(golden.wrapping_mul(2)), 0x06c4_5d18_8009_454f);
    }

    #[test]
    fn ids_that_differ_by_trailing_zero_bytes_have_different_keys() {
        assert_ne!(EngineKey::of("a"), EngineKey::of("a\0"));
        assert_ne!(EngineKey::of(""), EngineKey::of("\0"));
    }
}
