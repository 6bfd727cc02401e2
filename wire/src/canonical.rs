//! The table that both sides compute from slot counts alone.
use std::sync::OnceLock;

use penstock_table::{Affinity, Candidate, Candidates, EngineKey, Quotas, TableSize, WEIGHT_ONE};

use crate::EngineId;

/// Computes the table that depends on slot counts alone: the index into `engines` of each of `slots` slots, or `None`
/// where there is no such table. Counts sum to `slots`. Must give the same on every machine.
pub type Canonical = fn(engines: &[(&EngineId, u32)], slots: usize) -> Option<Vec<u16>>;

/// The canonical table of crate `table`.
pub fn canonical(engines: &[(&EngineId, u32)], slots: usize) -> Option<Vec<u16>> {
    let size = TableSize::new(slots.checked_ilog2()?).filter(|size| size.slots() == slots)?;
    let unit = WEIGHT_ONE / slots as u64;
    let candidate = |(index, (id, count)): (u16, &(&EngineId, u32))| Candidate {
        engine: index,
        key: EngineKey::of(id.as_str()),
        weight: u64::from(*count) * unit,
    };
    let candidates = Candidates::new(&(0..).zip(engines).map(candidate).collect::<Vec<_>>()).ok()?;
    let in_order = candidates.as_slice().iter().map(|candidate| engines[usize::from(candidate.engine)].1);
    let quotas = Quotas::new(&candidates, size, in_order.collect()).ok()?;
    let table = penstock_table::canonical(affinity(size), &candidates, &quotas).ok()?;
    Some(table.into_slots())
}

/// The scores of each table size, made at first use and kept.
pub fn affinity(size: TableSize) -> &'static Affinity {
    static SCORES: [OnceLock<Affinity>; TableSize::MAX_BITS as usize + 1] =
        [const { OnceLock::new() }; TableSize::MAX_BITS as usize + 1];
    SCORES[size.slots().ilog2() as usize].get_or_init(|| Affinity::new(size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_engine_gets_its_count_whatever_the_order() {
        let (a, b, c) = (EngineId::from("a"), EngineId::from("b"), EngineId::from("c"));

        let table = canonical(&[(&a, 600), (&b, 0), (&c, 424)], 1024).unwrap();
        let turned = canonical(&[(&c, 424), (&a, 600), (&b, 0)], 1024).unwrap();

        let count = |engine| table.iter().filter(|slot| **slot == engine).count();
        assert_eq!([count(0), count(1), count(2)], [600, 0, 424]);
        let renamed: Vec<u16> = turned.iter().map(|engine| [2, 0, 1][usize::from(*engine)]).collect();
        assert_eq!(table, renamed);
    }

    #[test]
    fn there_is_no_table_without_engines_or_with_an_odd_size() {
        let a = EngineId::from("a");

        assert_eq!(canonical(&[], 64), None);
        assert_eq!(canonical(&[(&a, 63)], 63), None);
        assert_eq!(canonical(&[(&a, 64), (&a, 0)], 64), None);
    }
}
