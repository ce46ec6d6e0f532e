//! A model in the state of a snapshot prints the `/proc` files that the kernel printed.

use std::fs;

use pageblock::alloc::Allocator;
use pageblock::proc::{BuddyInfo, KernelFormat, PageTypeInfo, ZoneInfo};
use pageblock_recording::Recording;
use pageblock_replay::machine::{Machine, recorded_preset};

use crate::exact_recordings;

fn for_each_start(check: impl Fn(&Recording, KernelFormat, &Allocator<'_>)) {
    for recording in exact_recordings() {
        let kernel = KernelFormat {
            version: (recording.kernel.major.into(), recording.kernel.minor.into()),
            cma: recording.decoding.cma,
        };
        let policy = recorded_preset(&recording).policy;
        let machine = Machine::of(&recording).unwrap();
        let mut memory = machine.table_memory(policy).unwrap();
        let allocator = machine.allocator(policy, &recording.start, &mut memory).unwrap();
        check(&recording, kernel, &allocator);
    }
}

#[track_caller]
fn file(recording: &Recording, name: &str) -> String {
    fs::read_to_string(recording.dir.join("start").join(name)).unwrap()
}

#[test]
fn buddyinfo_is_the_kernels() {
    for_each_start(|recording, _, allocator| {
        let text = BuddyInfo(allocator).to_string();
        assert_eq!(text, file(recording, "buddyinfo"), "{}", recording.name);
    });
}

#[test]
fn pagetypeinfo_is_the_kernels() {
    for_each_start(|recording, kernel, allocator| {
        let text = PageTypeInfo { allocator, kernel }.to_string();
        assert_eq!(text, file(recording, "pagetypeinfo"), "{}", recording.name);
    });
}

/// Every line stands in the kernel's file, in the same order; that has more. The CPU lists went on
/// between the file and the snapshot.
#[test]
fn zoneinfo_is_part_of_the_kernels() {
    for_each_start(|recording, kernel, allocator| {
        let theirs = file(recording, "zoneinfo");
        let mut lines = theirs.lines();
        let ours = ZoneInfo { allocator, kernel }.to_string();
        let moving = |line: &&str| line.contains(" count: ") || line.contains(" high: ");
        // The file is read a moment before the snapshot: a batch may be allocated between them.
        let free = |line: &str| {
            let names = ["pages free", "nr_free_pages"];
            let number = names.iter().find_map(|name| line.trim().strip_prefix(name))?;
            number.trim().parse::<i64>().ok()
        };
        let same = |a: &str, b: &str| match (free(a), free(b)) {
            (Some(a), Some(b)) => (a - b).abs() <= 63,
            _ => a == b,
        };
        for line in ours.lines().filter(|line| !moving(line)) {
            assert!(lines.any(|theirs| same(theirs, line)), "{}: {line}", recording.name);
        }
    });
}
