//! One recorded solve.
use std::collections::BTreeMap;

use penstock_wire::{ClassId, EngineId, Epoch, FrontendId, GroupId};
use serde::{Deserialize, Serialize};

use crate::assignment::instance::{self, Instance};
use crate::assignment::published::Published;
use crate::capacity::availability::Availability;
use crate::demand::Offered;
use crate::fleet::Fleet;
use crate::fleet::settings::PolicyName;
use crate::fleet::units::{Milliseconds, Rate};
use crate::policy::Plan;

/// A solve: what it was made from, and what it gave.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Entry {
    /// Milliseconds since 1970.
    pub unix_ms: u64,
    /// The epoch that published it, if one did.
    pub epoch: Option<Epoch>,
    pub policy: PolicyName,
    pub inputs: TickInputs,
    pub outcome: Outcome,
}

/// What changes from tick to tick. Together with the fleet file it makes the problem.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct TickInputs {
    /// Requests/s of each pair.
    pub offered: Vec<(FrontendId, ClassId, f64)>,
    pub replicas: Vec<(GroupId, u32)>,
    pub draining: Vec<EngineId>,
    /// The split in force, and the price of leaving it; `None` before the first publish or without a price.
    pub move_from: Option<MoveFrom>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct MoveFrom {
    pub price_ms: f64,
    pub split: Vec<(FrontendId, ClassId, BTreeMap<GroupId, f64>)>,
}

/// The plan as the policy gave it, before the dead band.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Outcome {
    /// Weights above 0, by arc of the instance.
    pub weights: Vec<(u32, f64)>,
    /// Hash of every bit of weights, rates, shed and prices.
    pub digest: u64,
}

impl TickInputs {
    pub fn of(
        offered: &Offered,
        availability: &Availability,
        move_from: Option<(&Published, Milliseconds)>,
    ) -> Self {
        let row = |(frontend, class, rate): (&FrontendId, &ClassId, Rate)| {
            (frontend.clone(), class.clone(), rate.get())
        };
        Self {
            offered: offered.iter().map(row).collect(),
            replicas: availability.iter().map(|(group, count)| (group.clone(), count)).collect(),
            draining: availability.states().into_keys().collect(),
            move_from: move_from.map(|(split, price)| MoveFrom {
                price_ms: price.get(),
                split: split
                    .iter()
                    .map(|(frontend, class, row)| (frontend.clone(), class.clone(), row.clone()))
                    .collect(),
            }),
        }
    }

    pub fn offered(&self) -> Offered {
        let mut offered = Offered::default();
        for (frontend, class, rate) in &self.offered {
            offered.set(frontend.clone(), class.clone(), Rate::try_from(*rate).unwrap_or_default());
        }
        offered
    }

    pub fn availability(&self, fleet: &Fleet) -> Availability {
        let mut availability = Availability::default();
        for engine in self.draining.iter().filter_map(|id| fleet.engine(id)) {
            availability.drain(&engine.id, &engine.group);
        }
        for (group, count) in &self.replicas {
            availability.set_replicas(group, *count);
        }
        availability
    }

    /// The problem that these inputs make, with the move penalty that was in it.
    pub fn instance(&self, fleet: &Fleet) -> Instance {
        let (offered, availability) = (self.offered(), self.availability(fleet));
        let split = self.move_from.as_ref().map(|from| {
            let price = Milliseconds::try_from(from.price_ms).unwrap_or_default();
            (from.split.iter().cloned().collect::<Published>(), price)
        });
        Instance::build(instance::Inputs {
            fleet,
            offered: &offered,
            availability: &availability,
            move_from: split.as_ref().map(|(split, price)| (split, *price)),
        })
    }
}

impl Outcome {
    pub fn of(plan: &Plan) -> Self {
        let weights = (0_u32..)
            .zip(&plan.weights)
            .filter(|(_, weight)| **weight > 0.0)
            .map(|(arc, weight)| (arc, *weight))
            .collect();
        let mut digest = Digest::default();
        for values in [&plan.weights, &plan.rates, &plan.shed] {
            digest.add(values);
        }
        if let Some(proof) = &plan.proof {
            digest.add(&proof.group_price);
            digest.add(&proof.supply_price);
        }
        Self { weights, digest: digest.0 }
    }
}

/// FNV-1a over the bits of numbers, and over how many there are.
struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    fn add(&mut self, values: &[f64]) {
        self.bytes((values.len() as u64).to_le_bytes());
        for value in values {
            self.bytes(value.to_bits().to_le_bytes());
        }
    }

    fn bytes(&mut self, bytes: [u8; 8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
