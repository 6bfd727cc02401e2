//! Identifiers. Text ids are the names of the fleet file; an epoch orders snapshots.
use std::fmt;

macro_rules! text_id {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, serde::Deserialize, serde::Serialize)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )+};
}

text_id! {
    /// A class: model and constraints.
    ClassId,
    /// One inference server at one address.
    EngineId,
    /// A site's set of hosts that run the agent.
    FrontendId,
    /// Engines alike in site, model, hardware and profile.
    GroupId,
    /// One frontend host, which runs one agent.
    HostId,
    /// What a request asks for.
    ModelId,
    /// VIP, port and protocol that reach one class.
    ServiceId,
    /// A place with its own network distance.
    SiteId,
}

/// Strict order of snapshots: a term in the upper 16 bits, a counter in the lower 48.
///
/// A controller that lost its state takes a term above the highest of its agents, so epochs never go back.
#[derive(
    Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, serde::Deserialize, serde::Serialize,
)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl Epoch {
    const COUNTER_BITS: u32 = 48;

    /// The first epoch of a term.
    pub const fn start_of(term: u16) -> Self {
        Self((term as u64) << Self::COUNTER_BITS)
    }

    pub const fn term(self) -> u16 {
        (self.0 >> Self::COUNTER_BITS) as u16
    }

    pub const fn counter(self) -> u64 {
        self.0 & ((1 << Self::COUNTER_BITS) - 1)
    }

    /// The epoch after this one, or `None` when the term's counter is used up.
    #[must_use]
    pub const fn next(self) -> Option<Self> {
        if self.counter() == (1 << Self::COUNTER_BITS) - 1 { None } else { Some(Self(self.0 + 1)) }
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.term(), self.counter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_term_is_newer_than_any_counter_of_an_earlier_one() {
        let old = Epoch(Epoch::start_of(3).0 + 0x0000_ffff_ffff_ffff);

        assert!(Epoch::start_of(4) > old);
        assert_eq!(old.next(), None);
        assert_eq!(Epoch::start_of(4).next().unwrap().to_string(), "4.1");
    }
}
