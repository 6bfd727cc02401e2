//! Our own method, as the controller uses it, without the dead band.
use anyhow::Context;
use penstock_table::{
    Affinity, Candidate, Candidates, DeadBand, SlotTable, Survivor, TableSize, advance_preferring, canonical,
    carry_fallbacks, even_fallbacks, fallbacks, quotas, rederive,
};

use super::{
    SUITE,
    clock::Clock,
    figures::{as_f64, median},
    fleet::Fleet,
    method::{Method, Table},
};
use crate::row::Row;

const SITES: usize = 5;

#[derive(Debug)]
pub(super) struct Penstock {
    affinity: Affinity,
}

impl Penstock {
    pub(super) fn new(bits: u32) -> anyhow::Result<Self> {
        Ok(Self { affinity: Affinity::new(TableSize::new(bits).context("no such table size")?) })
    }

    /// What a start without history costs.
    pub(super) fn start_rows(&mut self, fleet: &Fleet) -> anyhow::Result<Vec<Row>> {
        let case = format!("n{}/start", fleet.keys.len());
        let mut times = [const { Vec::new() }; 3];
        for _ in 0..5 {
            let began = Clock::start()?;
            let affinity = Affinity::new(self.affinity.size());
            times[0].push(began.milliseconds()?);
            let began = Clock::start()?;
            let table = Self { affinity }.start(fleet)?;
            times[1].push(began.milliseconds()?);
            let began = Clock::start()?;
            self.fallbacks(None, &table, fleet)?;
            times[2].push(began.milliseconds()?);
        }
        let metrics = ["affinity_ms", "build_ms", "fallback_ms"];
        let rows = metrics.iter().zip(&times);
        Ok(rows.map(|(metric, times)| Row::new(SUITE, case.as_str(), *metric, median(times), "ms")).collect())
    }

    /// What an agent does alone when the only site with weight is gone: every fifth engine is there.
    pub(super) fn site_out_rows(&mut self, fleet: &Fleet) -> anyhow::Result<Vec<Row>> {
        let away: Vec<usize> = (0..fleet.keys.len()).filter(|number| number % SITES > 0).collect();
        let at_home = fleet.without(&away);
        let table = SlotTable::new(self.start(&at_home)?)?;
        let standing = fallbacks(&table, &candidates(&at_home)?);
        let survivors: Vec<Survivor> = (0..)
            .zip(fleet.keys.iter().zip(&fleet.weights))
            .filter(|(engine, _)| usize::from(*engine) % SITES > 0)
            .map(|(engine, (&key, &weight))| Survivor {
                engine,
                key,
                weight: 0,
                rtt_us: u32::from(engine) % 5 * 20_000,
                spare: weight / 2,
            })
            .collect();
        let mut times = Vec::new();
        let mut unserved = table.slots().len();
        for _ in 0..5 {
            let began = Clock::start()?;
            let reassigned = rederive(&table, &standing, &survivors)?;
            times.push(began.milliseconds()?);
            let served = reassigned.iter().filter(|change| usize::from(change.engine) % SITES > 0);
            unserved = table.slots().len() - served.count();
        }
        let case = format!("n{}/site_out", fleet.keys.len());
        Ok(vec![
            Row::new(SUITE, case.as_str(), "rederive_ms", median(&times), "ms"),
            Row::new(SUITE, case, "unserved_slots", as_f64(unserved), "slots"),
        ])
    }
}

impl Method for Penstock {
    fn name(&self) -> &'static str {
        "penstock"
    }

    fn start(&mut self, fleet: &Fleet) -> anyhow::Result<Table> {
        let candidates = candidates(fleet)?;
        let none = vec![0; candidates.as_slice().len()];
        let quotas = quotas(&candidates, &none, self.affinity.size(), DeadBand::OFF)?;
        Ok(canonical(&self.affinity, &candidates, &quotas)?.into_slots())
    }

    fn next(&mut self, table: &[u16], fleet: &Fleet, formers: &[u16]) -> anyhow::Result<Table> {
        let candidates = candidates(fleet)?;
        let mut table = SlotTable::new(table.to_vec())?;
        let quotas = quotas(&candidates, &candidates.counts(&table), self.affinity.size(), DeadBand::OFF)?;
        let moves = advance_preferring(&self.affinity, &table, &candidates, &quotas, formers)?;
        table.apply(&moves)?;
        Ok(table.into_slots())
    }

    fn fallbacks(
        &mut self,
        before: Option<(&[u16], &[u16])>,
        table: &[u16],
        fleet: &Fleet,
    ) -> anyhow::Result<Option<Vec<u16>>> {
        let candidates = candidates(fleet)?;
        let table = SlotTable::new(table.to_vec())?;
        Ok(Some(match before {
            None => fallbacks(&table, &candidates),
            Some((old, standing)) => {
                let carried = carry_fallbacks(&SlotTable::new(old.to_vec())?, standing, &table, &candidates)?;
                even_fallbacks(&table, &carried, &candidates)?
            }
        }))
    }

    fn builds(&self, _: &Fleet) -> usize {
        usize::MAX
    }
}

/// Engines that are there; an engine's number is its index.
fn candidates(fleet: &Fleet) -> anyhow::Result<Candidates> {
    let list: Vec<Candidate> = (0..)
        .zip(fleet.keys.iter().zip(&fleet.weights))
        .filter(|(_, (_, weight))| **weight > 0)
        .map(|(engine, (&key, &weight))| Candidate { engine, key, weight })
        .collect();
    Ok(Candidates::new(&list)?)
}
