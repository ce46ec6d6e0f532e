//! An excerpt is a recording with the same start state and the same first events.

use pageblock_recording::Recording;

use crate::{TempDir, shared};

#[test]
fn an_excerpt_starts_at_the_snapshot() {
    let Some(dir) = shared("qemu-7.2-osc640-s31") else { return };
    let temp = TempDir::new("excerpt");
    let whole = Recording::open(&dir).unwrap();
    let target = temp.0.join("part");
    assert_eq!(whole.write_excerpt(&target, 20_000).unwrap(), 20_000);
    let part = Recording::open(&target).unwrap();
    assert_eq!((&part.kernel, part.decoding), (&whole.kernel, whole.decoding));
    assert_eq!(part.start.free, whole.start.free);
    assert_eq!(part.start.pcp, whole.start.pcp);
    assert_eq!(part.settings, whole.settings);
    let from = |recording: &Recording| {
        let windows = recording.windows().unwrap();
        let events = recording.events().unwrap().skip(windows.start_event() as usize);
        events.map(Result::unwrap).filter(|r| r.what.marker() != Some("S2")).take(20_000)
    };
    for (part, whole) in from(&part).zip(from(&whole)) {
        assert_eq!(part, whole);
    }
    assert_eq!(from(&part).count(), 20_000);
    assert!(part.write_excerpt(&target, 1).is_err(), "an existing folder is not changed");
    let left: Vec<_> =
        std::fs::read_dir(&temp.0).unwrap().map(|f| f.unwrap().file_name()).collect();
    assert_eq!(left, ["part"], "no unfinished file is left");
}

#[test]
fn a_changed_byte_in_an_excerpt_is_detected() {
    let shipped =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings/debian-6.12-640m");
    let temp = TempDir::new("excerpt-damaged");
    let target = temp.0.join("part");
    let whole = Recording::open(&shipped).unwrap();
    whole.write_excerpt(&target, 20_000).unwrap();
    let events = target.join("events.tsv.zst");
    let mut bytes = std::fs::read(&events).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&events, bytes).unwrap();
    let part = Recording::open(&target).unwrap();
    assert!(part.events().is_err() || part.events().unwrap().any(|event| event.is_err()));
}
