//! `trace.dat` gives the same events as the text of the same recording.

use pageblock_recording::{Record, Recording, TraceDat, TsvReader};

use crate::shared;

#[test]
fn trace_dat_and_text_hold_the_same_events() {
    let Some(dir) = shared("host-6.18-compile") else { return };
    let recording = Recording::open(&dir).unwrap();
    let mut trace = TraceDat::open(&dir.join("trace.dat.xz"), recording.decoding).unwrap();
    compare(&mut trace, TsvReader::open(&recording.events_file, recording.decoding).unwrap());
    assert_eq!(trace.lost(), 0);
    assert!(trace.comms.values().any(|name| name == "kcompactd0"));
}

/// Events of the same nanosecond may come in another order.
fn compare(
    trace: impl Iterator<Item = Result<Record, pageblock_recording::Error>>,
    text: impl Iterator<Item = Result<Record, pageblock_recording::Error>>,
) {
    let mut count = 0;
    let mut text = text.map(Result::unwrap);
    for record in trace {
        let (record, expected) = (record.unwrap(), text.next().expect("as many events"));
        assert_eq!(record, expected, "event {count}");
        count += 1;
    }
    assert_eq!(text.next(), None);
    assert!(count > 900_000);
}

