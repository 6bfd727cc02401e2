//! From one state to another through bytes.
use super::{ApplyError, Part, Touched, Update};
use crate::{Canonical, Digests, EngineState, Snapshot, TableEntry, ToAgent, codec::Writer, digest, fixture};

fn delta(old: &Snapshot, new: &Snapshot) -> Update {
    Update::delta(old.epoch, new, &Digests::of(new), &Touched::between(old, new)).unwrap()
}

fn through_bytes(update: Update) -> Update {
    let bytes = ToAgent::Update(Box::new(update)).encode();
    match ToAgent::decode(&bytes).unwrap() {
        ToAgent::Update(update) => *update,
        ToAgent::SendState => panic!("another kind"),
    }
}

#[test]
fn a_keyframe_leads_from_nothing_to_the_state_with_and_without_the_computed_table() {
    let snapshot = fixture::snapshot();
    let digests = Digests::of(&snapshot);

    for canonical in [None, Some(fixture::canonical as Canonical)] {
        let update = through_bytes(Update::keyframe(&snapshot, &digests, canonical));

        assert_eq!(update.apply(None, fixture::canonical).unwrap(), snapshot);
    }
}

#[test]
fn a_delta_leads_from_its_base_to_the_state() {
    let old = fixture::snapshot();
    let mut new = fixture::moved(&old, 8, 5);
    new.failure_handling = true;
    new.engines.remove(1);
    new.engines.push(fixture::engine(9));
    new.engines[0].state = EngineState::Draining;
    let slots = new.tables[0].slots.iter().map(|engine| if *engine == 2 { 9 } else { *engine }).collect();
    new.tables[0] = TableEntry::from_slots("chat".into(), &[0, 5, 9], slots);
    new.services[0].port = 8080;

    let update = through_bytes(delta(&old, &new));

    assert_eq!(update.base(), Some(old.epoch));
    assert_eq!(update.apply(Some(&old), fixture::canonical).unwrap(), new);
}

#[test]
fn merged_steps_lead_over_skipped_epochs() {
    let first = fixture::snapshot();
    let second = fixture::moved(&first, 8, 5);
    let third = fixture::moved(&second, 20, 3);
    let mut touched = Touched::between(&first, &second);
    touched.merge(&Touched::between(&second, &third));

    let update = Update::delta(first.epoch, &third, &Digests::of(&third), &touched).unwrap();

    assert_eq!(through_bytes(update).apply(Some(&first), fixture::canonical).unwrap(), third);
}

#[test]
fn a_base_whose_table_was_damaged_is_found_by_the_hash() {
    let old = fixture::snapshot();
    let new = fixture::moved(&old, 8, 5);
    let mut damaged = old.clone();
    damaged.tables[0].slots.swap(0, 3);

    let error = delta(&old, &new).apply(Some(&damaged), fixture::canonical).unwrap_err();

    assert_eq!(error, ApplyError::DigestMismatch { part: Part::Table("chat".into()) });
}

#[test]
fn a_receiver_that_computes_another_table_finds_out_by_the_hash() {
    let snapshot = fixture::snapshot();
    let update = Update::keyframe(&snapshot, &Digests::of(&snapshot), Some(fixture::canonical));

    let error = update.apply(None, |engines, slots| {
        let mut positions = fixture::canonical(engines, slots)?;
        positions.rotate_left(1);
        Some(positions)
    });

    assert!(matches!(error, Err(ApplyError::DigestMismatch { .. })));
}

#[test]
fn a_flipped_bit_at_any_offset_of_a_message_is_refused() {
    let old = fixture::snapshot();
    let new = fixture::moved(&old, 8, 5);
    let messages = [
        ToAgent::Update(Box::new(delta(&old, &new))).encode(),
        ToAgent::Update(Box::new(Update::keyframe(&new, &Digests::of(&new), None))).encode(),
        ToAgent::SendState.encode(),
    ];

    for bytes in messages {
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);

            assert!(ToAgent::decode(&damaged).is_err(), "bit {bit}");
        }
    }
}

#[test]
fn a_flipped_bit_under_a_recomputed_checksum_never_yields_another_state() {
    let old = fixture::snapshot();
    let new = fixture::moved(&old, 8, 5);
    let bytes = ToAgent::Update(Box::new(delta(&old, &new))).encode();
    let content = &bytes[..bytes.len() - 8];

    for bit in 8..content.len() * 8 {
        let mut writer = Writer::new();
        writer.raw(content);
        let mut damaged = writer.into_bytes();
        damaged[bit / 8] ^= 1 << (bit % 8);
        damaged.extend(digest::of_bytes(&damaged).to_le_bytes());

        let Ok(ToAgent::Update(update)) = ToAgent::decode(&damaged) else { continue };
        let Ok(mut state) = update.apply(Some(&old), fixture::canonical) else { continue };
        // Epoch and failure mark are covered by the checksum alone.
        (state.epoch, state.failure_handling) = (new.epoch, new.failure_handling);
        assert_eq!(state, new, "bit {bit}");
    }
}
