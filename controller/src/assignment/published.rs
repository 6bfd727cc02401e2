//! The split in force, by group: what the next assignment pays for moving away from.
use std::collections::BTreeMap;

use penstock_wire::{ClassId, FrontendId, GroupId, Snapshot};

use super::instance::Instance;

/// Weights of a snapshot's table sum to this.
const WEIGHT_UNIT: f64 = 4_294_967_296.0;

/// Fractions of each pair's traffic by group. A pair that is absent was never published.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Published {
    pairs: BTreeMap<(FrontendId, ClassId), BTreeMap<GroupId, f64>>,
}

impl Published {
    /// The split that `weights`, one per arc of the instance, describe.
    pub fn of(instance: &Instance, weights: &[f64]) -> Self {
        let mut pairs = BTreeMap::new();
        for (supply, pair) in instance.pairs.iter().enumerate() {
            let row: BTreeMap<GroupId, f64> = instance
                .problem
                .arcs_of(supply)
                .map(|arc| (instance.group_of(arc).clone(), weights[arc]))
                .filter(|(_, weight)| *weight > 0.0)
                .collect();
            pairs.insert((pair.frontend.clone(), pair.class.clone()), row);
        }
        Self { pairs }
    }

    /// The split that snapshots hold.
    pub fn of_snapshots<'a>(snapshots: impl IntoIterator<Item = &'a Snapshot>) -> Self {
        let mut pairs = BTreeMap::new();
        for snapshot in snapshots {
            for table in &snapshot.tables {
                let mut row = BTreeMap::new();
                for candidate in table.candidates.iter().filter(|candidate| candidate.weight > 0) {
                    let engine = snapshot.engines.iter().find(|engine| engine.index == candidate.engine);
                    if let Some(engine) = engine {
                        #[expect(clippy::cast_precision_loss, reason = "weights have 33 bits")]
                        let weight = candidate.weight as f64 / WEIGHT_UNIT;
                        *row.entry(engine.group.clone()).or_insert(0.0) += weight;
                    }
                }
                pairs.insert((snapshot.frontend.clone(), table.class.clone()), row);
            }
        }
        Self { pairs }
    }

    /// Whether nothing was ever published.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Weight of each group for a pair; `None` if it was never published.
    pub fn row(&self, frontend: &FrontendId, class: &ClassId) -> Option<&BTreeMap<GroupId, f64>> {
        self.pairs.get(&(frontend.clone(), class.clone()))
    }

    /// Pairs with their rows, sorted by frontend, then class.
    pub fn iter(&self) -> impl Iterator<Item = (&FrontendId, &ClassId, &BTreeMap<GroupId, f64>)> {
        self.pairs.iter().map(|((frontend, class), row)| (frontend, class, row))
    }
}

impl FromIterator<(FrontendId, ClassId, BTreeMap<GroupId, f64>)> for Published {
    fn from_iter<I: IntoIterator<Item = (FrontendId, ClassId, BTreeMap<GroupId, f64>)>>(rows: I) -> Self {
        let pairs = rows.into_iter().map(|(frontend, class, row)| ((frontend, class), row)).collect();
        Self { pairs }
    }
}
