//! A whole state, its tables as patches on what the receiver computes.
use super::{ApplyError, Head, candidate_at, slot_at};
use crate::{
    Canonical, CheckError, ClassId, EngineEntry, EngineId, Epoch, ServiceEntry, Snapshot, TableEntry,
    codec::{Moves, moves_bits, packed_bits, width_of},
};

/// A whole state.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Keyframe {
    pub head: Head,
    pub engines: Vec<EngineEntry>,
    pub services: Vec<ServiceEntry>,
    pub tables: Vec<TableKeyframe>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TableKeyframe {
    pub class: ClassId,
    pub slot_bits: u32,
    /// Engine index and slot count of every candidate, by index.
    pub candidates: Vec<(u16, u32)>,
    pub layout: Layout,
}

/// Where the slots of a keyframe's table stand. Engines are positions among the candidates.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Layout {
    /// The table computed from the counts, but for these slots.
    Patch(Moves),
    Whole(Vec<u16>),
}

impl Keyframe {
    pub(super) fn of(snapshot: &Snapshot, canonical: Option<Canonical>) -> Self {
        Self {
            head: Head::of(snapshot),
            engines: snapshot.engines.clone(),
            services: snapshot.services.clone(),
            tables: snapshot
                .tables
                .iter()
                .map(|table| TableKeyframe::of(table, snapshot, canonical))
                .collect(),
        }
    }

    pub(super) fn into_snapshot(self, canonical: Canonical) -> Result<Snapshot, ApplyError> {
        let id_of = |index: u16| {
            let found = self.engines.binary_search_by_key(&index, |engine| engine.index);
            found.ok().map(|position| &self.engines[position].id)
        };
        let tables = self
            .tables
            .into_iter()
            .map(|table| table.into_table(id_of, canonical))
            .collect::<Result<_, _>>()?;
        Ok(Snapshot {
            epoch: Epoch::default(),
            frontend: self.head.frontend,
            secret: self.head.secret,
            nat_prefix: self.head.nat_prefix,
            failure_handling: false,
            engines: self.engines,
            services: self.services,
            tables,
        })
    }
}

impl TableKeyframe {
    fn of(table: &TableEntry, snapshot: &Snapshot, canonical: Option<Canonical>) -> Self {
        let width = width_of(table.candidates.len());
        let counts = table.counts();
        let positions = table.positions();
        let patch = canonical.and_then(|canonical| {
            let named = counts.iter().map(|(engine, count)| Some((snapshot.engine_id(*engine)?, *count)));
            let computed = canonical(&named.collect::<Option<Vec<_>>>()?, positions.len())?;
            let differing = positions.iter().zip(&computed).zip(0_u32..).filter(|((a, b), _)| a != b);
            Some(differing.map(|((position, _), slot)| (slot, *position)).collect::<Moves>())
        });
        let whole_bits = packed_bits(positions.len(), width);
        let layout = match patch.filter(|moves| moves_bits(moves, width).0 < whole_bits.max(1)) {
            Some(moves) => Layout::Patch(moves),
            None => Layout::Whole(positions),
        };
        Self { class: table.class.clone(), slot_bits: table.slots.len().ilog2(), candidates: counts, layout }
    }

    fn into_table<'a>(
        self,
        id_of: impl Fn(u16) -> Option<&'a EngineId>,
        canonical: Canonical,
    ) -> Result<TableEntry, ApplyError> {
        let slots = 1_usize << self.slot_bits;
        let sum: u64 = self.candidates.iter().map(|(_, count)| u64::from(*count)).sum();
        if sum != slots as u64 {
            return Err(ApplyError::CountSum { class: self.class, sum, slots });
        }
        let positions = match self.layout {
            Layout::Whole(positions) => positions,
            Layout::Patch(moves) => {
                let named = self.candidates.iter().map(|(engine, count)| {
                    let id = id_of(*engine).ok_or_else(|| CheckError::UnknownEngine {
                        class: self.class.clone(),
                        engine: *engine,
                    })?;
                    Ok((id, *count))
                });
                let named = named.collect::<Result<Vec<_>, CheckError>>()?;
                let unknown = || ApplyError::NoCanonical { class: self.class.clone() };
                let mut positions = canonical(&named, slots).ok_or_else(unknown)?;
                for (slot, position) in moves {
                    *slot_at(&mut positions, &self.class, slot)? = position;
                }
                positions
            }
        };
        let engines: Vec<u16> = self.candidates.iter().map(|(engine, _)| *engine).collect();
        let slots = positions
            .into_iter()
            .map(|position| candidate_at(&engines, &self.class, position))
            .collect::<Result<_, _>>()?;
        Ok(TableEntry::from_slots(self.class, &engines, slots))
    }
}
