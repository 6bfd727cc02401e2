//! Faults of a fleet file, each with its line and key.
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use super::units::RangeError;

/// One fault. Its text is `LINE: KEY: WHAT`.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// From 1.
    pub line: usize,
    /// Full key; places in lists count from 0. Empty for faults of syntax.
    pub key: String,
    pub kind: FaultKind,
}

impl Fault {
    /// Whether this fault explains why `key` is absent.
    fn takes_the_place_of(&self, key: &str) -> bool {
        let parent = |key: &str| key.rsplit_once('.').map(|(parent, _)| parent.to_owned());
        let renamed = match self.kind {
            FaultKind::Renamed(new) => {
                key.rsplit('.').next() == Some(new) && parent(&self.key) == parent(key)
            }
            _ => false,
        };
        renamed || self.key == key
    }
}

/// What is wrong with a key's value, or with its absence.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FaultKind {
    #[error("{0}")]
    Syntax(String),
    /// Unknown key or a value of another type.
    #[error("{0}")]
    Shape(String),
    #[error("is called `{0}` here")]
    Renamed(&'static str),
    #[error("is missing")]
    Missing,
    #[error("is empty")]
    Empty,
    #[error(transparent)]
    Range(#[from] RangeError),
    #[error("must be above 0")]
    NotPositive,
    #[error("{value} is outside {least} to {most}")]
    Outside { value: i64, least: i64, most: i64 },
    #[error("must be below 1: nothing could be served")]
    WholeHeadroom,
    #[error("{0:?} has a control character, a space or a quote")]
    BadName(String),
    #[error("{0:?} stands on line {1} already")]
    Duplicate(String, usize),
    #[error("there is no {kind} {id:?}")]
    Unknown { kind: &'static str, id: String },
    #[error("{given:?} is not one of {known}")]
    NotOneOf { given: String, known: &'static str },
    #[error("{given:?} is not {form}")]
    Form { given: String, form: &'static str },
    #[error("is {here} ms, but line {line} says {other} ms for the same two sites")]
    RttTwice { here: f64, other: f64, line: usize },
    #[error("needs the round trip to site {to:?}: give {key}")]
    RttMissing { to: String, key: String },
    #[error("no engine group serves model {model:?} with labels {require:?}")]
    ClassWithoutGroup { model: String, require: Vec<String> },
    #[error("utilisation {here} does not come after {before}")]
    NotIncreasing { before: f64, here: f64 },
    #[error("the first point must be at utilisation 0, not {0}")]
    FirstPoint(f64),
    #[error("the last point must be at utilisation 1 or above, not {0}")]
    LastPoint(f64),
    #[error("falls from {before} to {here} while utilisation rises")]
    Falls { before: f64, here: f64 },
    #[error(
        "is missing, and no class asks for a model of this profile's groups, so there is none to take it from"
    )]
    NoReference,
    #[error("give `model` or `models`, not both")]
    ModelTwice,
    #[error("is {stated}, but {listed} [[engine]] entries name this group")]
    ReplicaCount { stated: u32, listed: usize },
    #[error("`address` as key needs a /64 as vip")]
    AddressKey,
    #[error("only goes with key = {0:?}")]
    KeyOption(&'static str),
    #[error("overlaps {vip} of service {service:?} on the same port and protocol")]
    VipOverlap { service: String, vip: String },
    #[error("is also the address of engine {0:?}")]
    VipIsEngine(String),
    #[error(
        "is {port}, but engine {engine:?} listens on {listens}: only forwarding = \"dnat\" or \"nat\" changes ports"
    )]
    PortDiffers { port: u16, engine: String, listens: u16 },
    #[error(
        "IPv4 dnat reaches engine {engine:?} through service {service:?} already: its replies could not be told apart"
    )]
    SharedDnat { service: String, engine: String },
    #[error("engine {engine:?} has no {family} address")]
    NoAddress { engine: String, family: &'static str },
    #[error("frontend {0:?} needs a nat_prefix for this service")]
    NoNatPrefix(String),
    #[error("is also the nat_prefix of frontend {0:?}")]
    NatPrefixTwice(String),
    #[error("lies inside nat_prefix of frontend {0:?}")]
    InsideNatPrefix(String),
    #[error("{0} is not a power of two from 256 to 262144")]
    TableSlots(usize),
}

/// Every fault of a file, by line.
#[derive(Clone, Debug, PartialEq)]
pub struct Faults(pub Vec<Fault>);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.key.is_empty() {
            write!(f, "{}: {}", self.line, self.kind)
        } else {
            write!(f, "{}: {}: {}", self.line, self.key, self.kind)
        }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, fault) in self.0.iter().enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            write!(f, "{fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}

/// Why a fleet file gave no fleet.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("cannot read {}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    /// Nothing was started; every fault is listed.
    #[error("{} has {} faults", path.display(), faults.0.len())]
    Faulty { path: PathBuf, faults: Faults },
}

/// Collects faults of one text.
#[derive(Debug)]
pub struct Collector {
    /// Byte offset of each line's end.
    line_ends: Vec<usize>,
    faults: Vec<Fault>,
}

impl Collector {
    pub fn of(text: &str) -> Self {
        Self { line_ends: text.match_indices('\n').map(|(at, _)| at).collect(), faults: Vec::new() }
    }

    /// Line of a byte offset, from 1.
    pub fn line(&self, at: usize) -> usize {
        self.line_ends.partition_point(|end| *end < at) + 1
    }

    /// Adds a fault. A key that is gone because its value or its name was faulty does not count as missing too.
    pub fn add(&mut self, place: &Range<usize>, key: impl Into<String>, kind: FaultKind) {
        let key = key.into();
        if kind == FaultKind::Missing && self.faults.iter().any(|fault| fault.takes_the_place_of(&key)) {
            return;
        }
        self.faults.push(Fault { line: self.line(place.start), key, kind });
    }

    /// Whether any faulty key satisfies the predicate.
    pub fn any(&self, predicate: impl Fn(&str) -> bool) -> bool {
        self.faults.iter().any(|fault| predicate(&fault.key))
    }

    pub fn has_syntax_faults(&self) -> bool {
        self.faults.iter().any(|fault| matches!(fault.kind, FaultKind::Syntax(_)))
    }

    pub fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    pub fn into_faults(mut self) -> Faults {
        self.faults.sort_by(|a, b| (a.line, &a.key).cmp(&(b.line, &b.key)));
        Faults(self.faults)
    }
}
