//! One table's next state: quotas from weights, as few moves as possible, no more in transition than allowed.
use std::{
    collections::{BTreeSet, VecDeque},
    time::{Duration, Instant},
};

use penstock_table::{
    Candidate, Candidates, CandidatesError, DeadBand, EngineKey, QuotasError, SizeMismatch, SlotTable,
    SlotTableError, TableSize, admit, advance, advance_preferring, apportion, canonical, fallbacks, quotas,
};
use penstock_wire::{ClassId, EngineId, TableEntry, affinity};

/// A moved slot counts as in transition for as long as its older flows may be idle.
const TRANSITION: Duration = Duration::from_secs(15 * 60);
/// Part of a table's slots that may be in transition at once.
const TRANSITION_LIMIT_PERCENT: usize = 25;

/// A table cannot be made from its weights.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    #[error("the engines are refused")]
    Candidates(#[from] CandidatesError),
    #[error("the quotas are refused")]
    Quotas(#[from] QuotasError),
    #[error("the table in force has an odd size")]
    Size(#[from] SlotTableError),
    #[error("the table in force has another size")]
    Mismatch(#[from] SizeMismatch),
}

/// An engine that may serve the class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share<'a> {
    pub(super) index: u16,
    pub(super) id: &'a EngineId,
    /// Part of the traffic; only the ratio to the others counts.
    pub(super) weight: f64,
    /// It serves nobody: its slots move whatever the limit says.
    pub(super) out: bool,
}

/// What became of a table.
#[derive(Debug)]
pub(super) struct Next {
    pub(super) table: TableEntry,
    pub(super) moved: Vec<u32>,
    /// Moves that wait until fewer slots are in transition.
    pub(super) waiting: usize,
}

/// Slots that moved lately.
#[derive(Clone, Debug, Default)]
pub(super) struct Transition {
    moves: VecDeque<(Instant, Vec<u32>)>,
}

impl Transition {
    pub(super) fn record(&mut self, slots: Vec<u32>, now: Instant) {
        if !slots.is_empty() {
            self.moves.push_back((now, slots));
        }
    }

    fn slots(&mut self, now: Instant) -> BTreeSet<u32> {
        while self.moves.pop_front_if(|(at, _)| now.duration_since(*at) >= TRANSITION).is_some() {}
        self.moves.iter().flat_map(|(_, slots)| slots).copied().collect()
    }
}

/// The table after `old`, or the one without history. `failure` exempts from the limit and lets orphaned slots stay
/// with the fallbacks that serve them already.
pub(super) fn next(
    class: &ClassId,
    old: Option<&TableEntry>,
    shares: &[Share<'_>],
    size: TableSize,
    transition: &mut Transition,
    failure: bool,
    now: Instant,
) -> Result<Next, TableError> {
    let candidates = Candidates::new(&weighted(shares))?;
    let indexes: Vec<u16> = shares.iter().map(|share| share.index).collect();
    let Some(old) = old.filter(|old| old.slots.len() == size.slots()) else {
        let counts = vec![0; candidates.as_slice().len()];
        let quotas = quotas(&candidates, &counts, size, DeadBand::OFF)?;
        let table = canonical(affinity(size), &candidates, &quotas)?;
        let table = TableEntry::from_slots(class.clone(), &indexes, table.into_slots());
        return Ok(Next { table, moved: vec![], waiting: 0 });
    };
    let mut table = SlotTable::new(old.slots.clone())?;
    let quotas = quotas(&candidates, &candidates.counts(&table), size, DeadBand::DEFAULT)?;
    let moves = if failure {
        let before = Candidates::new(&before(old, shares))?;
        advance_preferring(affinity(size), &table, &candidates, &quotas, &fallbacks(&table, &before))?
    } else {
        advance(affinity(size), &table, &candidates, &quotas)?
    };
    let limit = if failure { size.slots() } else { size.slots() * TRANSITION_LIMIT_PERCENT / 100 };
    let in_transition = transition.slots(now);
    let out = |engine| shares.iter().all(|share| share.index != engine || share.out);
    let admitted = admit(&table, &moves, limit, |slot| in_transition.contains(&slot), out);
    table.apply(&admitted.now)?;
    Ok(Next {
        table: TableEntry::from_slots(class.clone(), &indexes, table.into_slots()),
        moved: admitted.now.iter().map(|change| change.slot).collect(),
        waiting: admitted.later.len(),
    })
}

fn weighted(shares: &[Share<'_>]) -> Vec<Candidate> {
    let parts: Vec<_> =
        shares.iter().map(|share| (EngineKey::of(share.id.as_str()), units(share.weight))).collect();
    let weights = apportion(&parts).unwrap_or_default();
    let candidate = |(share, weight): (&Share<'_>, u64)| Candidate {
        engine: share.index,
        key: EngineKey::of(share.id.as_str()),
        weight,
    };
    shares.iter().zip(weights).map(candidate).collect()
}

/// The candidates of the table in force, as far as their ids are known.
fn before(old: &TableEntry, shares: &[Share<'_>]) -> Vec<Candidate> {
    let known = old.candidates.iter().filter_map(|candidate| {
        let share = shares.iter().find(|share| share.index == candidate.engine)?;
        Some((share, candidate.weight))
    });
    let known: Vec<_> =
        known.map(|(share, weight)| (share.index, EngineKey::of(share.id.as_str()), weight)).collect();
    let parts: Vec<_> = known.iter().map(|(_, key, weight)| (*key, *weight)).collect();
    let weights = apportion(&parts).unwrap_or_default();
    known
        .into_iter()
        .zip(weights)
        .map(|((engine, key, _), weight)| Candidate { engine, key, weight })
        .collect()
}

/// A weight in units of 2^-32; what is no number or below 0 counts as 0.
fn units(weight: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0..=2^32")]
    let units = (weight.clamp(0.0, 1.0) * 4_294_967_296.0).round() as u64;
    if weight.is_nan() { 0 } else { units }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u32 = 10;

    fn ids() -> Vec<EngineId> {
        ["a", "b", "c", "d"].map(EngineId::from).to_vec()
    }

    fn shares<'a>(ids: &'a [EngineId], weights: &[f64]) -> Vec<Share<'a>> {
        let share = |((index, id), weight): ((u16, &'a EngineId), &f64)| Share {
            index,
            id,
            weight: *weight,
            out: false,
        };
        (0..).zip(ids).zip(weights).map(share).collect()
    }

    fn step(
        old: Option<&TableEntry>,
        shares: &[Share<'_>],
        failure: bool,
        transition: &mut Transition,
    ) -> Next {
        let size = TableSize::new(SIZE).unwrap();
        next(&"chat".into(), old, shares, size, transition, failure, Instant::now()).unwrap()
    }

    fn counts(table: &TableEntry) -> Vec<u32> {
        table.counts().into_iter().map(|(_, count)| count).collect()
    }

    #[test]
    fn a_shift_moves_just_what_it_must() {
        let ids = ids();
        let first = step(None, &shares(&ids, &[0.5, 0.25, 0.25, 0.0]), false, &mut Transition::default());
        assert_eq!(counts(&first.table), [512, 256, 256, 0]);

        let second = step(
            Some(&first.table),
            &shares(&ids, &[0.375, 0.25, 0.25, 0.125]),
            false,
            &mut Transition::default(),
        );

        assert_eq!(counts(&second.table), [384, 256, 256, 128]);
        assert_eq!((second.moved.len(), second.waiting), (128, 0));
    }

    #[test]
    fn moves_beyond_a_quarter_of_the_table_wait_unless_they_answer_a_failure() {
        let ids = ids();
        let first = step(None, &shares(&ids, &[1.0, 0.0, 0.0, 0.0]), false, &mut Transition::default());
        let mut transition = Transition::default();
        let swap = shares(&ids, &[0.0, 1.0, 0.0, 0.0]);

        let second = step(Some(&first.table), &swap, false, &mut transition);
        assert_eq!((second.moved.len(), second.waiting), (256, 768));
        transition.record(second.moved, Instant::now());
        let third = step(Some(&second.table), &swap, false, &mut transition);
        let forced = step(Some(&second.table), &swap, true, &mut transition);

        assert_eq!((third.moved.len(), third.waiting), (0, 768));
        assert_eq!((forced.moved.len(), forced.waiting), (768, 0));
    }

    #[test]
    fn slots_of_an_engine_that_is_out_move_whatever_the_limit() {
        let ids = ids();
        let first = step(None, &shares(&ids, &[0.5, 0.5, 0.0, 0.0]), false, &mut Transition::default());
        let mut gone = shares(&ids, &[0.0, 0.5, 0.5, 0.0]);
        gone[0].out = true;

        let second = step(Some(&first.table), &gone, false, &mut Transition::default());

        assert_eq!(counts(&second.table), [0, 512, 512, 0]);
    }

    #[test]
    fn on_a_failure_slots_go_to_the_fallbacks_that_serve_them_already() {
        let ids = ids();
        let first = step(None, &shares(&ids, &[0.25; 4]), false, &mut Transition::default());
        let mut after = shares(&ids, &[0.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0]);
        after[0].out = true;
        let serving = fallbacks(
            &SlotTable::new(first.table.slots.clone()).unwrap(),
            &Candidates::new(&weighted(&shares(&ids, &[0.25; 4]))).unwrap(),
        );

        let second = step(Some(&first.table), &after, true, &mut Transition::default());

        let kept =
            second.moved.iter().filter(|s| second.table.slots[**s as usize] == serving[**s as usize]).count();
        // Fallbacks split 256 slots as 85 or 86 to each survivor, and so do the new quotas.
        assert!(kept >= 254, "{kept}");
    }
}
