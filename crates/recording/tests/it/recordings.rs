//! Snapshots, event streams and windows of whole recordings.

use std::collections::BTreeMap;

use pageblock::frame::pages;
use pageblock_recording::{Recording, What};

use crate::shared;

const NAMES: [&str; 5] = [
    "qemu-6.1-osc640-s31",
    "qemu-6.12-osc640-s31",
    "qemu-7.2-osc640-s31",
    "host-6.18-compile",
    "host-6.18-fiothp",
];

#[test]
fn free_counts_of_snapshots_agree_with_proc() {
    for dir in NAMES.into_iter().filter_map(shared) {
        let recording = Recording::open(&dir).unwrap();
        let snapshots = [Some(&recording.start), recording.end.as_ref()];
        for snapshot in snapshots.into_iter().flatten() {
            let mut free = vec![0; snapshot.zones.len()];
            for block in &snapshot.free {
                free[usize::from(block.zone)] += pages(block.order);
            }
            for (zone, free) in snapshot.zones.iter().zip(free) {
                let slack = if snapshot.exact { 64 } else { 2048 };
                assert!(free.abs_diff(zone.nr_free_pages) <= slack, "{}: {zone:?}", recording.name);
                assert!(zone.wmark.min > 0 && zone.wmark.min < zone.wmark.low);
                assert!(zone.managed <= zone.present && zone.present <= zone.spanned);
                assert!(zone.other.is_empty(), "{:?}", zone.other);
            }
            assert!(snapshot.pcpinfo.iter().all(|info| info.other.is_empty()));
            assert_eq!(snapshot.exact, !snapshot.blocks.is_empty());
            let types = snapshot.pagetypeinfo.as_ref().unwrap();
            assert_eq!(types.pageblock_order, Some(9));
            if snapshot.exact {
                let mut blocks = BTreeMap::new();
                for block in &snapshot.blocks {
                    let zone = &snapshot.zones[usize::from(block.zone)];
                    *blocks
                        .entry(((zone.node, zone.name.clone()), block.mt.unwrap()))
                        .or_insert(0u64) += 1;
                }
                for (key, count) in &types.blocks {
                    let exact = blocks.get(key).copied().unwrap_or(0);
                    // The files of /proc were read shortly before or after the snapshot.
                    assert!(exact.abs_diff(*count) <= 4, "{key:?}: {exact} and {count}");
                }
            }
        }
    }
}

#[test]
fn windows_are_where_the_prototype_found_them() {
    for dir in NAMES.into_iter().filter_map(shared) {
        let recording = Recording::open(&dir).unwrap();
        let windows = recording.windows().unwrap();
        // The prototype does not count markers, other events and failed allocations.
        let mut counted = vec![0u64];
        for record in recording.events().unwrap() {
            let counts = !matches!(
                record.unwrap().what,
                What::Marker(_) | What::Other(_) | What::Alloc { pfn: None, .. }
            );
            counted.push(counted.last().unwrap() + u64::from(counts));
        }
        let check: serde_json::Value =
            serde_json::from_slice(&std::fs::read(dir.join("check.json")).unwrap()).unwrap();
        println!("{}: {windows:?} {}", recording.name, check["window_start"]);
        assert_eq!(
            counted[windows.start_event() as usize],
            check["window_start"][1],
            "{}",
            recording.name
        );
        assert_eq!(
            counted[windows.end_event() as usize],
            check["window_end"][1],
            "{}",
            recording.name
        );
    }
}
