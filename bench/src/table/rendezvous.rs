//! Weighted rendezvous hashing by the logarithmic method (Schindelhauer and Schomaker, "Weighted distributed hash
//! tables", 2005): a slot goes to the engine with the least `-ln(u) / weight`, `u` being a hash of both.
use super::{
    fleet::Fleet,
    method::{Method, Table},
    random::{mix, unit},
};

#[derive(Debug)]
pub(super) struct Rendezvous {
    slots: usize,
}

impl Rendezvous {
    pub(super) fn new(bits: u32) -> Self {
        Self { slots: 1 << bits }
    }
}

impl Method for Rendezvous {
    fn name(&self) -> &'static str {
        "rendezvous"
    }

    fn start(&mut self, fleet: &Fleet) -> anyhow::Result<Table> {
        let mut table = vec![0; self.slots];
        let mut least = vec![f64::INFINITY; self.slots];
        for (engine, (key, &weight)) in (0..).zip(fleet.keys.iter().zip(&fleet.weights)) {
            if weight == 0 {
                continue;
            }
            let scale = -1.0 / super::fleet::share(weight);
            for (slot, (least, owner)) in (0_u64..).zip(least.iter_mut().zip(&mut table)) {
                let distance = unit(mix(key.0 ^ mix(slot + 1))).ln() * scale;
                if distance < *least {
                    (*least, *owner) = (distance, engine);
                }
            }
        }
        Ok(table)
    }

    fn next(&mut self, _: &[u16], fleet: &Fleet, _: &[u16]) -> anyhow::Result<Table> {
        self.start(fleet)
    }

    fn fallbacks(
        &mut self,
        _: Option<(&[u16], &[u16])>,
        _: &[u16],
        _: &Fleet,
    ) -> anyhow::Result<Option<Vec<u16>>> {
        Ok(None)
    }

    fn builds(&self, fleet: &Fleet) -> usize {
        // Every table looks at every pair of slot and engine, some 10 ns each.
        ((1 << 28) / (self.slots * fleet.keys.len())).max(2)
    }
}
