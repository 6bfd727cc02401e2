//! Fleets at the edge of sense, and random ones: what must hold whatever the numbers are.
use std::fmt::Write as _;

use penstock_controller::assignment::instance::{Inputs, Instance};
use penstock_controller::assignment::report::Report;
use penstock_controller::capacity::availability::Availability;
use penstock_controller::demand::Offered;
use penstock_controller::fleet::{self, Fleet, settings::PolicyName};
use penstock_controller::policy::{self, by_distance};
use proptest::prelude::*;

/// A fleet of two sites, with groups of these (site, replicas, capacity, has label) and demand of these rates.
fn fleet(groups: &[(u8, u32, f64, bool)], demand: &[(u8, f64)]) -> Fleet {
    let mut text = String::from(
        "[[site]]\nid = \"s0\"\n[[site]]\nid = \"s1\"\n[rtt_ms]\ns0.s1 = 40.0\n\
         [[frontend]]\nid = \"f0\"\nsite = \"s0\"\n[[frontend]]\nid = \"f1\"\nsite = \"s1\"\n\
         [[class]]\nid = \"any\"\nmodel = \"m\"\nmean_prompt_tokens = 600\nmean_output_tokens = 150\n\
         [[class]]\nid = \"long\"\nmodel = \"m\"\npriority = 0\nmean_prompt_tokens = 12000\nmean_output_tokens = 300\n\
         [[class]]\nid = \"short\"\nmodel = \"m\"\npriority = 2\nmean_prompt_tokens = 60\nmean_output_tokens = 20\n\
         [[class]]\nid = \"bound\"\nmodel = \"m\"\nrequire = [\"x\"]\nmean_prompt_tokens = 600\nmean_output_tokens = 150\n",
    );
    for (at, (site, replicas, capacity, has_label)) in groups.iter().enumerate() {
        let labels = if *has_label { "[\"x\"]" } else { "[]" };
        write!(
            text,
            "[[profile]]\nid = \"p{at}\"\ncapacity_rps = {capacity:e}\nreference = {{ prompt_tokens = 600, output_tokens = 150 }}\n\
             prefill_weight = {}\npoints = [{{ utilisation = 0.0, ttft_ms = 100.0, itl_ms = 15.0 }}, \
             {{ utilisation = 0.8, ttft_ms = 200.0, itl_ms = 18.0 }}, {{ utilisation = 1.0, ttft_ms = 900.0, itl_ms = 35.0 }}]\n\
             [[engine_group]]\nid = \"g{at}\"\nsite = \"s{site}\"\nmodel = \"m\"\nprofile = \"p{at}\"\nreplicas = {replicas}\nlabels = {labels}\n",
            if at % 2 == 0 { 0.1 } else { 0.06 },
        )
        .expect("writing to a string cannot fail");
    }
    for (at, (class, rate)) in demand.iter().enumerate() {
        let class = ["any", "long", "short", "bound"][usize::from(*class)];
        let line = format!("[[demand]]\nfrontend = \"f{}\"\nclass = \"{class}\"\nrps = {rate:e}\n", at % 2);
        if !text.contains(&line[..line.find("rps").expect("a line of demand")]) {
            text.push_str(&line);
        }
    }
    fleet::parse(&text).expect("a fleet without faults")
}

fn instance(fleet: &Fleet) -> Instance {
    let (offered, availability) = (Offered::stated(fleet), Availability::stated(fleet));
    Instance::build(Inputs { fleet, offered: &offered, availability: &availability, move_from: None })
}

/// The optimum, after checking that it is proven.
fn solved(fleet: &Fleet) -> Report {
    let instance = instance(fleet);
    let plan =
        policy::named(PolicyName::Optimizer).plan(&instance).expect("a fleet without faults has a plan");
    let certificate = &plan.proof.as_ref().expect("the optimizer has a proof").certificate;
    assert!(certificate.is_publishable(), "{certificate:?}");
    Report::of(&instance, &plan)
}

fn shed(report: &Report, class: &str) -> f64 {
    report.shed.iter().filter(|row| row.class.as_str() == class).map(|row| row.rps).sum()
}

#[test]
fn without_demand_every_pair_still_has_a_way() {
    let report = solved(&fleet(&[(0, 2, 20.0, true), (1, 2, 20.0, false)], &[]));

    assert_eq!(report.mean_e2e_ms, None);
    let local = |row: &&penstock_controller::assignment::report::WeightRow| row.weight == 1.0;
    assert_eq!(report.weights.iter().filter(local).count(), 8);
}

#[test]
fn one_engine_serves_what_it_can_and_the_rest_is_shed() {
    let report = solved(&fleet(&[(0, 1, 20.0, true)], &[(0, 30.0)]));

    // 0.95 of 20 requests/s.
    assert!((shed(&report, "any") - 11.0).abs() < 1e-9, "{report}");
}

#[test]
fn a_tiny_and_a_huge_capacity_stand_beside_each_other() {
    let report = solved(&fleet(&[(0, 1, 1e-9, true), (1, 1, 1e9, true)], &[(0, 100.0), (0, 50.0)]));

    assert!(shed(&report, "any") < 1e-9, "{report}");
    assert!(report.groups[1].load_rps > 149.999, "{report}");
}

#[test]
fn long_prompts_of_a_high_priority_are_not_shed_for_short_ones_of_a_low_priority() {
    // A long request is 1500 / 210 = 7.14 reference requests, and 19 of them are there.
    let report = solved(&fleet(&[(0, 1, 20.0, true)], &[(1, 2.0), (2, 500.0)]));

    assert_eq!(shed(&report, "long"), 0.0, "{report}");
    assert!(shed(&report, "short") > 400.0, "{report}");
}

#[test]
fn a_class_whose_only_group_has_no_replica_is_shed_by_name() {
    let report = solved(&fleet(&[(0, 0, 20.0, true), (1, 2, 20.0, false)], &[(3, 5.0), (0, 5.0)]));

    assert_eq!((shed(&report, "bound"), shed(&report, "any")), (5.0, 0.0), "{report}");
}

fn groups() -> impl Strategy<Value = Vec<(u8, u32, f64, bool)>> {
    prop::collection::vec((0_u8..2, 0_u32..4, 1.0..50.0, any::<bool>()), 1..6).prop_map(|mut groups| {
        // A class that no group may ever serve is a fault of the file.
        groups[0].3 = true;
        groups
    })
}

fn demand() -> impl Strategy<Value = Vec<(u8, f64)>> {
    prop::collection::vec((0_u8..4, 0.0..60.0), 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn the_order_of_a_file_never_matters(groups in groups(), demand in demand()) {
        let fleet = fleet(&groups, &demand);
        let mut reversed = fleet.clone();
        reversed.groups.reverse();
        reversed.classes.reverse();
        reversed.frontends.reverse();

        prop_assert_eq!(solved(&fleet), solved(&reversed));
    }

    #[test]
    fn a_further_replica_never_costs(groups in groups(), demand in demand(), more in any::<prop::sample::Index>()) {
        let mut larger = groups.clone();
        larger[more.index(groups.len())].1 += 1;

        let (before, after) = (solved(&fleet(&groups, &demand)).objective, solved(&fleet(&larger, &demand)).objective);

        prop_assert!(after <= before * (1.0 + 1e-7) + 1e-9, "{} {}", before, after);
    }

    #[test]
    fn no_plan_by_distance_beats_the_optimum_or_breaks_a_limit(groups in groups(), demand in demand()) {
        let fleet = fleet(&groups, &demand);
        let instance = instance(&fleet);

        let plan = by_distance::plan(&instance);

        let report = Report::of(&instance, &plan);
        let optimum = solved(&fleet).objective;
        prop_assert!(report.objective >= optimum * (1.0 - 1e-7) - 1e-9);
        for (group, terms) in report.groups.iter().zip(&instance.problem.groups) {
            prop_assert!(group.load_rps <= terms.limit * (1.0 + 1e-9));
        }
        for (supply, terms) in instance.problem.supplies.iter().enumerate() {
            let served: f64 = plan.rates[instance.problem.arcs_of(supply)].iter().sum();
            prop_assert!((served + plan.shed[supply] - terms.demand).abs() <= 1e-9 * terms.demand);
        }
    }
}
