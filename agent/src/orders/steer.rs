//! A snapshot with a person's orders in its tables.
use penstock_wire::{ClassId, EngineId, EngineState, ServiceId, Snapshot, TableEntry, canonical};

use super::Orders;

/// Engines whose round trips differ by less than this are equally near.
const EQUALLY_NEAR_US: u32 = 1000;

/// Why orders do not fit a snapshot.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SteerError {
    #[error("there is no service {0}")]
    NoService(ServiceId),
    #[error("engine {engine} is no candidate of class {class}")]
    NotCandidate { engine: EngineId, class: ClassId },
    #[error("no engine of class {0} serves")]
    NobodyServes(ClassId),
}

/// What is to be installed instead of `snapshot`: classes of pinned services go to their engine (all services of a
/// class share its table), the others to their nearest engines if so ordered. Slots keep their flows as with any move.
pub fn steer(snapshot: &Snapshot, orders: &Orders) -> Result<Snapshot, SteerError> {
    let mut steered = snapshot.clone();
    // A person's order is not held back by the limit on moved slots.
    steered.failure_handling |= orders.is_steering();
    if orders.nearest.is_some() {
        for table in &mut steered.tables {
            *table = nearest(snapshot, table)?;
        }
    }
    for (service, pin) in &orders.pinned {
        let entry = snapshot.services.iter().find(|entry| entry.id == *service);
        let class = &entry.ok_or_else(|| SteerError::NoService(service.clone()))?.class;
        let engine =
            snapshot.engines.iter().find(|engine| engine.id == pin.engine).map(|engine| engine.index);
        for table in steered.tables.iter_mut().filter(|table| table.class == *class) {
            let candidate = engine.filter(|index| table.candidates.iter().any(|c| c.engine == *index));
            let Some(engine) = candidate else {
                return Err(SteerError::NotCandidate { engine: pin.engine.clone(), class: class.clone() });
            };
            *table = with_slots(table, vec![engine; table.slots.len()]);
        }
    }
    Ok(steered)
}

/// The table whose slots the nearest serving candidates share alike.
fn nearest(snapshot: &Snapshot, table: &TableEntry) -> Result<TableEntry, SteerError> {
    let nobody = || SteerError::NobodyServes(table.class.clone());
    let serving = || {
        let engines = table.candidates.iter().filter_map(|candidate| snapshot.engine(candidate.engine));
        engines.filter(|engine| engine.state == EngineState::Serving)
    };
    let least = serving().map(|engine| engine.rtt_us).min().ok_or_else(nobody)?;
    let near: Vec<_> = serving().filter(|engine| engine.rtt_us - least < EQUALLY_NEAR_US).collect();
    let (slots, count) = (table.slots.len(), near.len());
    // What does not divide evenly goes to the first ones.
    let share = |position: usize| u32::try_from(slots / count + usize::from(position < slots % count));
    let shares: Option<Vec<_>> =
        near.iter().enumerate().map(|(position, engine)| Some((&engine.id, share(position).ok()?))).collect();
    let positions = canonical(&shares.ok_or_else(nobody)?, slots).ok_or_else(nobody)?;
    Ok(with_slots(table, positions.into_iter().map(|position| near[usize::from(position)].index).collect()))
}

fn with_slots(table: &TableEntry, slots: Vec<u16>) -> TableEntry {
    let engines: Vec<u16> = table.candidates.iter().map(|candidate| candidate.engine).collect();
    TableEntry::from_slots(table.class.clone(), &engines, slots)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use penstock_wire::{EngineEntry, Epoch, Forwarding, KeyMode, Protocol, ServiceEntry, Vip};

    use super::*;
    use crate::orders::Order;

    fn engine(index: u16, rtt_us: u32, state: EngineState) -> EngineEntry {
        EngineEntry {
            index,
            id: EngineId(format!("e{index}")),
            group: "g".into(),
            site: "s".into(),
            address: SocketAddr::from(([10, 0, 0, 1], 8000 + index)),
            address6: None,
            forwarding: None,
            rtt_us,
            state,
        }
    }

    fn service(index: u16, id: &str, class: &str) -> ServiceEntry {
        ServiceEntry {
            index,
            id: id.into(),
            class: class.into(),
            vip: Vip::V4([192, 0, 2, 1].into()),
            port: 80 + index,
            protocol: Protocol::Tcp,
            key: KeyMode::Flow,
            forwarding: Forwarding::L2,
        }
    }

    /// Engine 0 is near but draining, 1 and 2 are near, 3 is far and has all the slots.
    fn snapshot() -> Snapshot {
        let table = |class: &str| TableEntry::from_slots(class.into(), &[0, 1, 2, 3], vec![3; 64]);
        Snapshot {
            epoch: Epoch(5),
            frontend: "A".into(),
            secret: [0; 16],
            nat_prefix: None,
            failure_handling: false,
            engines: vec![
                engine(0, 100, EngineState::Draining),
                engine(1, 500, EngineState::Serving),
                engine(2, 1400, EngineState::Serving),
                engine(3, 70_000, EngineState::Serving),
            ],
            services: vec![service(0, "chat", "chat"), service(1, "batch", "batch")],
            tables: vec![table("batch"), table("chat")],
        }
    }

    fn counts(snapshot: &Snapshot, table: usize) -> Vec<u32> {
        snapshot.tables[table].counts().into_iter().map(|(_, count)| count).collect()
    }

    #[test]
    fn nearest_shares_slots_among_serving_engines_that_are_equally_near() {
        let steered = steer(&snapshot(), &Orders::default().after(&Order::Nearest, 1)).unwrap();

        assert_eq!(counts(&steered, 0), [0, 32, 32, 0]);
        steered.check().unwrap();
        assert!(steered.failure_handling);
    }

    #[test]
    fn a_pin_moves_its_class_and_no_other() {
        let order = Order::Pin { service: "chat".into(), engine: "e0".into() };

        let steered = steer(&snapshot(), &Orders::default().after(&order, 1)).unwrap();

        assert_eq!((counts(&steered, 0), counts(&steered, 1)), (vec![0, 0, 0, 64], vec![64, 0, 0, 0]));
    }

    #[test]
    fn orders_that_do_not_fit_are_refused() {
        let pin = |service: &str, engine: &str| {
            let order = Order::Pin { service: service.into(), engine: engine.into() };
            steer(&snapshot(), &Orders::default().after(&order, 1)).unwrap_err()
        };
        let mut nobody = snapshot();
        nobody.engines.iter_mut().for_each(|engine| engine.state = EngineState::Out);

        assert_eq!(pin("mail", "e0"), SteerError::NoService("mail".into()));
        assert!(matches!(pin("chat", "e9"), SteerError::NotCandidate { .. }));
        let nearest = steer(&nobody, &Orders::default().after(&Order::Nearest, 1));
        assert_eq!(nearest, Err(SteerError::NobodyServes("batch".into())));
    }
}
