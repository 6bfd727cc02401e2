//! Hash of a prompt's prefix: public, the same on every host, whatever pieces the bytes come in.

const FACTORS: [u64; 3] = [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93, 0xa076_1d64_78bd_642f];

/// Both halves of the 128-bit product, xored.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    #[expect(clippy::cast_possible_truncation, reason = "takes the lower half")]
    let low = product as u64;
    let high = u64::try_from(product >> 64).expect("the upper half has 64 bits");
    low ^ high
}

/// Joins two hashes; the order matters.
pub(crate) fn join(first: u64, second: u64) -> u64 {
    fold(first ^ FACTORS[0], second ^ FACTORS[1])
}

/// A folded multiply over blocks of 16 bytes, zero-padded at the end, then the length.
///
/// It need not resist an attacker: whoever writes the prompt could as well name a conversation.
#[derive(Clone, Debug)]
pub(crate) struct PrefixHasher {
    state: u64,
    block: [u8; 16],
    filled: usize,
    length: u64,
}

impl PrefixHasher {
    pub(crate) const fn new() -> Self {
        Self { state: FACTORS[2], block: [0; 16], filled: 0, length: 0 }
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    pub(crate) fn update(&mut self, mut bytes: &[u8]) {
        self.length += bytes.len() as u64;
        if self.filled > 0 {
            let taken = bytes.len().min(16 - self.filled);
            self.block[self.filled..self.filled + taken].copy_from_slice(&bytes[..taken]);
            self.filled += taken;
            bytes = &bytes[taken..];
            if self.filled < 16 {
                return;
            }
            self.state = mix(self.state, &self.block);
            self.filled = 0;
        }
        let (blocks, rest) = bytes.as_chunks::<16>();
        self.state = blocks.iter().fold(self.state, mix);
        self.block[..rest.len()].copy_from_slice(rest);
        self.filled = rest.len();
    }

    pub(crate) fn finish(&self) -> u64 {
        let mut last = [0; 16];
        last[..self.filled].copy_from_slice(&self.block[..self.filled]);
        join(mix(self.state, &last), self.length)
    }
}

fn mix(state: u64, block: &[u8; 16]) -> u64 {
    let block = u128::from_le_bytes(*block);
    #[expect(clippy::cast_possible_truncation, reason = "takes the lower half")]
    let low = block as u64;
    let high = u64::try_from(block >> 64).expect("the upper half has 64 bits");
    fold(low ^ state ^ FACTORS[0], high ^ state.rotate_left(32) ^ FACTORS[1])
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn hash(text: &[u8]) -> u64 {
        let mut hasher = PrefixHasher::new();
        hasher.update(text);
        hasher.finish()
    }

    #[test]
    fn padding_is_told_from_zero_bytes() {
        assert_ne!(hash(b""), hash(b"\0"));
        assert_ne!(hash(b"a"), hash(b"a\0"));
        assert_ne!(hash(&[0; 16]), hash(&[0; 32]));
    }

    #[test]
    fn texts_that_differ_in_one_letter_have_different_hashes() {
        let texts: HashSet<u64> =
            (0..10_000).map(|n| hash(format!("You are helpful. Question {n}").as_bytes())).collect();

        assert_eq!(texts.len(), 10_000);
    }

    proptest! {
        #[test]
        fn the_hash_does_not_depend_on_the_pieces(
            text in prop::collection::vec(any::<u8>(), 0..200),
            step in 1_usize..40,
        ) {
            let mut hasher = PrefixHasher::new();
            text.chunks(step).for_each(|piece| hasher.update(piece));

            prop_assert_eq!(hasher.finish(), hash(&text));
        }
    }
}
