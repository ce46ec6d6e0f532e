//! Printed traces of real kernels.

use std::collections::BTreeMap;

use pageblock::mobility::Numbering;
use pageblock_recording::{Decoding, Events, What};

use crate::shared;

const DECODING: Decoding = Decoding { numbering: Numbering::Modern, cma: true };

#[track_caller]
fn check(sample: &str, expect: &[(&str, u64)]) {
    let Some(path) = shared("samples").map(|dir| dir.join(sample)) else { return };
    let mut counts = BTreeMap::new();
    let mut events = Events::open(&path, DECODING).unwrap();
    for record in events.by_ref() {
        let kind = match record.unwrap().what {
            What::Alloc { .. } => "A",
            What::Free { .. } => "F",
            What::FreeBatched { .. } => "B",
            What::ZoneLocked { .. } => "Z",
            What::Drain { .. } => "D",
            What::Extfrag(_) => "X",
            _ => "E",
        };
        *counts.entry(kind).or_insert(0u64) += 1;
    }
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), expect, "{sample}");
    assert_eq!(events.lost(), 0);
}

#[test]
fn samples_are_read_completely() {
    check("ftrace-trace.txt.xz", &[("A", 8411), ("B", 4398), ("F", 4470), ("Z", 2709)]);
    check("perf-script.txt.xz", &[("A", 3757), ("B", 90), ("F", 108), ("Z", 441)]);
    check(
        "trace-cmd-report.txt.xz",
        &[("A", 8500), ("B", 519), ("D", 541), ("E", 29), ("F", 3111), ("X", 5), ("Z", 7296)],
    );
}

/// Each tool's report of lost events is counted by CPU.
#[test]
fn lost_events_are_counted_by_cpu() {
    let check = |text: &str, cpus: &[(Option<u16>, u64)], unplaced: u64| {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let mut events = Events::open(file.path(), DECODING).unwrap();
        events.by_ref().for_each(|event| drop(event.unwrap()));
        assert_eq!(events.lost_by_cpu(), cpus.iter().copied().collect(), "{text}");
        assert_eq!(events.lost_unplaced().values().sum::<u64>(), unplaced, "{text}");
    };
    let event = " sh-7 [000] d.... 1.000002: mm_page_free: page=x pfn=0x20 order=0\n";
    let lost = "CPU:1 [LOST 23 EVENTS]\n";
    check(&format!("# tracer: nop\n{event}{lost}{event}{lost}"), &[(Some(1), 46)], 0);
    let heading = "# entries-in-buffer/entries-written: 1/30   #P:2\n";
    check(&format!("{heading}{event}"), &[], 29);
    check(&format!("{heading}{event}{lost}"), &[(Some(1), 23)], 6);
    check(&format!("CPU:0 [EVENTS DROPPED]\n{event}"), &[(Some(0), 1)], 0);
    check(&format!("sh 7 [001] 1.000001: PERF_RECORD_LOST lost 5\n{event}"), &[(Some(1), 5)], 0);
}
