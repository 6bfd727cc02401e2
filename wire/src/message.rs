//! Messages and their bytes. On a stream, each message follows its length as four bytes, least significant first.
//!
//! A message is a kind, its fields and a checksum over both.
use crate::{
    DecodeError, Epoch, FrontendId, HostId, ServiceId, Update,
    codec::{self, MAX_SERVICES, Reader, Writer},
    digest,
    session::Version,
    update::{get_update, put_update},
};

/// Largest message from an agent that is not a state, in bytes.
pub const MAX_AGENT_MESSAGE: usize = 64 << 10;

/// What an agent says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ToController {
    Hello(Hello),
    /// The epoch is in force, with these hashes of it all.
    Installed {
        epoch: Epoch,
        digest: u64,
    },
    Refused(Refused),
    Demand(DemandReport),
    /// Answer to [`ToAgent::SendState`]: what the agent holds.
    State(Box<Update>),
}

/// First message of a session.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Hello {
    pub host: HostId,
    pub frontend: FrontendId,
    /// Epoch in force and the hash of its content.
    pub held: Option<(Epoch, u64)>,
    /// From version 2 on.
    pub orders: HostOrders,
}

/// Kinds of orders that a person gave on the host.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct HostOrders {
    pub frozen: bool,
    pub pinned: bool,
    pub nearest: bool,
    pub detached: bool,
}

impl HostOrders {
    fn bits(self) -> u8 {
        [self.frozen, self.pinned, self.nearest, self.detached]
            .iter()
            .rev()
            .fold(0, |bits, flag| bits << 1 | u8::from(*flag))
    }

    fn from_bits(bits: u8) -> Result<Self, DecodeError> {
        if bits >= 1 << 4 {
            return Err(DecodeError::Unknown { field: "orders", found: u64::from(bits) });
        }
        let is_set = |bit: u8| bits & 1 << bit != 0;
        Ok(Self { frozen: is_set(0), pinned: is_set(1), nearest: is_set(2), detached: is_set(3) })
    }

    /// In words, for people.
    pub fn labels(self) -> Vec<&'static str> {
        let all = [
            (self.frozen, "frozen"),
            (self.pinned, "pinned"),
            (self.nearest, "nearest"),
            (self.detached, "detached"),
        ];
        all.iter().filter(|(is_set, _)| *is_set).map(|(_, label)| *label).collect()
    }
}

/// The offered epoch is not in force.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refused {
    pub offered: Epoch,
    pub held: Option<Epoch>,
    pub reason: Refusal,
    /// The error in words, for people.
    pub detail: String,
}

/// Why an agent did not take an update.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Refusal {
    /// It starts from an epoch that the agent does not hold.
    OtherBase,
    /// The result's hashes differ: a keyframe is needed.
    Mismatch,
    /// Not newer than what is held.
    Stale,
    /// Moves more slots than the agent's limit, and is not failure handling.
    TooManyMoves,
    /// A person froze or steered this host.
    Held,
    /// The data path did not take it.
    NotInstalled,
}

impl Refusal {
    /// As it stands in logs and metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::OtherBase => "other_base",
            Self::Mismatch => "mismatch",
            Self::Stale => "stale",
            Self::TooManyMoves => "too_many_moves",
            Self::Held => "held",
            Self::NotInstalled => "not_installed",
        }
    }
}

/// Work that clients offered to one host within a window.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DemandReport {
    pub window_ms: u32,
    pub services: Vec<ServiceDemand>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ServiceDemand {
    pub service: ServiceId,
    /// New flows within the window.
    pub flows: u64,
    /// New flows that no engine took; from version 2 on.
    pub refused: u64,
}

/// What a controller says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ToAgent {
    Update(Box<Update>),
    /// A controller without state asks for the agent's.
    SendState,
}

impl ToController {
    /// The bytes in which a peer of `version` reads it.
    pub fn encode(&self, version: Version) -> Vec<u8> {
        let mut writer = Writer::new();
        match self {
            Self::Hello(hello) => {
                writer.u8(1);
                writer.text(hello.host.as_str());
                writer.text(hello.frontend.as_str());
                writer.flag(hello.held.is_some());
                if let Some((epoch, digest)) = hello.held {
                    writer.int(epoch.0);
                    writer.fixed_u64(digest);
                }
                if version >= Version::V2 {
                    writer.u8(hello.orders.bits());
                }
            }
            Self::Installed { epoch, digest } => {
                writer.u8(2);
                writer.int(epoch.0);
                writer.fixed_u64(*digest);
            }
            Self::Refused(refused) => {
                writer.u8(3);
                put_refused(&mut writer, refused);
            }
            Self::Demand(report) => {
                writer.u8(4);
                writer.int(u64::from(report.window_ms));
                writer.length(report.services.len());
                for demand in &report.services {
                    writer.text(demand.service.as_str());
                    writer.int(demand.flows);
                    if version >= Version::V2 {
                        writer.int(demand.refused);
                    }
                }
            }
            Self::State(update) => {
                writer.u8(5);
                put_update(&mut writer, update);
            }
        }
        sealed(writer)
    }

    /// A message of a peer of `version`.
    pub fn decode(bytes: &[u8], version: Version) -> Result<Self, DecodeError> {
        let mut reader = unsealed(bytes)?;
        let since_2 = version >= Version::V2;
        let message = match reader.u8("message kind")? {
            1 => Self::Hello(Hello {
                host: HostId(reader.text("host")?),
                frontend: FrontendId(reader.text("frontend")?),
                held: match reader.flag("held epoch")? {
                    true => Some((Epoch(reader.int("held epoch")?), reader.fixed_u64("held hash")?)),
                    false => None,
                },
                orders: if since_2 {
                    HostOrders::from_bits(reader.u8("orders")?)?
                } else {
                    HostOrders::default()
                },
            }),
            2 => Self::Installed { epoch: Epoch(reader.int("epoch")?), digest: reader.fixed_u64("hash")? },
            3 => Self::Refused(get_refused(&mut reader)?),
            4 => Self::Demand(DemandReport {
                window_ms: reader.u32("window")?,
                services: codec::list(&mut reader, "services", MAX_SERVICES, |reader| {
                    let service = ServiceId(reader.text("service")?);
                    let flows = reader.int("flows")?;
                    let refused = if since_2 { reader.int("refused flows")? } else { 0 };
                    Ok(ServiceDemand { service, flows, refused })
                })?,
            }),
            5 => Self::State(Box::new(get_update(&mut reader)?)),
            found => return Err(DecodeError::Unknown { field: "message kind", found: u64::from(found) }),
        };
        reader.end()?;
        Ok(message)
    }
}

impl ToAgent {
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        match self {
            Self::Update(update) => {
                writer.u8(1);
                put_update(&mut writer, update);
            }
            Self::SendState => writer.u8(2),
        }
        sealed(writer)
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = unsealed(bytes)?;
        let message = match reader.u8("message kind")? {
            1 => Self::Update(Box::new(get_update(&mut reader)?)),
            2 => Self::SendState,
            found => return Err(DecodeError::Unknown { field: "message kind", found: u64::from(found) }),
        };
        reader.end()?;
        Ok(message)
    }
}

pub(crate) fn sealed(mut writer: Writer) -> Vec<u8> {
    writer.fixed_u64(digest::of_bytes(writer.as_bytes()));
    writer.into_bytes()
}

pub(crate) fn unsealed(bytes: &[u8]) -> Result<Reader<'_>, DecodeError> {
    let (content, checksum) = bytes.split_last_chunk().ok_or(DecodeError::Truncated { field: "checksum" })?;
    let (found, expected) = (u64::from_le_bytes(*checksum), digest::of_bytes(content));
    if found != expected {
        return Err(DecodeError::Checksum { found, expected });
    }
    Ok(Reader::new(content))
}

fn put_refused(writer: &mut Writer, refused: &Refused) {
    writer.int(refused.offered.0);
    writer.int(refused.held.map_or(0, |epoch| epoch.0));
    writer.u8(match refused.reason {
        Refusal::OtherBase => 0,
        Refusal::Mismatch => 1,
        Refusal::Stale => 2,
        Refusal::TooManyMoves => 3,
        Refusal::Held => 4,
        Refusal::NotInstalled => 5,
    });
    let end = refused.detail.floor_char_boundary(codec::MAX_TEXT);
    writer.text(&refused.detail[..end]);
}

fn get_refused(reader: &mut Reader<'_>) -> Result<Refused, DecodeError> {
    Ok(Refused {
        offered: Epoch(reader.int("offered epoch")?),
        held: Some(Epoch(reader.int("held epoch")?)).filter(|epoch| epoch.0 > 0),
        reason: match reader.u8("refusal")? {
            0 => Refusal::OtherBase,
            1 => Refusal::Mismatch,
            2 => Refusal::Stale,
            3 => Refusal::TooManyMoves,
            4 => Refusal::Held,
            5 => Refusal::NotInstalled,
            found => return Err(DecodeError::Unknown { field: "refusal", found: u64::from(found) }),
        },
        detail: reader.text("detail")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Digests, fixture};

    #[test]
    fn what_an_agent_says_comes_back() {
        let held = Some((Epoch(7), 8));
        let orders = HostOrders { pinned: true, detached: true, ..HostOrders::default() };
        let messages = [
            ToController::Hello(Hello { host: "a-1".into(), frontend: "A".into(), held, orders }),
            ToController::Hello(Hello { host: "a-1".into(), frontend: "A".into(), held: None, orders }),
            ToController::Installed { epoch: Epoch(9), digest: 10 },
            ToController::Refused(Refused {
                offered: Epoch(9),
                held: None,
                reason: Refusal::TooManyMoves,
                detail: "30 % of the slots".to_owned(),
            }),
            ToController::Demand(DemandReport {
                window_ms: 1000,
                services: vec![ServiceDemand { service: "chat".into(), flows: 90, refused: 3 }],
            }),
            ToController::State(Box::new(Update::keyframe(
                &fixture::snapshot(),
                &Digests::of(&fixture::snapshot()),
                None,
            ))),
        ];

        for message in messages {
            let bytes = message.encode(Version::V2);
            assert_eq!(ToController::decode(&bytes, Version::V2).unwrap(), message);
        }
    }
}
