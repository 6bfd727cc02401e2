//! Which engine serves a request: a pure function of the slot and of what is known about the engines.
use penstock_abi::Slot;

use super::config::BoundConfig;

/// Other slots looked at when neither a slot's engine nor its fallback serves, as the kernel does.
const PROBES: u32 = 4;

/// What the choice asks.
pub(crate) trait Rules {
    /// Slots of the table, less one.
    fn mask(&self) -> u32;
    fn slot(&self, at: u32) -> Slot;
    /// Whether a request may go to the engine.
    fn takes_requests(&self, engine: u16) -> bool;
    /// Whether the engine has more in flight than its bound.
    fn over_bound(&self, engine: u16) -> bool;
    /// The engine that served the conversation last.
    fn affinity(&self) -> Option<u16>;
    /// The nearest candidate that takes requests, those without weight included.
    fn nearest(&self) -> Option<u16>;
}

/// Why an engine was chosen.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Why {
    /// It is the slot's.
    Slot,
    /// It served the conversation before the slot moved, or before the slot's engine was over its bound.
    Affinity,
    /// The slot's engine takes no requests.
    Fallback,
    /// The slot's engine is over its bound.
    Bound,
    /// Neither the slot's engine nor the fallback takes requests: another slot's engine.
    Probe,
    /// The table's engines take no requests: the nearest candidate.
    Nearest,
}

impl Why {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Slot => "slot",
            Self::Affinity => "affinity",
            Self::Fallback => "fallback",
            Self::Bound => "bound",
            Self::Probe => "probe",
            Self::Nearest => "nearest",
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Choice {
    pub(crate) engine: u16,
    pub(crate) slot: u32,
    pub(crate) why: Why,
}

/// The engine for a key's slot hash. `None`: no candidate takes requests.
pub(crate) fn choose(rules: &impl Rules, hash: u64) -> Option<Choice> {
    let at = slot_of(hash, rules.mask());
    let slot = rules.slot(at);
    let choice = |engine, why| Some(Choice { engine, slot: at, why });
    let serves = rules.takes_requests(slot.engine);
    let in_transition = slot.changed_at != 0 || !serves;
    let over = serves && rules.over_bound(slot.engine);
    if in_transition || over {
        let last = rules.affinity().filter(|last| rules.takes_requests(*last));
        if let Some(last) = last
            && (last == slot.engine || !rules.over_bound(last))
        {
            return choice(last, if last == slot.engine { Why::Slot } else { Why::Affinity });
        }
    }
    let fallback_serves = || rules.takes_requests(slot.fallback);
    match serves {
        true if over
            && slot.fallback != slot.engine
            && fallback_serves()
            && !rules.over_bound(slot.fallback) =>
        {
            choice(slot.fallback, Why::Bound)
        }
        true => choice(slot.engine, Why::Slot),
        false if fallback_serves() => choice(slot.fallback, Why::Fallback),
        false => probe(rules, hash)
            .and_then(|engine| choice(engine, Why::Probe))
            .or_else(|| rules.nearest().and_then(|engine| choice(engine, Why::Nearest))),
    }
}

/// The lower bits of the hash, as in the kernel.
pub(crate) fn slot_of(hash: u64, mask: u32) -> u32 {
    let low = u32::try_from(hash & u64::from(u32::MAX)).expect("masked to 32 bits");
    low & mask
}

/// The same other slots, in the same order, as the kernel looks at.
fn probe(rules: &impl Rules, hash: u64) -> Option<u16> {
    let middle = u32::try_from(hash >> 24 & u64::from(u32::MAX)).expect("masked to 32 bits");
    let other = |turn: u32| (middle ^ turn.wrapping_mul(0x9e37_79b9)) & rules.mask();
    (1..=PROBES).map(|turn| rules.slot(other(turn)).engine).find(|engine| rules.takes_requests(*engine))
}

/// Whether `tokens` in flight at an engine of `weight` (units of 2^-32) are more than its part of `total`, times the
/// ratio, and the slack.
pub(crate) fn is_over(bound: BoundConfig, tokens: i64, total: i64, weight: u64) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    let part = total as f64 * weight as f64 / (1_u64 << 32) as f64;
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    let limit = bound.ratio * part + bound.slack_tokens as f64;
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    let tokens = tokens as f64;
    tokens > limit
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two slots; engines 1 to 4 are known.
    struct Table {
        slots: [Slot; 2],
        out: Vec<u16>,
        over: Vec<u16>,
        last: Option<u16>,
    }

    impl Rules for Table {
        fn mask(&self) -> u32 {
            1
        }
        fn slot(&self, at: u32) -> Slot {
            self.slots[at as usize]
        }
        fn takes_requests(&self, engine: u16) -> bool {
            (1..=4).contains(&engine) && !self.out.contains(&engine)
        }
        fn over_bound(&self, engine: u16) -> bool {
            self.over.contains(&engine)
        }
        fn affinity(&self) -> Option<u16> {
            self.last
        }
        fn nearest(&self) -> Option<u16> {
            (1..=4).rev().find(|engine| self.takes_requests(*engine))
        }
    }

    fn table() -> Table {
        let slots = [Slot::stable(1, 2), Slot { engine: 3, fallback: 2, origin: 1, changed_at: 7 }];
        Table { slots, out: vec![], over: vec![], last: None }
    }

    fn chosen(table: &Table, hash: u64) -> (u16, Why) {
        let choice = choose(table, hash).unwrap();
        (choice.engine, choice.why)
    }

    #[test]
    fn a_stable_slot_takes_its_engine_whatever_served_before() {
        assert_eq!(chosen(&Table { last: Some(4), ..table() }, 0), (1, Why::Slot));
    }

    #[test]
    fn a_slot_that_moved_keeps_the_conversations_that_were_served_before() {
        assert_eq!(chosen(&table(), 1), (3, Why::Slot));
        assert_eq!(chosen(&Table { last: Some(1), ..table() }, 1), (1, Why::Affinity));
        assert_eq!(chosen(&Table { last: Some(1), over: vec![1], ..table() }, 1), (3, Why::Slot));
        assert_eq!(chosen(&Table { last: Some(1), out: vec![1], ..table() }, 1), (3, Why::Slot));
    }

    #[test]
    fn new_conversations_of_an_engine_over_its_bound_go_to_the_fallback() {
        let over = || Table { over: vec![1], ..table() };

        assert_eq!(chosen(&over(), 0), (2, Why::Bound));
        assert_eq!(chosen(&Table { last: Some(1), ..over() }, 0), (1, Why::Slot));
        assert_eq!(chosen(&Table { over: vec![1, 2], ..table() }, 0), (1, Why::Slot));
        assert_eq!(chosen(&Table { out: vec![2], ..over() }, 0), (1, Why::Slot));
    }

    #[test]
    fn an_engine_that_is_out_hands_over_to_fallback_then_other_slots_then_the_nearest() {
        assert_eq!(chosen(&Table { out: vec![1], ..table() }, 0), (2, Why::Fallback));
        assert_eq!(chosen(&Table { out: vec![1, 2], ..table() }, 0), (3, Why::Probe));
        assert_eq!(chosen(&Table { out: vec![1, 2, 3], ..table() }, 0), (4, Why::Nearest));
        assert_eq!(choose(&Table { out: vec![1, 2, 3, 4], ..table() }, 0), None);
    }

    #[test]
    fn the_bound_is_a_ratio_of_the_weight_and_a_slack() {
        let bound = BoundConfig { ratio: 1.25, slack_tokens: 100 };
        let half = 1 << 31;

        // 1.25 x 0.5 x 1,000 + 100 = 725.
        assert!(!is_over(bound, 725, 1000, half));
        assert!(is_over(bound, 726, 1000, half));
    }
}
