//! The running controller's decisions, tick by tick, on a clock that the test sets.
use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_controller::assignment::instance::{Inputs, Instance};
use penstock_controller::assignment::published::Published;
use penstock_controller::capacity::availability::Availability;
use penstock_controller::demand::Offered;
use penstock_controller::demand::gate::Hold;
use penstock_controller::demand::meter::HostReport;
use penstock_controller::fleet::settings::PolicyName;
use penstock_controller::fleet::{self, Fleet};
use penstock_controller::policy::{self, Plan, Policy, by_distance};
use penstock_controller::run::tick::{Planned, Planner, Refused, Tick, UNMEASURED_WAIT};
use penstock_controller::solve::SolveError;
use penstock_controller::weights::{Cause, Weights};

fn fleet() -> Arc<Fleet> {
    Arc::new(fleet::parse(include_str!("../../examples/talk.toml")).expect("the example has no faults"))
}

fn planner() -> Planner {
    Planner::new(fleet(), policy::named(PolicyName::Optimizer))
}

fn planned(tick: Tick) -> Planned {
    match tick {
        Tick::Planned(planned) => *planned,
        Tick::Held(hold) => unreachable!("held: {hold:?}"),
    }
}

fn report(host: &str, frontend: &str, flows: u64) -> HostReport {
    HostReport {
        host: host.into(),
        frontend: frontend.into(),
        window: Duration::from_secs(1),
        flows: vec![("chat".into(), flows)],
    }
}

fn weight_of_group(weights: &Weights, frontend: &str, group: &str) -> f64 {
    let table = weights.tables.iter().find(|table| table.frontend.as_str() == frontend);
    let engines = &table.expect("every frontend has a table").engines;
    engines.iter().filter(|(engine, _)| engine.as_str().starts_with(group)).map(|(_, weight)| weight).sum()
}

#[test]
fn the_first_tick_publishes_the_stated_demand_and_the_next_one_nothing_new() {
    let (mut planner, start) = (planner(), Instant::now());

    let first = planned(planner.tick(start)).publish.unwrap();
    let second = planned(planner.tick(start + Duration::from_secs(60)));

    assert!((weight_of_group(&first, "B", "engine-c") - 0.2564).abs() < 1e-3);
    assert!((weight_of_group(&first, "B", "engine-b") - 0.7436).abs() < 1e-3);
    assert_eq!(first.cause, Cause::Routine);
    assert_eq!(second.publish, None);
    assert_eq!(second.refused, None);
}

#[test]
fn a_large_shift_of_measured_demand_is_published_at_once() {
    let (mut planner, start) = (planner(), Instant::now());
    planned(planner.tick(start));

    for (host, frontend, flows) in [("host-a", "A", 90), ("host-b", "B", 150), ("host-c", "C", 20)] {
        planner.record(&report(host, frontend, flows), start);
    }
    let shifted = planned(planner.tick(start + Duration::from_secs(1)));

    assert!(shifted.saving > 0.005);
    let weights = shifted.publish.unwrap();
    // engine-b has room for 95 of 150 requests/s at most.
    assert!(weight_of_group(&weights, "B", "engine-b") < 95.0 / 150.0 + 1e-6);
}

#[test]
fn a_small_shift_waits_for_the_publish_interval() {
    let (mut planner, start) = (planner(), Instant::now());
    planned(planner.tick(start));
    planner.record(&report("host-b", "B", 121), start);

    let soon = planned(planner.tick(start + Duration::from_secs(1)));
    planner.record(&report("host-b", "B", 121), start + Duration::from_secs(9));
    let later = planned(planner.tick(start + Duration::from_secs(10)));

    assert_eq!(soon.publish, None);
    assert!(soon.saving < 0.005);
    assert!(later.publish.is_some());
}

#[test]
fn engines_that_go_are_a_failure_and_leave_no_weight_behind() {
    let (mut planner, start) = (planner(), Instant::now());
    planned(planner.tick(start));
    let mut availability = Availability::stated(&fleet());
    availability.drain_group(&"engine-c".into(), &fleet());

    planner.set_availability(availability);
    let weights = planned(planner.tick(start + Duration::from_secs(1))).publish.unwrap();

    assert_eq!(weights.cause, Cause::Failure);
    for frontend in ["A", "B", "C"] {
        assert_eq!(weight_of_group(&weights, frontend, "engine-c"), 0.0);
    }
}

#[test]
fn a_restarted_controller_keeps_the_split_it_published_where_moving_saves_little() {
    let fleet = fleet();
    let availability = Availability::stated(&fleet);
    // A tenth of a request/s more moves the prices of groups by about 1 ms: less than two move penalties of 5 ms.
    let mut offered = Offered::stated(&fleet);
    offered.set("B".into(), "chat".into(), 120.1.try_into().unwrap());
    let inputs = Inputs { fleet: &fleet, offered: &offered, availability: &availability, move_from: None };
    let before = Instance::build(inputs);
    let plan = policy::named(PolicyName::Optimizer).plan(&before).unwrap();
    let start = Instant::now();
    let after = start + UNMEASURED_WAIT;
    let mut fresh = Planner::new(Arc::clone(&fleet), policy::named(PolicyName::Optimizer));
    let mut resumed = Planner::new(Arc::clone(&fleet), policy::named(PolicyName::Optimizer))
        .resume(Published::of(&before, &plan.weights), start);

    let (fresh, resumed) = (planned(fresh.tick(after)), planned(resumed.tick(after)));

    assert_eq!(resumed.plan.weights, plan.weights);
    assert_eq!(resumed.publish, None);
    assert!(fresh.publish.is_some() && fresh.plan.weights != plan.weights);
}

#[test]
fn a_restarted_controller_holds_its_split_until_every_host_reported_or_the_wait_ends() {
    let start = Instant::now();
    let split: Published =
        [("B".into(), "chat".into(), [("engine-a".into(), 1.0)].into_iter().collect())].into_iter().collect();
    let resumed = || planner().resume(split.clone(), start);

    let (mut silent, mut reported) = (resumed(), resumed());
    for (host, frontend, flows) in [("host-a", "A", 90), ("host-b", "B", 120)] {
        reported.record(&report(host, frontend, flows), start);
    }
    assert_eq!(reported.tick(start), Tick::Held(Hold::Unmeasured));
    reported.record(&report("host-c", "C", 40), start);

    assert!(planned(reported.tick(start)).publish.is_some());
    assert_eq!(silent.tick(start + UNMEASURED_WAIT - Duration::from_millis(1)), Tick::Held(Hold::Unmeasured));
    assert!(planned(silent.tick(start + UNMEASURED_WAIT)).publish.is_some());
}

#[test]
fn silent_hosts_hold_the_last_split() {
    let (mut planner, start) = (planner(), Instant::now());
    planner.record(&report("host-a", "A", 90), start);
    planned(planner.tick(start));

    let tick = planner.tick(start + Duration::from_secs(6));

    assert_eq!(tick, Tick::Held(Hold::Stale { share: 1.0 }));
}

/// Answers with the optimum, but sends one request/s less of the first supply than it claims.
#[derive(Debug)]
struct LosesARequest;

impl Policy for LosesARequest {
    fn name(&self) -> PolicyName {
        PolicyName::Optimizer
    }

    fn plan(&mut self, instance: &Instance) -> Result<Plan, SolveError> {
        let mut plan = policy::named(PolicyName::Optimizer).plan(instance)?;
        plan.rates[0] -= 1.0;
        if let Some(proof) = &mut plan.proof {
            let assignment = penstock_controller::solve::problem::Assignment {
                rates: plan.rates.clone(),
                shed: plan.shed.clone(),
                group_price: proof.group_price.clone(),
                supply_price: proof.supply_price.clone(),
            };
            proof.certificate = penstock_controller::solve::certify::certify(&instance.problem, &assignment);
        }
        Ok(plan)
    }
}

#[test]
fn a_plan_without_a_certificate_is_replaced_by_the_plan_by_distance_and_says_so() {
    let mut planner = Planner::new(fleet(), Box::new(LosesARequest));

    let planned = planned(planner.tick(Instant::now()));

    assert!(matches!(planned.refused, Some(Refused::NotProven(_))));
    // Nearest first: B fills engine-b to its limit of 95, and the rest goes to engine-c, 40 ms away.
    let weights = planned.publish.unwrap();
    assert!((weight_of_group(&weights, "B", "engine-b") - 95.0 / 120.0).abs() < 1e-9);
    assert!((weight_of_group(&weights, "B", "engine-c") - 25.0 / 120.0).abs() < 1e-9);
}

#[test]
fn by_distance_serves_high_priorities_first_and_never_exceeds_a_limit() {
    let fleet = fleet::parse(include_str!("../../examples/mixed.toml")).unwrap();
    let mut offered = Offered::stated(&fleet);
    offered.set("us-west".into(), "batch".into(), 30.0.try_into().unwrap());
    let availability = Availability::stated(&fleet);
    let instance = Instance::build(Inputs {
        fleet: &fleet,
        offered: &offered,
        availability: &availability,
        move_from: None,
    });

    let plan = by_distance::plan(&instance);

    let mut loads = vec![0.0; instance.groups.len()];
    for (arc, rate) in instance.problem.arcs.iter().zip(&plan.rates) {
        loads[arc.group as usize] += arc.gain * rate;
    }
    for (load, group) in loads.iter().zip(&instance.problem.groups) {
        assert!(*load <= group.limit * (1.0 + 1e-9));
    }
    let shed = |class: &str| -> f64 {
        let pairs = instance.pairs.iter().zip(&plan.shed).filter(|(pair, _)| pair.class.as_str() == class);
        pairs.map(|(_, shed)| shed).sum()
    };
    assert_eq!(shed("chat") + shed("chat-eu"), 0.0);
    assert!(shed("batch") > 0.0);
}
