use bytemuck::{Pod, Zeroable};

/// The secret hash that turns a key into a slot, and a flow into its place in the flow cache.
///
/// Keyed multiplication, as in NH of UMAC (Black, Halevi, Krawczyk, Krovetz and Rogaway, 1999): the halves of each
/// word, masked with secret words, are multiplied 32 by 32 bits; then a secret mask, a secret odd factor and two
/// shifts mix the product. Nobody who lacks the fleet's secret can choose keys that share an engine.
/// `HalfSipHash-1-3` does not fit the packet budget of 25 ns over the floor: it needs six to nine dependent rounds,
/// each of about 26 instructions as BPF has no rotation, where this hash takes fifteen instructions for one word. A
/// 128-bit folded multiply, tried before, takes 36 for each of its two steps.
///
/// | offset | bytes | field   | meaning                                      |
/// |-------:|------:|---------|----------------------------------------------|
/// |      0 |    32 | `words` | expanded from the 16-byte secret; odd at 3   |
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Pod, Zeroable)]
pub struct HashKey {
    pub words: [u64; 4],
}

/// Keeps keys, flows and sources apart, so that equal numbers of different kinds do not share a slot.
const DOMAIN_KEY: u64 = 0;
const DOMAIN_FLOW: u64 = 0x9e37_79b9_7f4a_7c15;
const DOMAIN_SOURCE: u64 = 0xc2b2_ae3d_27d4_eb4f;

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
        Self { words: [word(DOMAIN_FLOW), word(DOMAIN_SOURCE), word(!DOMAIN_SOURCE), word(!DOMAIN_FLOW) | 1] }
    }

    #[inline(always)]
    fn mix(&self, product: u64, domain: u64) -> u64 {
        let masked = product ^ self.words[2] ^ domain;
        let spread = (masked ^ masked >> 32).wrapping_mul(self.words[3]);
        spread ^ spread >> 32
    }

    /// Of a conversation's key, or of any other number that stands for one.
    #[inline(always)]
    pub fn of_key(&self, key: u64) -> u64 {
        self.mix(halves_product(key, self.words[0]), DOMAIN_KEY)
    }

    /// Of a flow to an IPv4 service. Destination, its port and the protocol are the service's. Address and port in
    /// wire order.
    #[inline(always)]
    pub fn of_flow4(&self, source: u32, source_port: u16, service: u16) -> u64 {
        let flow = u64::from(source) << 32 | u64::from(source_port) << 16 | u64::from(service);
        self.mix(halves_product(flow, self.words[0]), DOMAIN_FLOW)
    }

    /// Of a flow to an IPv6 service; `destination_low` is the conversation's half of a /64 VIP. Wire order.
    #[inline(always)]
    pub fn of_flow6(&self, source: [u64; 2], destination_low: u64, source_port: u16, service: u16) -> u64 {
        let ends = u64::from(source_port) << 16 | u64::from(service);
        let addresses = self.mix(self.of_pair(source), destination_low);
        self.mix(halves_product(addresses ^ ends, self.words[0]), DOMAIN_FLOW)
    }

    /// Of an IPv4 source, already cut to its prefix. Wire order.
    #[inline(always)]
    pub fn of_source4(&self, source: u32) -> u64 {
        self.mix(halves_product(u64::from(source), self.words[0]), DOMAIN_SOURCE)
    }

    /// Of an IPv6 source, already cut to its prefix. Wire order.
    #[inline(always)]
    pub fn of_source6(&self, source: [u64; 2]) -> u64 {
        self.mix(self.of_pair(source), DOMAIN_SOURCE)
    }

    #[inline(always)]
    fn of_pair(&self, pair: [u64; 2]) -> u64 {
        halves_product(pair[0], self.words[0]).wrapping_add(halves_product(pair[1], self.words[1]))
    }
}

/// The hash by which new flows of a key are refused: below a service's `shed_below`. It takes all bits of the key's
/// hash, so that it says nothing about the slot, and a salt that changes every ten minutes.
#[inline(always)]
pub const fn shed_hash(key: u64, salt: u32) -> u32 {
    let salted = key ^ (salt as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((salted ^ salted >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 32) as u32
}

#[inline(always)]
fn halves_product(word: u64, mask: u64) -> u64 {
    let masked = word ^ mask;
    (masked & 0xffff_ffff).wrapping_mul(masked >> 32)
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

    /// The chi-square statistic of 25,600 hashes over 256 slots: mean 255, standard deviation 22.6.
    fn chi_square(hashes: impl Iterator<Item = u64>) -> f64 {
        let mut counts = [0_i32; 256];
        for hash in hashes.take(25_600) {
            counts[usize::from(hash.to_le_bytes()[0])] += 1;
        }
        counts.iter().map(|count| f64::from((count - 100).pow(2)) / 100.0).sum()
    }

    #[test]
    fn keys_in_any_arithmetic_progression_fill_slots_evenly() {
        for secret in 0..32_u8 {
            let key = HashKey::expand([secret; 16]);
            for shift in [0, 1, 7, 16, 24, 32, 40, 48] {
                let found = chi_square((0_u64..).map(|n| key.of_key(n << shift)));

                // Six deviations: 256 tries would exceed it by chance once in a million runs, and secrets are fixed.
                assert!((120.0..391.0).contains(&found), "secret {secret}, step 2^{shift}: {found}");
            }
        }
    }

    #[test]
    fn flows_of_one_client_and_of_one_port_fill_slots_evenly() {
        let key = HashKey::expand(*b"a secret of 16 b");

        let ports = chi_square((0..u16::MAX).map(|port| key.of_flow4(0x0100_000a, port.to_be(), 3)));
        let sources = chi_square((0..u32::MAX).map(|n| key.of_flow4((0x0a00_0000 + n).to_be(), 0x5000, 3)));
        let v6 = chi_square((0..u64::MAX).map(|n| key.of_flow6([0xb80d_0120, n.to_be()], 7, 0x5000, 3)));

        for found in [ports, sources, v6] {
            assert!((120.0..391.0).contains(&found), "{found}");
        }
    }

    #[test]
    fn a_fifth_of_the_keys_of_each_slot_is_shed_at_a_threshold_of_a_fifth() {
        let key = HashKey::expand(*b"a secret of 16 b");
        for slot in [0, 77] {
            let hashes = (0_u64..).map(|n| key.of_key(n)).filter(|hash| hash & 0xff == slot).take(5_000);

            let shed = hashes.filter(|&hash| shed_hash(hash, 12) < u32::MAX / 5).count();

            // Standard deviation 28.
            assert!((860..1140).contains(&shed), "{shed} of 5,000");
        }
    }

    #[test]
    fn vectors_stay_as_they_are() {
        // From an implementation of the description in another language (Python).
        let key = HashKey {
            words: [
                0x0123_4567_89ab_cdef,
                0x1111_2222_3333_4444,
                0x5555_6666_7777_8888,
                0x9999_aaaa_bbbb_cccd,
            ],
        };

        assert_eq!(key.of_key(0x1122_3344_5566_7788), 0x80b0_1899_e79a_7f23);
        assert_eq!(key.of_flow4(0x0100_000a, 0x409c, 5), 0x9ae1_220a_17ef_de20);
        assert_eq!(key.of_source6([1, 2]), 0xd1d9_fef8_377e_b16f);
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
