//! Fleets for the tests of this folder.
use penstock_table::{
    Affinity, Candidate, Candidates, DeadBand, EngineKey, Quotas, SlotTable, TableSize, apportion, canonical,
    quotas,
};
use proptest::prelude::*;

/// A part for each engine; engines of part `None` are left out.
pub(crate) type Parts = Vec<Option<u64>>;

/// Candidates with the ids `e0`, `e1`, ... and the indexes 10, 11, ...
pub(crate) fn candidates(parts: &[Option<u64>]) -> Candidates {
    let present: Vec<(u16, EngineKey, u64)> = (0..)
        .zip(parts)
        .filter_map(|(number, part)| {
            part.map(|part| (10 + number, EngineKey::of(&format!("e{number}")), part))
        })
        .collect();
    let weights = apportion(&present.iter().map(|&(_, key, part)| (key, part)).collect::<Vec<_>>()).unwrap();
    let list: Vec<Candidate> = present
        .iter()
        .zip(weights)
        .map(|(&(engine, key, _), weight)| Candidate { engine, key, weight })
        .collect();
    Candidates::new(&list).unwrap()
}

pub(crate) fn exact(candidates: &Candidates, counts: &[u32], size: TableSize) -> Quotas {
    quotas(candidates, counts, size, DeadBand::OFF).unwrap()
}

/// The table without history.
pub(crate) fn start(affinity: &Affinity, candidates: &Candidates) -> SlotTable {
    let none = vec![0; candidates.as_slice().len()];
    canonical(affinity, candidates, &exact(candidates, &none, affinity.size())).unwrap()
}

/// A fleet before and after a change: up to `engines` engines, some without weight, some absent.
pub(crate) fn change(engines: usize) -> impl Strategy<Value = (Parts, Parts)> {
    let part = prop_oneof![1 => Just(None), 1 => Just(Some(0)), 6 => (1..1_000_000_u64).prop_map(Some)];
    let fleet = prop::collection::vec((part.clone(), part), 1..=engines);
    fleet.prop_map(|pairs| pairs.into_iter().unzip::<_, _, Parts, Parts>()).prop_filter(
        "no engine with weight",
        |(old, new)| {
            let weighted = |parts: &[Option<u64>]| parts.iter().any(|part| part.is_some_and(|part| part > 0));
            weighted(old) && weighted(new)
        },
    )
}
