//! What `explain` says, against prices found by other solves.
use penstock_controller::assignment::instance::{Inputs, Instance};
use penstock_controller::capacity::availability::Availability;
use penstock_controller::demand::Offered;
use penstock_controller::explain::{ExplainError, Explanation, Filter, explain};
use penstock_controller::fleet::{self, Fleet, settings::PolicyName};
use penstock_controller::policy;
use penstock_controller::solve::evaluate::evaluate;
use penstock_controller::solve::reference::Reference;

fn fleet(text: &str) -> Fleet {
    fleet::parse(text).expect("the example has no faults")
}

fn talk() -> Fleet {
    fleet(include_str!("../../examples/talk.toml"))
}

fn mixed() -> Fleet {
    fleet(include_str!("../../examples/mixed.toml"))
}

fn instance(fleet: &Fleet, availability: &Availability) -> Instance {
    let offered = Offered::stated(fleet);
    Instance::build(Inputs { fleet, offered: &offered, availability, move_from: None })
}

fn explained(fleet: &Fleet, filter: &Filter) -> Explanation {
    let instance = instance(fleet, &Availability::stated(fleet));
    let plan = policy::named(PolicyName::Optimizer).plan(&instance).expect("a small fleet has an optimum");
    explain(&instance, &plan, filter, &Reference::default()).expect("the optimizer has prices")
}

#[test]
fn sentences_weigh_distance_against_queueing() {
    let filter = Filter { frontend: Some("B".into()), ..Filter::default() };

    let explanation = explained(&talk(), &filter);

    let sentences: Vec<&str> = explanation.pairs.iter().map(|pair| pair.sentence.as_str()).collect();
    // 40 ms and 0.5 ms of network; at an optimum that uses both, queueing makes up exactly for the difference.
    assert_eq!(
        sentences[2],
        "B sends 25.6 % to engine-c: one more request at engine-b delays everyone there, itself included, by 7239 ms \
         in all; engine-c costs 39.5 ms more network and 39.5 ms less queueing."
    );
    // 70 ms of network to engine-a, where queueing costs 89.5 ms more than at engine-c: A uses both.
    assert_eq!(
        sentences[0],
        "B sends nothing to engine-a: each request would cost 119.5 ms more than at engine-c, the dearest it uses."
    );
    assert!(
        sentences[1].starts_with("B sends 74.4 % to engine-b, the cheapest when idle"),
        "{}",
        sentences[1]
    );
}

#[test]
fn prices_of_pairs_agree_with_a_solve_that_forces_a_request_there() {
    for fleet in [talk(), mixed()] {
        for pair in explained(&fleet, &Filter::default()).pairs {
            let Some(resolved) = pair.resolved_ms else { continue };

            // The forced share is small, not infinitesimal: it climbs the curve a little. A gap of 1e-9 of 900,000 ms,
            // over 0.003 requests/s, blurs the difference by 0.3 ms.
            let difference = resolved - pair.prices.reduced_cost_ms;
            assert!((-0.5..2.0).contains(&difference), "{pair:?}");
        }
    }
}

#[test]
fn the_parts_of_a_price_add_up_to_the_cost_of_the_pair_in_use() {
    let explanation = explained(&mixed(), &Filter::default());

    for pair in explanation.pairs.iter().filter(|pair| pair.rps > 0.0) {
        let same = |other: &&penstock_controller::explain::PairExplained| {
            other.frontend == pair.frontend && other.class == pair.class && other.rps > 0.0
        };
        for other in explanation.pairs.iter().filter(same) {
            assert!((pair.prices.total_ms() - other.prices.total_ms()).abs() < 0.1, "{pair:?} {other:?}");
        }
    }
}

#[test]
fn a_further_replica_saves_what_a_fleet_with_that_replica_saves() {
    let fleet = mixed();
    let explanation = explained(&fleet, &Filter::default());
    let objective = |availability: &Availability| {
        let instance = instance(&fleet, availability);
        let plan = policy::named(PolicyName::Optimizer).plan(&instance).unwrap();
        evaluate(&instance.problem, &plan.assignment()).objective
    };
    let before = objective(&Availability::stated(&fleet));

    for group in &explanation.groups {
        let mut availability = Availability::stated(&fleet);
        availability.set_replicas(&group.id, group.replicas + 1);

        let saved = before - objective(&availability);

        assert!((saved - group.replica_saves_resolved).abs() < 1e-6 * before, "{group:?}");
        assert!(group.prices.replica_saves.unwrap() >= group.replica_saves_resolved, "{group:?}");
    }
}

#[test]
fn a_fleet_beyond_its_capacity_names_what_is_full_and_what_is_shed() {
    let mut fleet = talk();
    for demand in &mut fleet.demand {
        demand.rate = (2.0 * demand.rate.get()).try_into().unwrap();
    }

    let explanation = explained(&fleet, &Filter::default());

    let text = explanation.binding.join("\n");
    for group in ["engine-a", "engine-b", "engine-c"] {
        assert!(text.contains(&format!("{group} is full")), "{text}");
    }
    // 500 requests/s against a limit of 0.95 x 280.
    let shed: f64 = explanation.pairs.iter().map(|pair| pair.rps).sum();
    assert!((shed - 266.0).abs() < 1e-6);
    assert!(text.contains("no capacity is left for priority 1"), "{text}");
    assert!(explanation.groups.iter().all(|group| group.prices.capacity_price_ms > 1e6));
}

#[test]
fn a_drained_group_has_no_price_but_shows_what_a_replica_would_bring() {
    let fleet = talk();
    let mut availability = Availability::stated(&fleet);
    availability.drain_group(&"engine-a".into(), &fleet);
    let (mut offered, filter) = (Offered::stated(&fleet), Filter::default());
    offered.set("A".into(), "chat".into(), 40.0.try_into().unwrap());
    offered.set("B".into(), "chat".into(), 60.0.try_into().unwrap());
    let instance = Instance::build(Inputs {
        fleet: &fleet,
        offered: &offered,
        availability: &availability,
        move_from: None,
    });
    let plan = policy::named(PolicyName::Optimizer).plan(&instance).unwrap();

    let explanation = explain(&instance, &plan, &filter, &Reference::default()).unwrap();

    let group = &explanation.groups[0];
    assert_eq!(group.prices.replica_saves, None);
    assert!(group.replica_saves_resolved > 0.0);
    assert_eq!(explanation.pairs[0].sentence, "A sends nothing to engine-a: it has no ready replica.");
    assert!(!explanation.to_string().contains("inf"));
}

#[test]
fn only_a_plan_with_prices_can_be_explained() {
    let fleet = talk();
    let instance = instance(&fleet, &Availability::stated(&fleet));
    let plan = policy::named(PolicyName::Nearest).plan(&instance).unwrap();

    let error = explain(&instance, &plan, &Filter::default(), &Reference::default()).unwrap_err();

    assert!(matches!(error, ExplainError::NoPrices));
}
