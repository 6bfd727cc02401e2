use bytemuck::{Pod, Zeroable};

/// The secret hash that turns a key into a slot, and a flow into its place in the flow cache.
///
/// A keyed folded multiply: the two halves of a 128-bit product are xored, twice, each time with another part of the
/// key. Nobody who lacks the fleet's secret can choose keys that share an engine. `HalfSipHash-1-3` needs six to
/// nine dependent rounds; BPF has no rotate instruction, so that a round costs about 26 instructions and the hash
/// more than half of the whole packet budget. This one takes eight 32-bit multiplications, most of them in parallel.
///
/// | offset | bytes | field   | meaning                                          |
/// |-------:|------:|---------|--------------------------------------------------|
/// |      0 |    32 | `words` | expanded from the 16-byte secret; odd at 1 and 3 |
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Pod, Zeroable)]
pub struct HashKey {
    pub words: [u64; 4],
}

/// Keeps keys, flows and sources apart, so that equal numbers of different kinds do not share a slot.
const DOMAIN_KEY: u64 = 0;
const DOMAIN_FLOW4: u64 = 0x9e37_79b9_7f4a_7c15;
const DOMAIN_SOURCE4: u64 = 0xc2b2_ae3d_27d4_eb4f;
const DOMAIN_SOURCE6: u64 = 0x1656_67b1_9e37_79f9;

impl HashKey {
    /// Spreads a secret over the four words.
    pub fn expand(secret: [u8; 16]) -> Self {
        let [first, second] = [0, 8].map(|at| {
            let mut half = [0; 8];
            half.copy_from_slice(&secret[at..at + 8]);
            u64::from_le_bytes(half)
        });
        let word =
            |salt: u64| finish(finish(first ^ salt).wrapping_add(finish(second ^ salt.rotate_left(32))));
        Self {
            words: [
                word(DOMAIN_FLOW4),
                word(DOMAIN_SOURCE4) | 1,
                word(DOMAIN_SOURCE6),
                word(!DOMAIN_FLOW4) | 1,
            ],
        }
    }

    #[inline(always)]
    fn pair(&self, first: u64, second: u64) -> u64 {
        let mixed = fold(first ^ self.words[0], second ^ self.words[1]);
        fold(mixed ^ self.words[2], self.words[3])
    }

    /// Of a conversation's key, or of any other number that stands for one.
    #[inline(always)]
    pub fn of_key(&self, key: u64) -> u64 {
        self.pair(key, DOMAIN_KEY)
    }

    /// Of a flow to an IPv4 service. Destination, its port and the protocol are the service's. Address and port in
    /// wire order.
    #[inline(always)]
    pub fn of_flow4(&self, source: u32, source_port: u16, service: u16) -> u64 {
        let flow = u64::from(source) << 32 | u64::from(source_port) << 16 | u64::from(service);
        self.pair(flow, DOMAIN_FLOW4)
    }

    /// Of a flow to an IPv6 service; `destination_low` is the conversation's half of a /64 VIP. Wire order.
    #[inline(always)]
    pub fn of_flow6(&self, source: [u64; 2], destination_low: u64, source_port: u16, service: u16) -> u64 {
        let addresses = fold(source[0] ^ self.words[0], source[1] ^ self.words[1]) ^ destination_low;
        self.pair(addresses, u64::from(source_port) << 16 | u64::from(service))
    }

    /// Of an IPv4 source, already cut to its prefix. Wire order.
    #[inline(always)]
    pub fn of_source4(&self, source: u32) -> u64 {
        self.pair(u64::from(source), DOMAIN_SOURCE4)
    }

    /// Of an IPv6 source, already cut to its prefix. Wire order.
    #[inline(always)]
    pub fn of_source6(&self, source: [u64; 2]) -> u64 {
        self.pair(source[0].wrapping_add(DOMAIN_SOURCE6), source[1])
    }
}

/// Both halves of the product, xored. Four 32-bit multiplications, since BPF has none of 128 bits.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    const LOW: u64 = 0xffff_ffff;
    let (a_low, a_high, b_low, b_high) = (a & LOW, a >> 32, b & LOW, b >> 32);
    let low = a_low.wrapping_mul(b_low);
    let first = a_low.wrapping_mul(b_high);
    let second = a_high.wrapping_mul(b_low);
    let middle = (low >> 32).wrapping_add(first & LOW).wrapping_add(second & LOW);
    let high = a_high
        .wrapping_mul(b_high)
        .wrapping_add(first >> 32)
        .wrapping_add(second >> 32)
        .wrapping_add(middle >> 32);
    high ^ (middle << 32 | low & LOW)
}

/// The finaliser of MurmurHash3 (Appleby): a bijection in which every bit of the input reaches every bit out.
fn finish(mut x: u64) -> u64 {
    x = (x ^ x >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    x = (x ^ x >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ x >> 33
}

/// The public key of a conversation: what a client puts into the low 64 bits of a VIP's address.
///
/// An id of 16 hexadecimal digits stands for itself, most significant digit first. Any other is hashed by FNV-1a
/// (64 bits; Fowler, Noll, Vo), which is three lines in any language. It need not resist an attacker: whoever
/// chooses an id could as well choose the address.
pub fn conversation_key(id: &str) -> u64 {
    if id.len() == 16 && id.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return id
            .chars()
            .filter_map(|digit| digit.to_digit(16))
            .fold(0, |key, digit| key << 4 | u64::from(digit));
    }
    id.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sixteen_hex_digits_stand_for_themselves() {
        assert_eq!(conversation_key("00ff00000000ABCd"), 0x00ff_0000_0000_abcd);
    }

    #[test]
    fn other_ids_follow_the_published_vectors_of_fnv_1a() {
        assert_eq!(conversation_key(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(conversation_key("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(conversation_key("foobar"), 0x8594_4171_f739_67e8);
    }

    proptest! {
        #[test]
        fn the_fold_is_the_xor_of_the_halves_of_the_product(a: u64, b: u64) {
            let product = u128::from(a) * u128::from(b);

            prop_assert_eq!(u128::from(fold(a, b)), (product >> 64) ^ (product & u128::from(u64::MAX)));
        }
    }

    #[test]
    fn keys_in_sequence_fill_slots_evenly() {
        let key = HashKey::expand(*b"a secret of 16 b");
        let mut counts = [0_i32; 256];

        for conversation in 0..256 * 100 {
            counts[usize::from(key.of_key(conversation).to_le_bytes()[0])] += 1;
        }

        // Chi-square with 255 degrees of freedom: mean 255, standard deviation 22.6; 5 deviations.
        let chi_square = counts.iter().map(|count| f64::from((count - 100).pow(2)) / 100.0).sum::<f64>();
        assert!((142.0..368.0).contains(&chi_square), "{chi_square}");
    }

    #[test]
    fn one_bit_of_the_secret_moves_nearly_all_keys() {
        let one = HashKey::expand([0; 16]);
        let mut secret = [0; 16];
        secret[9] = 0x10;
        let other = HashKey::expand(secret);

        let kept = (0..4096_u64).filter(|&key| one.of_key(key) & 0xff == other.of_key(key) & 0xff).count();

        assert!(kept < 40, "16 expected, {kept} found");
    }
}
