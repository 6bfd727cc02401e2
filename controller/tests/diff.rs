//! What changed between two snapshots, and which input changed it.
use std::path::PathBuf;

use penstock_controller::assignment::published::Published;
use penstock_controller::capacity::availability::Availability;
use penstock_controller::demand::Offered;
use penstock_controller::diff::cause::{CauseError, Input, causes};
use penstock_controller::diff::{Changes, EngineChange, load};
use penstock_controller::fleet::{self, settings::PolicyName};
use penstock_controller::policy;
use penstock_controller::record::entry::{Entry, Outcome, TickInputs};
use penstock_controller::record::replay::replay;
use penstock_controller::record::ring::Recorded;
use penstock_wire::{Candidate, EngineEntry, EngineState, Epoch, Snapshot, TableEntry};

const TALK: &str = include_str!("../../examples/talk.toml");

fn engine(index: u16, id: &str, group: &str) -> EngineEntry {
    EngineEntry {
        index,
        id: id.into(),
        group: group.into(),
        site: "region-1".into(),
        address: ([10, 0, 0, u8::try_from(index).expect("a small index")], 8000).into(),
        address6: None,
        forwarding: None,
        rtt_us: 500,
        state: EngineState::Serving,
    }
}

/// Two engines of group `g`, one of group `h`, and a table of eight slots.
fn snapshot(epoch: u64, slots: [u16; 8]) -> Snapshot {
    let weight = |engine| (slots.iter().filter(|slot| **slot == engine).count() as u64) << 29;
    let candidates = [1, 2, 3].map(|engine| Candidate { engine, weight: weight(engine) });
    Snapshot {
        epoch: Epoch(epoch),
        frontend: "A".into(),
        secret: [7; 16],
        nat_prefix: None,
        failure_handling: false,
        engines: vec![engine(1, "g-1", "g"), engine(2, "g-2", "g"), engine(3, "h-1", "h")],
        services: vec![],
        tables: vec![TableEntry {
            class: "chat".into(),
            candidates: candidates.to_vec(),
            slots: slots.to_vec(),
        }],
    }
}

#[test]
fn weights_by_group_slots_and_engines_are_compared() {
    let old = snapshot(5, [1, 1, 1, 2, 2, 2, 3, 3]);
    // One slot moves within group g, and one from g to h.
    let mut new = snapshot(6, [1, 1, 2, 2, 2, 3, 3, 3]);
    new.engines[1].state = EngineState::Draining;
    new.engines[2].rtt_us = 900;

    let changes = Changes::between(&old, &new);

    assert_eq!((changes.from, changes.to, changes.secret_changed), (Epoch(5), Epoch(6), false));
    let table = &changes.tables[0];
    assert_eq!((table.moved_slots, table.slots, table.moved_share), (2, 8, 0.125));
    assert_eq!(table.weights, [("g".into(), 0.75, 0.625), ("h".into(), 0.25, 0.375)]);
    let state =
        EngineChange::State { engine: "g-2".into(), from: EngineState::Serving, to: EngineState::Draining };
    assert_eq!(
        changes.engines,
        [state, EngineChange::Rtt { engine: "h-1".into(), from_us: 500, to_us: 900 }]
    );
}

#[test]
fn a_state_has_no_changes_to_itself() {
    let state = snapshot(5, [1, 1, 1, 2, 2, 2, 3, 3]);

    assert!(Changes::between(&state, &state).is_empty());
}

#[test]
fn snapshots_give_back_the_split_that_they_were_made_from() {
    let split = Published::of_snapshots([&snapshot(5, [1, 1, 1, 2, 2, 2, 3, 3])]);

    let row = split.row(&"A".into(), &"chat".into()).unwrap();
    assert_eq!((row[&"g".into()], row[&"h".into()]), (0.75, 0.25));
}

#[test]
fn a_file_of_one_snapshot_and_a_publication_of_several_are_both_read() {
    let folder = tempfile::tempdir().unwrap();
    let snapshots = [snapshot(5, [1, 1, 1, 2, 2, 2, 3, 3]), snapshot(6, [1, 1, 2, 2, 2, 3, 3, 3])];
    let (one, several) = (folder.path().join("snapshot"), folder.path().join("5.snapshots"));
    std::fs::write(&one, snapshots[0].to_file()).unwrap();
    let mut bytes = Vec::new();
    for snapshot in &snapshots {
        let file = snapshot.to_file();
        bytes.extend((file.len() as u64).to_le_bytes());
        bytes.extend(file);
    }
    std::fs::write(&several, &bytes).unwrap();
    std::fs::write(folder.path().join("torn"), &bytes[..bytes.len() - 1]).unwrap();

    assert_eq!(load::load(&one).unwrap(), snapshots[..1]);
    assert_eq!(load::load(&several).unwrap(), snapshots);
    assert!(load::load(&folder.path().join("torn")).is_err());
}

fn entry(epoch: u64, inputs: TickInputs, fleet_text: &str) -> Entry {
    let fleet = fleet::parse(fleet_text).expect("the example has no faults");
    let instance = inputs.instance(&fleet);
    let plan = policy::named(PolicyName::Optimizer).plan(&instance).expect("a small fleet has an optimum");
    Entry {
        unix_ms: epoch,
        epoch: Some(Epoch(epoch)),
        policy: PolicyName::Optimizer,
        inputs,
        outcome: Outcome::of(&plan),
    }
}

fn inputs() -> TickInputs {
    let fleet = fleet::parse(TALK).expect("the example has no faults");
    TickInputs::of(&Offered::stated(&fleet), &Availability::stated(&fleet), None)
}

fn recorded(entries: Vec<Entry>, fleet_text: &str) -> Recorded {
    Recorded { path: PathBuf::new(), fleet_text: fleet_text.to_owned(), entries, is_torn: false }
}

#[test]
fn the_input_that_moves_most_by_itself_comes_first() {
    let mut later = inputs();
    // Two thirds of region 2's capacity go, and demand of C trembles.
    later.replicas.iter_mut().for_each(|(group, count)| {
        if group.as_str() == "engine-b" {
            *count = 2;
        }
    });
    later.offered.iter_mut().for_each(|(frontend, _, rate)| {
        if frontend.as_str() == "C" {
            *rate = 40.5;
        }
    });
    let segments = [recorded(vec![entry(5, inputs(), TALK), entry(6, later, TALK)], TALK)];

    let causes = causes(&segments, Epoch(5), Epoch(6)).unwrap();

    assert_eq!(causes[0].input, Input::Replicas { group: "engine-b".into(), from: 5, to: 2 });
    assert!(matches!(&causes[1].input, Input::Demand { frontend, .. } if frontend.as_str() == "C"));
    assert_eq!(causes.len(), 2);
    // B sent 74 % of its 48 % of all traffic to engine-b, which has room for 38 of its 120 requests/s now. Some of the
    // rest is shed, so more than half of what B sends may still go there, but no more.
    assert!(causes[0].moves_alone > 0.48 * (0.74 - 0.5), "{causes:?}");
    assert!(causes[1].moves_alone < 0.01, "{causes:?}");
}

#[test]
fn a_changed_fleet_file_is_a_cause_with_its_parts() {
    let nearer = TALK.replace("region-1.region-2 = 70.0", "region-1.region-2 = 7.0");
    let segments = [
        recorded(vec![entry(5, inputs(), TALK)], TALK),
        recorded(vec![entry(6, inputs(), &nearer)], &nearer),
    ];

    let causes = causes(&segments, Epoch(5), Epoch(6)).unwrap();

    let parts = vec!["rtt_ms.region-1.region-2 70 to 7".to_owned()];
    assert_eq!(causes[0].input, Input::File { parts });
    assert!(causes[0].moves_alone > 0.0);
}

#[test]
fn an_epoch_that_is_not_recorded_is_named() {
    let segments = [recorded(vec![entry(5, inputs(), TALK)], TALK)];

    let error = causes(&segments, Epoch(5), Epoch(9)).unwrap_err();

    assert!(matches!(error, CauseError::NotRecorded { epoch: Epoch(9) }));
}

#[test]
fn a_replay_finds_the_solve_whose_record_was_changed() {
    let mut changed = entry(6, inputs(), TALK);
    let weight = &mut changed.outcome.weights[0].1;
    *weight = f64::from_bits(weight.to_bits() + 1);
    let segment = recorded(vec![entry(5, inputs(), TALK), changed], TALK);

    let replayed = replay(&segment).unwrap();

    assert_eq!(replayed.identical, 1);
    assert_eq!(replayed.differences.len(), 1);
    assert_eq!(replayed.differences[0].unix_ms, 6);
    assert!(replayed.differences[0].largest.is_some());
}
