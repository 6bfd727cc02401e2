//! Weight path, input: how much of each class every frontend is offered.
pub mod gate;
pub mod meter;

use std::collections::BTreeMap;

use penstock_wire::{ClassId, FrontendId};

use crate::fleet::Fleet;
use crate::fleet::units::Rate;

/// Offered first attempts of each (frontend, class) pair. A pair that is absent offers nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Offered {
    rates: BTreeMap<(FrontendId, ClassId), Rate>,
}

impl Offered {
    /// The demand that the fleet file states.
    pub fn stated(fleet: &Fleet) -> Self {
        let rates = fleet
            .demand
            .iter()
            .map(|demand| ((demand.frontend.clone(), demand.class.clone()), demand.rate))
            .collect();
        Self { rates }
    }

    pub fn set(&mut self, frontend: FrontendId, class: ClassId, rate: Rate) {
        self.rates.insert((frontend, class), rate);
    }

    pub fn rate(&self, frontend: &FrontendId, class: &ClassId) -> Rate {
        // The key owns its ids, so a look-up clones two short strings.
        self.rates.get(&(frontend.clone(), class.clone())).copied().unwrap_or_default()
    }

    /// Pairs with a rate, sorted by frontend, then class.
    pub fn iter(&self) -> impl Iterator<Item = (&FrontendId, &ClassId, Rate)> {
        self.rates.iter().map(|((frontend, class), rate)| (frontend, class, *rate))
    }
}
