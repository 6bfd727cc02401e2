//! From a fleet file to a split over engines, by each policy.
use penstock_controller::assignment::expand::expand;
use penstock_controller::assignment::instance::{Inputs, Instance};
use penstock_controller::assignment::published::Published;
use penstock_controller::assignment::report::Report;
use penstock_controller::capacity::availability::Availability;
use penstock_controller::demand::Offered;
use penstock_controller::fleet::settings::PolicyName;
use penstock_controller::fleet::units::Milliseconds;
use penstock_controller::fleet::{self, Fleet};
use penstock_controller::policy;
use penstock_controller::weights::Cause;

const TALK: &str = include_str!("../../examples/talk.toml");
const MIXED: &str = include_str!("../../examples/mixed.toml");

fn instance(fleet: &Fleet, availability: &Availability) -> Instance {
    let offered = Offered::stated(fleet);
    Instance::build(Inputs { fleet, offered: &offered, availability, move_from: None })
}

fn report(fleet: &Fleet, name: PolicyName) -> Report {
    let instance = instance(fleet, &Availability::stated(fleet));
    Report::of(&instance, &policy::named(name).plan(&instance).expect("a fleet without faults has a plan"))
}

fn rate(report: &Report, frontend: &str, group: &str) -> f64 {
    let row = |row: &&_| {
        let row: &penstock_controller::assignment::report::WeightRow = row;
        row.frontend.as_str() == frontend && row.group.as_str() == group
    };
    report.weights.iter().filter(row).map(|row| row.rps).sum()
}

#[test]
fn the_three_regions_share_their_load_just_below_the_knee() {
    let fleet = fleet::parse(TALK).unwrap();

    let report = report(&fleet, PolicyName::Optimizer);

    assert!((report.mean_e2e_ms.unwrap() - 3278.41).abs() < 0.005, "{report}");
    assert!((rate(&report, "B", "engine-c") - 30.7).abs() < 0.1, "{report}");
    assert_eq!(rate(&report, "B", "engine-a"), 0.0);
    assert!(report.groups.iter().all(|group| (0.889..=0.9).contains(&group.utilisation)), "{report}");
    assert!(report.gap.unwrap().abs() < 1e-6 && report.shed.is_empty());
}

#[test]
fn traffic_bound_to_the_eu_stays_there_on_mixed_hardware() {
    let fleet = fleet::parse(MIXED).unwrap();

    let report = report(&fleet, PolicyName::Optimizer);

    // An assignment over 64 segments a group costs 3768.3 ms; the smooth optimum lies within 1e-4 below it.
    let mean = report.mean_e2e_ms.unwrap();
    assert!(mean <= 3768.3 && mean > 3768.3 * (1.0 - 1e-4), "{mean}");
    assert!(report.shed.is_empty());
    for row in report.weights.iter().filter(|row| row.class.as_str() == "chat-eu") {
        assert!(["fra-h100", "dub-h200"].contains(&row.group.as_str()), "{row:?}");
    }
}

#[test]
fn the_order_of_the_file_changes_nothing() {
    let fleet = fleet::parse(MIXED).unwrap();
    let mut reversed = fleet.clone();
    reversed.frontends.reverse();
    reversed.classes.reverse();
    reversed.groups.reverse();
    reversed.profiles.reverse();
    reversed.demand.reverse();

    for name in [PolicyName::Optimizer, PolicyName::LeastLoaded, PolicyName::Feedback] {
        assert_eq!(report(&fleet, name), report(&reversed, name));
    }
}

#[test]
fn nearest_overloads_the_group_next_to_the_largest_demand() {
    let fleet = fleet::parse(TALK).unwrap();

    let report = report(&fleet, PolicyName::Nearest);

    assert_eq!(rate(&report, "B", "engine-b"), 120.0);
    // 120 requests/s beside a capacity of 100.
    assert!((report.groups[1].utilisation - 1.2).abs() < 1e-12);
    assert_eq!(report.lower_bound, None);
}

#[test]
fn round_robin_gives_every_replica_the_same() {
    let fleet = fleet::parse(TALK).unwrap();

    let report = report(&fleet, PolicyName::RoundRobin);

    // 5, 5 and 4 of 14 replicas.
    assert!((rate(&report, "C", "engine-c") - 40.0 * 4.0 / 14.0).abs() < 1e-9);
    assert!((rate(&report, "A", "engine-b") - 90.0 * 5.0 / 14.0).abs() < 1e-9);
}

#[test]
fn least_loaded_levels_what_a_class_may_use() {
    let fleet = fleet::parse(MIXED).unwrap();

    let report = report(&fleet, PolicyName::LeastLoaded);

    let first = report.groups[0].utilisation;
    assert!(report.groups.iter().all(|group| (group.utilisation - first).abs() < 1e-6), "{report}");
}

#[test]
fn feedback_moves_away_from_the_slowest_group_within_its_clamp() {
    let fleet = fleet::parse(MIXED).unwrap();
    let instance = instance(&fleet, &Availability::stated(&fleet));
    let mut feedback = policy::named(PolicyName::Feedback);

    let first = Report::of(&instance, &feedback.plan(&instance).unwrap());
    let second = Report::of(&instance, &feedback.plan(&instance).unwrap());

    // By replicas, fra-h100 is at 1.41 of its capacity, and pdx-h200 at 0.49.
    let of = |report: &Report, group: &str| {
        let row = |row: &&penstock_controller::assignment::report::WeightRow| {
            row.frontend.as_str() == "us-east" && row.class.as_str() == "chat" && row.group.as_str() == group
        };
        report.weights.iter().find(row).unwrap().weight
    };
    assert!(of(&second, "fra-h100") < of(&first, "fra-h100"));
    assert!(of(&second, "pdx-h200") > of(&first, "pdx-h200"));
    // One step of 20 % down, then the row is brought back to a sum of 1, where nobody rose by more than 20 %.
    assert!(of(&second, "fra-h100") >= of(&first, "fra-h100") * 0.8 / 1.2);
}

#[test]
fn ready_engines_of_a_group_share_its_weight_and_the_others_stay_candidates() {
    let fleet = fleet::parse(TALK).unwrap();
    let mut availability = Availability::stated(&fleet);
    availability.drain(&"engine-c-2".into(), &"engine-c".into());
    let instance = instance(&fleet, &availability);
    let plan = policy::named(PolicyName::RoundRobin).plan(&instance).unwrap();

    let weights = expand(&fleet, &availability, &instance, &plan.weights, Cause::Routine);

    let table = &weights.tables[0];
    assert_eq!((table.frontend.as_str(), table.class.as_str(), table.engines.len()), ("A", "chat", 14));
    // 13 replicas are left.
    for (engine, weight) in &table.engines {
        let expected = if engine.as_str() == "engine-c-2" { 0.0 } else { 1.0 / 13.0 };
        assert!((weight - expected).abs() < 1e-12, "{engine} {weight}");
    }
}

#[test]
fn a_price_on_moving_holds_a_split_that_a_small_change_would_move() {
    let fleet = fleet::parse(TALK).unwrap();
    let availability = Availability::stated(&fleet);
    let before = instance(&fleet, &availability);
    let plan = policy::named(PolicyName::Optimizer).plan(&before).unwrap();
    let published = Published::of(&before, &plan.weights);
    let mut offered = Offered::stated(&fleet);
    offered.set("A".into(), "chat".into(), 90.1.try_into().unwrap());
    let price = Milliseconds::try_from(1_000.0).unwrap();

    let inputs = Inputs {
        fleet: &fleet,
        offered: &offered,
        availability: &availability,
        move_from: Some((&published, price)),
    };
    let held = policy::named(PolicyName::Optimizer).plan(&Instance::build(inputs)).unwrap();

    let moved =
        |weights: &[f64]| -> f64 { weights.iter().zip(&plan.weights).map(|(a, b)| (a - b).abs()).sum() };
    assert!(moved(&held.weights) < 1e-6, "{:?}", held.weights);
    assert!(held.proof.unwrap().certificate.is_publishable());
}

#[test]
fn without_capacity_everything_is_shed_and_every_engine_stays_a_candidate() {
    let fleet = fleet::parse(TALK).unwrap();
    let mut availability = Availability::stated(&fleet);
    for group in &fleet.groups {
        availability.drain_group(&group.id, &fleet);
    }
    let instance = instance(&fleet, &availability);

    let plan = policy::named(PolicyName::Optimizer).plan(&instance).unwrap();
    let report = Report::of(&instance, &plan);
    let weights = expand(&fleet, &availability, &instance, &plan.weights, Cause::Failure);

    assert_eq!(report.mean_e2e_ms, None);
    assert_eq!(report.shed.iter().map(|row| row.rps).collect::<Vec<_>>(), [90.0, 120.0, 40.0]);
    let total: f64 = weights.tables[0].engines.iter().map(|(_, weight)| weight).sum();
    assert!((total - 1.0).abs() < 1e-9);
}
