use std::sync::atomic::{AtomicBool, Ordering};

use penstock_wire::{EngineEntry, EngineState};

use super::*;

const BOUND: BoundConfig = BoundConfig { ratio: 1.25, slack_tokens: 1000 };

fn engine(index: u16, state: EngineState) -> EngineEntry {
    EngineEntry {
        index,
        id: format!("e{index}").as_str().into(),
        group: "g".into(),
        site: "s".into(),
        address: ([127, 0, 0, 1], 9000 + index).into(),
        address6: None,
        forwarding: None,
        rtt_us: 1000 - u32::from(index),
        state,
    }
}

/// 64 slots dealt to engines 0 and 1 in turn; engine 2 is a candidate without slots.
fn snapshot(counter: u64, slots: impl Fn(u16) -> u16) -> Snapshot {
    Snapshot {
        epoch: Epoch(counter),
        frontend: "A".into(),
        secret: *b"0123456789abcdef",
        nat_prefix: None,
        failure_handling: false,
        engines: (0..3).map(|index| engine(index, EngineState::Serving)).collect(),
        services: vec![],
        tables: vec![TableEntry::from_slots("chat".into(), &[0, 1, 2], (0..64).map(slots).collect())],
    }
}

fn routes(snapshot: &Snapshot) -> Routes {
    let routes = Routes::new(BOUND);
    routes.install(snapshot, None, Tick(1)).unwrap();
    routes
}

#[test]
fn a_key_goes_to_the_engine_of_the_slot_that_the_kernels_hash_gives() {
    let routes = routes(&snapshot(1, |slot| slot % 2));
    let hash_key = HashKey::expand(*b"0123456789abcdef");

    for key in 0..1000 {
        let route = routes.route("chat", key, &[]).unwrap();

        let slot = hash_key.of_key(key) % 64;
        assert_eq!(u64::from(route.slot), slot);
        assert_eq!(u64::from(route.engine.index), slot % 2);
        assert_eq!(route.why, choice::Why::Slot);
    }
}

#[test]
fn without_a_snapshot_and_for_an_unknown_class_there_is_no_table() {
    let routes = Routes::new(BOUND);

    assert_eq!(routes.route("chat", 1, &[]).unwrap_err(), NoRoute::NoTable);
    routes.install(&snapshot(1, |_| 0), None, Tick(1)).unwrap();
    assert_eq!(routes.route("other", 1, &[]).unwrap_err(), NoRoute::NoTable);
}

#[test]
fn an_engine_that_was_tried_is_left_out_until_none_is_left() {
    let routes = routes(&snapshot(1, |_| 0));

    let second = routes.route("chat", 7, &[0]).unwrap();
    let third = routes.route("chat", 7, &[0, second.engine.index]).unwrap();

    assert_eq!(second.why, choice::Why::Fallback);
    assert_eq!(third.why, choice::Why::Nearest);
    assert_eq!(u32::from(second.engine.index + third.engine.index), 1 + 2);
    assert_eq!(routes.route("chat", 7, &[0, 1, 2]).unwrap_err(), NoRoute::NoEngine);
}

#[test]
fn a_moved_slot_is_in_transition_until_15_minutes_have_passed() {
    let routes = routes(&snapshot(1, |_| 0));
    let hash = routes.route("chat", 7, &[]).unwrap().hash;
    routes.affinity.put(hash, 0);
    let why = |now| {
        routes.install(&snapshot(2, |_| 1), None, Tick(now)).unwrap();
        let route = routes.route("chat", 7, &[]).unwrap();
        (route.engine.index, route.why)
    };

    assert_eq!(why(10), (0, choice::Why::Affinity));
    assert_eq!(why(234), (0, choice::Why::Affinity));
    assert_eq!(why(235), (1, choice::Why::Slot));
}

#[test]
fn draining_and_out_engines_take_no_requests() {
    for state in [EngineState::Draining, EngineState::Out] {
        let mut snapshot = snapshot(1, |_| 0);
        snapshot.engines[0].state = state;

        assert_eq!(routes(&snapshot).route("chat", 7, &[]).unwrap().why, choice::Why::Fallback);
    }
}

#[test]
fn load_survives_a_new_snapshot_and_passes_new_conversations_on_when_over_the_bound() {
    let routes = routes(&snapshot(1, |_| 0));
    let route = routes.route("chat", 7, &[]).unwrap();
    // Engine 0 has all the weight: 1.25 x 5,000 + 1,000 is not reached.
    let held = super::super::engine::InFlight::start(&route.engine.load, &route.class_load, 5000);
    assert_eq!(routes.route("chat", 7, &[]).unwrap().why, choice::Why::Slot);

    // With half of the weight, 1.25 x 2,500 + 1,000 = 4,125 is.
    routes.install(&snapshot(2, |slot| slot % 2), None, Tick(1)).unwrap();
    let bounded = (0..100).filter(|key| routes.route("chat", *key, &[]).unwrap().engine.index == 0).count();
    assert_eq!(bounded, 0);

    drop(held);
    let served = (0..100).filter(|key| routes.route("chat", *key, &[]).unwrap().engine.index == 0).count();
    assert!(served > 0);
}

#[derive(Debug)]
struct Kernel {
    diverting: AtomicBool,
}

impl KernelTables for Kernel {
    fn region(&self, class: &ClassId) -> Option<(u32, u32)> {
        (class.as_str() == "chat").then_some((128, 64))
    }
    fn slot(&self, at: u32) -> Slot {
        assert!((128..192).contains(&at));
        Slot::stable(1, 2)
    }
    fn takes_new_flows(&self, engine: u16) -> bool {
        engine != 1 || !self.diverting.load(Ordering::Relaxed)
    }
}

#[test]
fn slots_and_flags_are_read_from_the_kernel_where_it_has_them() {
    let kernel = Arc::new(Kernel { diverting: AtomicBool::new(false) });
    let routes = Routes::new(BOUND);
    routes.install(&snapshot(1, |_| 0), Some(Arc::clone(&kernel) as Arc<dyn KernelTables>), Tick(1)).unwrap();

    assert_eq!(routes.route("chat", 7, &[]).unwrap().engine.index, 1);
    kernel.diverting.store(true, Ordering::Relaxed);
    assert_eq!(routes.route("chat", 7, &[]).unwrap().engine.index, 2);
}
