//! What `penstock-engine` serves: a TOML file with one `[[engine]]` for each engine of a namespace.
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::curve::Profile;

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EngineFile {
    /// Tokens that one event of a stream carries after the first token, which is always sent by itself. 1 or more.
    pub stream_interval: u32,
    pub engine: Vec<EngineEntry>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EngineEntry {
    pub id: String,
    pub models: Vec<String>,
    /// TCP port, on every address of the namespace.
    pub port: u16,
    /// Local addresses at which requests are this engine's. Engines may share a port, not an address.
    pub addresses: Vec<Prefix>,
    pub profile: Profile,
}

/// Addresses with a common start, written `address/length`.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

/// Why a text is no prefix.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{text} is not an address, a slash and a length of at most {longest}")]
pub struct PrefixError {
    text: String,
    longest: u8,
}

impl Prefix {
    pub const fn new(address: IpAddr, length: u8) -> Self {
        Self { address, length }
    }

    /// Whether `address` starts as the prefix does. An IPv4 address mapped into IPv6 counts as IPv4.
    pub fn contains(self, address: IpAddr) -> bool {
        let (length, own, other) = match (self.address.to_canonical(), address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                (self.length + 96, own.to_ipv6_mapped().to_bits(), other.to_ipv6_mapped().to_bits())
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => (self.length, own.to_bits(), other.to_bits()),
            _ => return false,
        };
        (own ^ other).leading_zeros() >= u32::from(length)
    }
}

impl TryFrom<String> for Prefix {
    type Error = PrefixError;

    fn try_from(text: String) -> Result<Self, PrefixError> {
        let parsed = text.split_once('/').and_then(|(address, length)| {
            let address: IpAddr = address.parse().ok()?;
            let length: u8 = length.parse().ok()?;
            Some(Self { address, length })
        });
        let longest = if text.contains(':') { 128 } else { 32 };
        parsed.filter(|prefix| prefix.length <= longest).ok_or(PrefixError { text, longest })
    }
}

impl From<Prefix> for String {
    fn from(prefix: Prefix) -> Self {
        format!("{}/{}", prefix.address, prefix.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        Prefix::try_from(text.to_owned()).unwrap()
    }

    #[test]
    fn a_prefix_holds_the_addresses_that_start_with_it() {
        assert!(prefix("fd10:0:1:2::/64").contains("fd10:0:1:2:a:b:c:d".parse().unwrap()));
        assert!(!prefix("fd10:0:1:2::/64").contains("fd10:0:1:3::1".parse().unwrap()));
        assert!(prefix("10.1.2.3/32").contains("::ffff:10.1.2.3".parse().unwrap()));
        assert!(!prefix("10.1.2.3/32").contains("10.1.2.4".parse().unwrap()));
        assert!(!prefix("::/0").contains("10.1.2.3".parse().unwrap()));
    }

    #[test]
    fn a_length_beyond_the_family_is_refused() {
        assert!(Prefix::try_from("10.0.0.1/33".to_owned()).is_err());
        assert!(Prefix::try_from("fd00::/129".to_owned()).is_err());
        assert!(Prefix::try_from("fd00::".to_owned()).is_err());
    }
}
