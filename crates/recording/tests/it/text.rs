//! Printed traces of real kernels.

use std::collections::BTreeMap;

use pageblock::mobility::Numbering;
use pageblock_recording::{Decoding, Events, What};

use crate::shared;

#[track_caller]
fn check(sample: &str, expect: &[(&str, u64)]) {
    let Some(path) = shared("samples").map(|dir| dir.join(sample)) else { return };
    let decoding = Decoding { numbering: Numbering::Modern, cma: true };
    let mut counts = BTreeMap::new();
    let mut events = Events::open(&path, decoding).unwrap();
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
