//! `trace.dat` has the same events as the text of the same recording.

use std::io::Cursor;
use std::path::Path;

use pageblock::frame::Pfn;
use pageblock::mobility::{Migratetype, Numbering};
use pageblock::request::Gfp;
use pageblock_recording::{Capture, Decoding, Error, Record, Recording, TraceDat, TsvReader, What};
use proptest::prelude::*;

use crate::made::{Form, trace_dat};
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

fn compare(
    trace: impl Iterator<Item = Result<Record, Error>>,
    text: impl Iterator<Item = Result<Record, Error>>,
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

const DECODING: Decoding = Decoding { numbering: Numbering::Modern, cma: false };

const FORMS: [Form; 6] = [
    Form { version: 6, big_endian: false, zstd: false },
    Form { version: 6, big_endian: true, zstd: false },
    Form { version: 7, big_endian: false, zstd: false },
    Form { version: 7, big_endian: true, zstd: false },
    Form { version: 7, big_endian: false, zstd: true },
    Form { version: 7, big_endian: true, zstd: true },
];

fn open(bytes: Vec<u8>) -> Result<TraceDat, Error> {
    TraceDat::from_reader(Cursor::new(bytes), Path::new("made.dat"), DECODING)
}

#[test]
fn both_versions_and_byte_orders_are_read() {
    for form in FORMS {
        let mut trace = open(trace_dat(form, 100)).unwrap();
        assert_eq!(trace.kernel.as_ref().unwrap().to_string(), "6.1.2", "{form:?}");
        assert_eq!(trace.comms[&7], "worker");
        for (n, record) in trace.by_ref().enumerate() {
            let n = n as u64;
            let what = if n.is_multiple_of(2) {
                What::Free { pfn: Pfn(n), order: 3 }
            } else {
                let gfp = Gfp::GFP_KERNEL | Gfp::ZERO;
                let pfn = (n != 1).then_some(Pfn(n));
                What::Alloc { pfn, order: 0, mt: Migratetype::Movable, gfp }
            };
            let expected = Record { t_us: n, cpu: (n % 2) as u16, pid: 7, what };
            assert_eq!(record.unwrap(), expected, "{form:?}");
        }
        assert_eq!(trace.lost(), 7);
        assert_eq!(trace.lost_by_cpu(), [(Some(1), 7)].into());
        let counted = [(Some(1), 2 + 3)].into();
        assert_eq!(trace.lost_unplaced(), counted, "beyond the gap, as the counters say: {form:?}");
    }
}

#[test]
fn a_truncated_trace_is_an_error_with_a_position() {
    for form in FORMS {
        let whole = trace_dat(form, 40);
        for len in 0..whole.len() {
            let mut cut = whole.clone();
            cut.truncate(len);
            let error = open(cut).and_then(Iterator::collect::<Result<Vec<_>, _>>);
            let Err(error) = error else {
                panic!("{form:?} cut at {len} is read without an error")
            };
            let message = error.to_string();
            assert!(message.contains("byte ") && !message.contains('\n'), "{message}");
        }
    }
}

proptest! {
    #[test]
    fn a_damaged_trace_never_panics(
        form in 0..FORMS.len(),
        flips in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = trace_dat(FORMS[form], 40);
        for (at, value) in flips {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok(trace) = open(bytes) {
            trace.for_each(drop);
        }
    }
}
