//! A recording that lacks a kind of event is followed without a panic, also in builds with assertions.

use std::path::Path;

use pageblock_recording::{Recording, What, write_line};
use pageblock_replay::machine::recorded_preset;
use pageblock_replay::{VerifyOptions, verify};

/// Events of the shipped recording.
const EVENTS: usize = 400_000;

#[test]
fn a_recording_without_drains_is_followed_without_a_panic() {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings/debian-6.12-640m");
    let whole = Recording::open(&shipped).unwrap();
    let mut lines = String::new();
    for record in whole.events().unwrap().take(EVENTS) {
        let record = record.unwrap();
        if !matches!(record.what, What::Drain { .. }) {
            write_line(&mut lines, &record, whole.decoding);
        }
    }
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("without-drains");
    let _ = std::fs::remove_dir_all(&copy);
    std::fs::create_dir_all(copy.join("start")).unwrap();
    for file in ["static.tar.xz", "comms.json", "start/snapshot.txt.xz", "start/pagetypeinfo"] {
        std::fs::copy(shipped.join(file), copy.join(file)).unwrap();
    }
    std::fs::write(copy.join("events.tsv"), lines).unwrap();
    let recording = Recording::open(&copy).unwrap();
    let columnar = recording.columnar(&copy, &mut |_, _| {}).unwrap();
    let preset = recorded_preset(&recording);
    let options = VerifyOptions::default();
    let result =
        verify(&recording, &columnar, &preset.policy, preset.name, options, &mut |_, _| {})
            .unwrap();
    assert!(!result.gaps.is_empty());
}
