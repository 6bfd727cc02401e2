//! The changes under test.
use super::{
    clock::Clock,
    figures::{Figures, Held, as_f64},
    fleet::{Fleet, share},
    method::Method,
    random::Random,
};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Case {
    /// Every weight off by 1 %.
    Noise1,
    /// 10 % of the traffic goes to other engines.
    Shift10,
    Remove1,
    /// The engine that was removed comes back.
    Return1,
    Remove10Pct,
    /// 200 steps in which every weight moves by 2 %.
    Walk,
}

impl Case {
    pub(super) const ALL: [Self; 6] =
        [Self::Noise1, Self::Shift10, Self::Remove1, Self::Return1, Self::Remove10Pct, Self::Walk];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Noise1 => "noise1",
            Self::Shift10 => "shift10",
            Self::Remove1 => "remove1",
            Self::Return1 => "return1",
            Self::Remove10Pct => "remove10pct",
            Self::Walk => "walk",
        }
    }

    pub(super) fn measure(
        self,
        method: &mut dyn Method,
        fleet: &Fleet,
        start: &[u16],
        quick: bool,
    ) -> anyhow::Result<Figures> {
        let mut random = Random::new(self as u64 + 100);
        if self == Self::Walk {
            let steps = method.builds(fleet).min(if quick { 50 } else { 200 });
            return walk(method, fleet, start, steps, &mut random);
        }
        let trials = method.builds(fleet).min(if quick { 5 } else { 20 });
        let mut figures = Figures::default();
        for trial in 0..trials {
            let gone = trial * fleet.keys.len() / trials;
            let changed = match self {
                Self::Noise1 => fleet.noise(0.01, &mut random),
                Self::Shift10 => fleet.shift(0.1, &mut random),
                Self::Remove1 | Self::Return1 => fleet.without(&[gone]),
                Self::Remove10Pct | Self::Walk => fleet.without(&tenth(fleet, &mut random)),
            };
            let mut held = Held::new(start);
            if self == Self::Return1 {
                let without = method.next(start, &changed, start)?;
                step(&mut figures, method, (&without, &changed), fleet, start, &mut held)?;
            } else {
                step(&mut figures, method, (start, fleet), &changed, start, &mut held)?;
            }
        }
        if self == Self::Remove1 {
            let fallbacks = method.fallbacks(None, start, fleet)?;
            figures.survivor_overload = Some(survivor_overload(method, start, fallbacks.as_deref(), fleet)?);
        }
        Ok(figures)
    }
}

/// One timed update.
fn step(
    figures: &mut Figures,
    method: &mut dyn Method,
    (table, before): (&[u16], &Fleet),
    fleet: &Fleet,
    formers: &[u16],
    held: &mut Held,
) -> anyhow::Result<Vec<u16>> {
    let began = Clock::start()?;
    let next = method.next(table, fleet, formers)?;
    let took = began.milliseconds()?;
    figures.add(table, &next, before.variation(fleet), took, held);
    figures.check(&next, fleet);
    Ok(next)
}

fn walk(
    method: &mut dyn Method,
    fleet: &Fleet,
    start: &[u16],
    steps: usize,
    random: &mut Random,
) -> anyhow::Result<Figures> {
    let mut figures = Figures::default();
    let mut held = Held::new(start);
    let (mut table, mut fleet) = (start.to_vec(), fleet.clone());
    let mut fallbacks = method.fallbacks(None, start, &fleet)?;
    let mut formers = start.to_vec();
    for _ in 0..steps {
        let drifted = fleet.step(0.02, random);
        let next = step(&mut figures, method, (&table, &fleet), &drifted, &formers, &mut held)?;
        for (former, (old, new)) in formers.iter_mut().zip(table.iter().zip(&next)) {
            if old != new {
                *former = *old;
            }
        }
        if let Some(standing) = &fallbacks {
            let began = Clock::start()?;
            let renewed = method.fallbacks(Some((&table, standing)), &next, &drifted)?;
            figures.fallback_ms.push(began.milliseconds()?);
            fallbacks = renewed;
        }
        (table, fleet) = (next, drifted);
    }
    figures.survivor_overload = Some(survivor_overload(method, &table, fallbacks.as_deref(), &fleet)?);
    Ok(figures)
}

/// Largest load of an engine over its weight, less 1, after the failure of another one: with the fallbacks where the
/// method has any, otherwise with its next table.
fn survivor_overload(
    method: &mut dyn Method,
    table: &[u16],
    fallbacks: Option<&[u16]>,
    fleet: &Fleet,
) -> anyhow::Result<f64> {
    let engines = fleet.keys.len();
    let failures = if fallbacks.is_some() { engines } else { engines.min(method.builds(fleet)).min(20) };
    let mut worst: f64 = 0.0;
    for failure in 0..failures {
        let gone = failure * engines / failures;
        let without = fleet.without(&[gone]);
        let rebuilt = if fallbacks.is_some() { None } else { Some(method.next(table, &without, table)?) };
        let mut loads = vec![0_usize; engines];
        for (slot, &engine) in table.iter().enumerate() {
            let serves = match (&rebuilt, fallbacks) {
                (Some(next), _) => next[slot],
                (None, Some(fallbacks)) if usize::from(engine) == gone => fallbacks[slot],
                (None, _) => engine,
            };
            loads[usize::from(serves)] += 1;
        }
        for (&load, &weight) in loads.iter().zip(&without.weights) {
            let due = share(weight) * as_f64(table.len());
            if load > 0 {
                worst = worst.max(as_f64(load) / due - 1.0);
            }
        }
    }
    Ok(worst)
}

/// A tenth of the engines, at least one.
fn tenth(fleet: &Fleet, random: &mut Random) -> Vec<usize> {
    let mut gone = Vec::new();
    while gone.len() < (fleet.keys.len() / 10).max(1) {
        let engine = random.below(fleet.keys.len());
        if !gone.contains(&engine) {
            gone.push(engine);
        }
    }
    gone
}
