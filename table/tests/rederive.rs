//! A whole site is gone and no controller answers: every slot still gets a living engine.
#![expect(clippy::unwrap_used, reason = "tests")]
use penstock_table::{
    Affinity, Candidate, Candidates, CandidatesError, DeadBand, EngineKey, RederiveError, SlotTable,
    Survivor, TableSize, WEIGHT_ONE, apportion, canonical, fallbacks, quotas, rederive,
};

const SITES: u16 = 5;
const ENGINES_A_SITE: u16 = 4;
/// Round trips from the frontend's site to each site, in microseconds.
const RTT_US: [u32; 5] = [300, 8_000, 31_000, 95_000, 170_000];
const SLOTS: u64 = 1 << 16;

/// How the classes spread their weight over the sites, in percent: at home with a little elsewhere, at home only, at
/// one far site, over two, over all.
const CLASSES: [[u64; 5]; 5] =
    [[96, 4, 0, 0, 0], [100, 0, 0, 0, 0], [0, 0, 0, 100, 0], [0, 70, 30, 0, 0], [20, 20, 20, 20, 20]];

struct Fleet {
    engines: Vec<Survivor>,
    candidates: Candidates,
    table: SlotTable,
    fallbacks: Vec<u16>,
}

fn site_of(engine: u16) -> usize {
    usize::from(engine / ENGINES_A_SITE)
}

/// Each engine could take over another `spare` percent of the class's traffic.
fn fleet(class: [u64; 5], spare: u64) -> Fleet {
    let keys: Vec<EngineKey> =
        (0..SITES * ENGINES_A_SITE).map(|engine| EngineKey::of(&format!("engine-{engine}"))).collect();
    let parts: Vec<(EngineKey, u64)> =
        (0..).zip(&keys).map(|(engine, &key)| (key, class[site_of(engine)])).collect();
    let weights = apportion(&parts).unwrap();
    let engines: Vec<Survivor> = (0..)
        .zip(keys.into_iter().zip(weights))
        .map(|(engine, (key, weight))| Survivor {
            engine,
            key,
            weight,
            rtt_us: RTT_US[site_of(engine)],
            spare: WEIGHT_ONE * spare / 100,
        })
        .collect();
    let list: Vec<Candidate> =
        engines.iter().map(|e| Candidate { engine: e.engine, key: e.key, weight: e.weight }).collect();
    let candidates = Candidates::new(&list).unwrap();
    let affinity = Affinity::new(TableSize::DEFAULT);
    let quotas = quotas(&candidates, &vec![0; list.len()], affinity.size(), DeadBand::OFF).unwrap();
    let table = canonical(&affinity, &candidates, &quotas).unwrap();
    let fallbacks = fallbacks(&table, &candidates);
    Fleet { engines, candidates, table, fallbacks }
}

impl Fleet {
    fn living(&self, lives: impl Fn(u16) -> bool) -> Vec<Survivor> {
        self.engines.iter().copied().filter(|engine| lives(engine.engine)).collect()
    }

    /// Makes the reassignments effective and returns them.
    fn fail(&mut self, lives: impl Fn(u16) -> bool) -> Vec<u32> {
        let reassigned = rederive(&self.table, &self.fallbacks, &self.living(lives)).unwrap();
        let mut slots = self.table.slots().to_vec();
        for change in &reassigned {
            slots[change.slot as usize] = change.engine;
            self.fallbacks[change.slot as usize] = change.fallback;
        }
        self.table = SlotTable::new(slots).unwrap();
        reassigned.into_iter().map(|change| change.slot).collect()
    }

    /// Who serves each slot while only the engines that live take part: the engine, or its fallback.
    fn served(&self, lives: impl Fn(u16) -> bool) -> Vec<Option<u16>> {
        let pairs = self.table.slots().iter().zip(&self.fallbacks);
        pairs
            .map(|(&engine, &fallback)| [engine, fallback].into_iter().find(|&engine| lives(engine)))
            .collect()
    }
}

#[test]
fn with_any_site_of_five_gone_every_slot_of_every_class_is_served() {
    for class in CLASSES {
        for gone in 0..usize::from(SITES) {
            let mut fleet = fleet(class, 10);
            let lives = |engine| site_of(engine) != gone;
            let before = fleet.served(lives);

            let reassigned = fleet.fail(lives);

            assert!(fleet.served(lives).iter().all(Option::is_some), "{class:?} without site {gone}");
            let orphans: Vec<u32> =
                (0..).zip(&before).filter(|(_, by)| by.is_none()).map(|(slot, _)| slot).collect();
            assert_eq!(reassigned, orphans, "only slots that nobody served are given away");
        }
    }
}

#[test]
fn the_nearest_sites_fill_first_up_to_their_spare_capacity() {
    // All the weight is at home: 100 % of the traffic for 4 engines of 10 % at each of the other sites.
    let mut fleet = fleet(CLASSES[1], 10);
    let lives = |engine| site_of(engine) != 0;

    fleet.fail(lives);

    let mut by_site = [0_u64; 5];
    for engine in fleet.served(lives) {
        by_site[site_of(engine.unwrap())] += 1;
    }
    // Each engine takes whole slots only: at most 4 below 40 % a site.
    assert!((SLOTS * 4 / 10 - 4..=SLOTS * 4 / 10).contains(&by_site[1]), "{by_site:?}");
    assert!((SLOTS * 4 / 10 - 4..=SLOTS * 4 / 10).contains(&by_site[2]), "{by_site:?}");
    assert_eq!(by_site[3], SLOTS - by_site[1] - by_site[2]);
    assert_eq!(by_site[4], 0);
}

#[test]
fn engines_of_one_site_share_what_the_site_takes() {
    let mut fleet = fleet(CLASSES[1], 20);
    let lives = |engine| site_of(engine) != 0;

    fleet.fail(lives);

    // 80 % at the nearest site, the remaining 20 % at the next one, evenly over four engines each.
    let counts = fleet.candidates.counts(&fleet.table);
    for (candidate, count) in fleet.candidates.as_slice().iter().zip(counts) {
        let percent = [0, 20, 5, 0, 0][site_of(candidate.engine)];
        assert!(u64::from(count).abs_diff(SLOTS * percent / 100) <= 4, "{candidate:?}: {count}");
    }
}

#[test]
fn beyond_all_spare_capacity_everybody_takes_part() {
    let mut fleet = fleet(CLASSES[1], 0);
    let lives = |engine| site_of(engine) != 0;

    fleet.fail(lives);

    let counts = fleet.candidates.counts(&fleet.table);
    for (candidate, count) in fleet.candidates.as_slice().iter().zip(counts) {
        let wanted = if lives(candidate.engine) { SLOTS / 16 } else { 0 };
        assert!(u64::from(count).abs_diff(wanted) <= 1, "{candidate:?}: {count}");
    }
}

#[test]
fn what_diverts_to_an_engine_uses_up_its_spare_capacity() {
    // Engine 0 fails; slot 0 diverts to engine 1, slots 1 to 3 have no living fallback. Engine 1 has room for two.
    let table = SlotTable::new(vec![0, 0, 0, 0]).unwrap();
    let survivor = |engine: u16, rtt_us, spare| Survivor {
        engine,
        key: EngineKey::of(&engine.to_string()),
        weight: 0,
        rtt_us,
        spare,
    };
    let near = survivor(1, 1_000, WEIGHT_ONE / 2);
    let far = survivor(2, 50_000, WEIGHT_ONE);

    let reassigned = rederive(&table, &[1, 9, 9, 9], &[near, far]).unwrap();

    assert_eq!(reassigned.iter().map(|change| change.slot).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(reassigned.iter().map(|change| change.engine).collect::<Vec<_>>(), [1, 2, 2]);
    assert_eq!(reassigned.iter().map(|change| change.fallback).collect::<Vec<_>>(), [2, 1, 1]);
}

#[test]
fn a_second_failure_moves_only_what_it_orphans() {
    let mut fleet = fleet(CLASSES[1], 10);
    fleet.fail(|engine| site_of(engine) != 0);
    let after_first = fleet.table.clone();
    let lives = |engine| site_of(engine) > 1;

    fleet.fail(lives);

    assert!(fleet.served(lives).iter().all(Option::is_some));
    for (old, new) in after_first.slots().iter().zip(fleet.table.slots()) {
        assert!(old == new || !lives(*old), "a slot of the living engine {old} moved");
    }
}

#[test]
fn a_lone_survivor_takes_everything() {
    let mut fleet = fleet(CLASSES[0], 1);

    fleet.fail(|engine| engine == 19);

    assert!(fleet.served(|engine| engine == 19).iter().all(Option::is_some));
}

#[test]
fn nobody_left_and_ambiguous_survivors_are_errors() {
    let table = SlotTable::new(vec![0, 0]).unwrap();
    let survivor = Survivor { engine: 1, key: EngineKey(7), weight: 0, rtt_us: 0, spare: 0 };
    let twin = Survivor { engine: 2, ..survivor };

    assert_eq!(rederive(&table, &[0, 0], &[]), Err(RederiveError::NoSurvivor));
    let shared = CandidatesError::SharedKey { engines: [1, 2] };
    assert_eq!(rederive(&table, &[0, 0], &[survivor, twin]), Err(RederiveError::Survivors(shared)));
}
