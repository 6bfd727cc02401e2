//! Break-glass: what a person ordered on this host, in force until `resume`, across restarts.
mod file;
mod steer;

pub use file::{OrdersError, OrdersFile};
pub use steer::{SteerError, steer};

use std::collections::BTreeMap;

use penstock_wire::{EngineId, HostOrders, ServiceId};
use serde::{Deserialize, Serialize};

/// Everything ordered. Times are seconds since 1970.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Orders {
    /// No more installs, since then.
    pub frozen: Option<u64>,
    /// Services whose class goes to one engine.
    #[serde(default)]
    pub pinned: BTreeMap<ServiceId, Pin>,
    /// Every class goes to its nearest engines, by the round trips of the snapshot held then.
    pub nearest: Option<u64>,
    /// Packets pass to the host stack.
    pub detached: Option<u64>,
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    pub engine: EngineId,
    pub since: u64,
}

/// One order of a person.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    Freeze,
    Pin {
        service: ServiceId,
        engine: EngineId,
    },
    Nearest,
    Detach,
    /// Takes back all others.
    Resume,
}

impl Orders {
    /// The orders after one more.
    #[must_use]
    pub fn after(&self, order: &Order, now: u64) -> Self {
        let mut orders = self.clone();
        match order {
            Order::Freeze => orders.frozen = self.frozen.or(Some(now)),
            Order::Pin { service, engine } => {
                orders.pinned.insert(service.clone(), Pin { engine: engine.clone(), since: now });
            }
            Order::Nearest => orders.nearest = self.nearest.or(Some(now)),
            Order::Detach => orders.detached = self.detached.or(Some(now)),
            Order::Resume => return Self::default(),
        }
        orders
    }

    /// Why updates of the controller are refused, if they are. Pins do not refuse them: other classes go on.
    pub fn refusal(&self) -> Option<&'static str> {
        match self {
            Self { frozen: Some(_), .. } => Some("this host is frozen"),
            Self { nearest: Some(_), .. } => Some("this host goes to the nearest engines"),
            Self { detached: Some(_), .. } => Some("the data path of this host is detached"),
            _ => None,
        }
    }

    /// Which kinds there are.
    pub fn kinds(&self) -> HostOrders {
        HostOrders {
            frozen: self.frozen.is_some(),
            pinned: !self.pinned.is_empty(),
            nearest: self.nearest.is_some(),
            detached: self.detached.is_some(),
        }
    }

    /// Whether tables are not those of the controller.
    pub fn is_steering(&self) -> bool {
        self.nearest.is_some() || !self.pinned.is_empty()
    }

    /// For people: one line an order.
    pub fn lines(&self) -> Vec<String> {
        let simple = [("frozen", self.frozen), ("nearest", self.nearest), ("detached", self.detached)];
        let simple = simple.iter().filter_map(|(name, since)| Some(format!("{name} since {}", (*since)?)));
        let pinned = self.pinned.iter();
        simple
            .chain(
                pinned
                    .map(|(service, pin)| format!("{service} pinned to {} since {}", pin.engine, pin.since)),
            )
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_add_up_until_resume_takes_them_all_back() {
        let pin = Order::Pin { service: "chat".into(), engine: "e1".into() };

        let orders = Orders::default().after(&Order::Freeze, 10).after(&pin, 20).after(&Order::Freeze, 30);

        assert_eq!(orders.lines(), ["frozen since 10", "chat pinned to e1 since 20"]);
        assert!(orders.refusal().is_some() && orders.is_steering());
        assert_eq!(orders.after(&Order::Resume, 40), Orders::default());
    }

    #[test]
    fn a_pin_alone_lets_updates_of_other_classes_in() {
        let orders = Orders::default().after(&Order::Pin { service: "chat".into(), engine: "e1".into() }, 1);

        assert_eq!(orders.refusal(), None);
    }
}
