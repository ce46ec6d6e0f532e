//! Free replay of the recording that is part of the project.

use std::path::PathBuf;

use pageblock::policy::Policy;
use pageblock::preset::PRESETS;
use pageblock_measure::Run;
use pageblock_measure::compare::calibrate::calibrate;
use pageblock_recording::{Columnar, Recording};
use pageblock_replay::demand::Demands;
use pageblock_replay::machine::{Machine, recorded_preset};
use pageblock_replay::open_loop::{self, Replay};

pub(crate) struct Shipped {
    pub(crate) recording: Recording,
    pub(crate) columnar: Columnar,
    pub(crate) demands: Demands,
}

pub(crate) fn shipped(test: &str) -> Shipped {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../recordings");
    let path = folder.join("debian-6.12-640m").canonicalize().expect("it is in the repository");
    let recording = Recording::open(&path).expect("it is whole");
    let cache = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&cache).expect("cargo gives a folder to write to");
    let columnar = recording.columnar(&cache, &mut |_, _| {}).expect("it can be converted");
    let demands =
        open_loop::demands(&recording, &columnar, &mut |_, _| {}).expect("it has demands");
    Shipped { recording, columnar, demands }
}

fn run(shipped: &Shipped, policy: &str) -> Run {
    drawn(shipped, policy, 0)
}

fn drawn(shipped: &Shipped, policy: &str, seed: u64) -> Run {
    let Shipped { recording, demands, .. } = shipped;
    let parsed = Policy::parse(policy).expect("it is a policy");
    let replayed = open_loop::replay(recording, demands, (policy, &parsed), seed, &mut |_, _| true);
    replayed.expect("it can be replayed").expect("it was not stopped").run
}

#[test]
fn the_same_demands_and_policy_give_the_same_run() {
    let shipped = shipped("same");
    let (first, again) = (run(&shipped, "linux-6.9"), run(&shipped, "linux-6.9"));
    assert_eq!(first, again);
    assert_ne!(first.event_hash, run(&shipped, "linux-6.10").event_hash);
}

/// A seed begins with the same free blocks in another order: the same requests, other decisions.
#[test]
fn seeds_are_draws_of_the_same_demand() {
    let shipped = shipped("seeds");
    let draws = [0, 1, 2].map(|seed| drawn(&shipped, "debian-6.12", seed));
    assert_eq!(draws[1], drawn(&shipped, "debian-6.12", 1));
    assert_eq!(draws[1].seed, 1);
    let requests = draws.each_ref().map(|run| run.counters.get("mm_page_alloc"));
    assert!(requests.iter().all(|of| *of == requests[0]), "{requests:?}");
    assert_ne!(draws[0].event_hash, draws[1].event_hash);
    assert_ne!(draws[1].event_hash, draws[2].event_hash);
}

#[test]
fn demands_are_kept_and_found_again() {
    let shipped = shipped("kept");
    let path = shipped.columnar.cache.with_extension("demands.pbrec");
    let start = || shipped.demands.start.clone();
    let kept = Demands::open(&path, &shipped.columnar, start()).expect("they were written");
    assert_eq!(kept.recorded, shipped.demands.recorded);
    assert_eq!((kept.count, kept.events), (shipped.demands.count, shipped.demands.events));
    let other = Columnar { events: shipped.columnar.events + 1, ..shipped.columnar.clone() };
    assert!(Demands::open(&path, &other, start()).is_none(), "they are of another recording");
}

/// A what-if means something only if the recorded policy comes near to what its kernel did. Nearly all
/// fragmentation events here lie in one shortage, where a few hundred pages decide.
#[test]
fn the_recorded_policy_comes_near_to_the_recording() {
    let shipped = shipped("near");
    let run = run(&shipped, "debian-6.12");
    let recorded = shipped.demands.recorded.extfrag.as_ref().unwrap();
    let calibration = calibrate(recorded, &[&run]).unwrap();
    let (recorded, replayed) = calibration.total();
    assert_eq!(recorded, 1204);
    assert!((recorded * 3 / 4..recorded * 4 / 3).contains(&replayed), "{replayed} events");
    assert!(calibration.same_frame_permyriad() > Some(9000), "{calibration:?}");
}

/// Under every policy each recorded request is served or counted as failed, each free finds its
/// block, and the allocator's state is sound at the end.
#[test]
fn every_policy_can_serve_a_recording() {
    let shipped = shipped("every");
    let machine = Machine::of(&shipped.recording).expect("it has a machine");
    let recorded = recorded_preset(&shipped.recording).policy;
    let requests = run(&shipped, "debian-6.12").counters.get("mm_page_alloc");
    let mut seen = Vec::new();
    for preset in PRESETS {
        // Presets with the same switches do the same.
        if seen.contains(&preset.policy) {
            continue;
        }
        seen.push(preset.policy);
        let name = preset.name;
        let mut memory = machine.table_memory(preset.policy).expect("it fits");
        let start = &shipped.recording.start;
        let mut allocator =
            open_loop::start(&machine, &recorded, &preset.policy, (start, 0), &mut memory)
                .expect(name);
        allocator.check().unwrap_or_else(|wrong| panic!("{name} at the start: {wrong}"));
        let mut replay = Replay::new(&mut allocator);
        let mut chunks = shipped.demands.chunks().expect("they were written");
        while let Some(chunk) = chunks.next_chunk().expect("they are whole") {
            for demand in chunk {
                replay.push(*demand);
            }
        }
        let counters = replay.finish(name, "", "").run.counters;
        allocator.check().unwrap_or_else(|wrong| panic!("{name} at the end: {wrong}"));
        assert_eq!(counters.get("mm_page_alloc"), requests, "{name}");
        assert_eq!(counters.get("free_unknown"), Some(0), "{name}");
    }
}
