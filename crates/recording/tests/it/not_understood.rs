//! An event whose values the allocator's model does not have is kept and counted, and costs no recording.

use std::path::{Path, PathBuf};

use pageblock_recording::{Columnar, Recording, pack, salvage};

use crate::TempDir;
use crate::columnar::{EVENTS, small_recording};
use crate::made::{Form, trace_dat};

/// Returns the number of events of a recording, and those of them that are not understood.
fn counted(path: &Path, temp: &TempDir) -> (u64, u64) {
    let recording = Recording::open(path).unwrap();
    let Columnar { events, not_understood, .. } =
        recording.columnar(&temp.0.join("cache"), &mut |_, _| {}).unwrap();
    (events, not_understood)
}

/// Packs, unpacks and packs a recording again: the counts stay.
fn stays(path: &Path, temp: &TempDir, expect: (u64, u64)) {
    let out = |name: &str| temp.0.join(name);
    assert_eq!(counted(path, temp), expect, "{}", path.display());
    pack(path, &out("one.pbrec"), &mut |_, _| {}).unwrap();
    assert_eq!(counted(&out("one.pbrec"), temp), expect);
    let one = Recording::open(&out("one.pbrec")).unwrap();
    let written = one.write_folder(&out("folder"), &mut |_, _| {});
    if !one.start_known {
        let error = written.unwrap_err().to_string();
        assert!(error.contains("no state at the start") && !out("folder").exists(), "{error}");
        return;
    }
    written.unwrap();
    pack(&out("folder"), &out("two.pbrec"), &mut |_, _| {}).unwrap();
    assert_eq!(counted(&out("two.pbrec"), temp), expect);
}

fn file(temp: &TempDir, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = temp.0.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn a_gigantic_page_in_a_trace_dat_costs_nothing() {
    for big_endian in [false, true] {
        let temp = TempDir::new(&format!("gigantic-dat-{big_endian}"));
        let mut trace = trace_dat(Form { version: 6, big_endian, zstd: false }, 40);
        // Frame 2 is freed with order 3 by task 7; patched to a huge page of 1 GiB.
        let number = |value: u64, len: usize| match big_endian {
            true => value.to_be_bytes()[8 - len..].to_vec(),
            false => value.to_le_bytes()[..len].to_vec(),
        };
        let event: Vec<u8> = [number(7, 4), number(2, 8), number(3, 4)].concat();
        let at = trace.windows(event.len()).position(|part| part == event).unwrap();
        trace[at + 12..at + 16].copy_from_slice(&number(18, 4));
        // An event of a format that the file lacks.
        let id: Vec<u8> = [number(600, 2), number(0, 2), number(7, 4), number(4, 8)].concat();
        let at = trace.windows(id.len()).position(|part| part == id).unwrap();
        trace[at..at + 2].copy_from_slice(&number(999, 2));
        stays(&file(&temp, "trace.dat", trace), &temp, (40, 2));
        let texts = Recording::open(&temp.0.join("one.pbrec")).unwrap().events().unwrap();
        let texts: Vec<String> = texts.map(|record| record.unwrap().what.to_string()).collect();
        assert_eq!(texts[2], "mm_page_free pfn=0x2 order=18");
    }
}

#[test]
fn a_gigantic_page_in_a_printed_trace_costs_nothing() {
    let temp = TempDir::new("gigantic-text");
    let lines = "# tracer: nop\n\
        task-1234 [000] ..... 12.345677: mm_page_free: page=00000000deadbeef pfn=0x5f order=0\n\
        task-1234 [000] ..... 12.345678: mm_page_free: page=00000000deadbeef pfn=0x200000 order=18\n\
        task-1234 [000] ..... 12.345679: mm_page_alloc: pfn=0x5f order=0 migratetype=77 gfp_flags=GFP_KERNEL\n";
    stays(&file(&temp, "trace.txt", lines), &temp, (3, 2));
}

#[test]
fn a_gigantic_page_in_events_tsv_costs_nothing() {
    let temp = TempDir::new("gigantic-tsv");
    let folder = small_recording(&temp, &format!("{EVENTS}20 0 1 F 2097152 18\n"));
    stays(&folder, &temp, (14, 1));
    // A cut one has them too.
    let whole = std::fs::read(temp.0.join("one.pbrec")).unwrap();
    let cut = file(&temp, "cut.pbrec", &whole[..whole.len() - 100]);
    let saved = temp.0.join("saved.pbrec");
    assert_eq!(salvage(&cut, &saved, &mut |_| {}).unwrap(), 14);
    assert_eq!(counted(&saved, &temp), (14, 1));
}
