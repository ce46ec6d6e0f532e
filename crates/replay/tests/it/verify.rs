//! Each recording of an exact machine, verified. Skipped where the recordings are not there.

use std::path::Path;

use pageblock_measure::Verification;
use pageblock_recording::Recording;
use pageblock_replay::machine::recorded_preset;
use pageblock_replay::{VerifyOptions, verify};

/// The start of each recording: enough for every kind of decision, and quick.
const LIMIT: u64 = 400_000;

fn run(name: &str, limit: Option<u64>) -> Option<Verification> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let dir = root.join("shared/recordings").join(name);
    if !dir.is_dir() {
        println!("skipped: {} is not there", dir.display());
        return None;
    }
    let recording = Recording::open(&dir).unwrap();
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("verify");
    std::fs::create_dir_all(&cache).unwrap();
    let columnar = recording.columnar(&cache, &mut |_, _| {}).unwrap();
    let preset = recorded_preset(&recording);
    let options = VerifyOptions { mismatches: 5, limit };
    Some(
        verify(&recording, &columnar, &preset.policy, preset.name, options, &mut |_, _| {})
            .unwrap(),
    )
}

/// Every kind with at least 100 cases has at least these shares, in hundredths of a percent.
#[track_caller]
fn check(name: &str, limit: Option<u64>, shape: u64, exact: u64) {
    let Some(result) = run(name, limit) else { return };
    for (kind, result) in result.kinds.iter().filter(|(_, r)| r.cases >= 100) {
        assert!(result.shape_permyriad() >= Some(shape), "{kind}: {result:?}");
        assert!(result.exact_permyriad() >= Some(exact), "{kind}: {result:?}");
    }
    assert!(limit.is_some() || result.end_state_equal == Some(true), "{:?}", result.notes);
}

#[test]
fn qemu_6_1_ends_on_the_recorded_state() {
    check("qemu-6.1-osc640-s31", None, 9800, 9650);
}

#[test]
fn the_start_of_qemu_6_12_is_followed() {
    check("qemu-6.12-osc640-s31", Some(LIMIT), 9990, 9980);
}

#[test]
fn the_start_of_qemu_7_2_is_followed() {
    check("qemu-7.2-osc640-s31", Some(140_000), 9980, 9980);
}

#[test]
fn a_host_is_followed_without_a_panic() {
    let _ = run("host-6.18-fiothp", Some(LIMIT));
}
