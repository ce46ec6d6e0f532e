//! Cut and changed input: one line with the place, and never a panic.

use std::io::{Cursor, Read};
use std::path::Path;

use pageblock::mobility::Numbering;
use pageblock_recording::{
    BuddyInfo, Decoding, Error, Input, PageTypeInfo, Recording, Snapshot, TextReader, TsvReader,
    VmStat,
};
use proptest::prelude::*;

use crate::TempDir;
use crate::columnar::small_recording;

const DECODING: Decoding = Decoding { numbering: Numbering::Modern, cma: true };

const EVENTS: &str = "# pb-events v1\n10 0 1 M S1\n11 1 7 A 512 0 1 GFP_KERNEL|__GFP_ZERO\n\
    12 1 7 Z 513 0 1 1\n13 0 8 X 600 0 3 0 1 1\n14 0 8 I 640 5 -1\n15 0 8 K 4\n16 0 8 D 513 0 1\n\
    16 0 8 B 512\n17 0 8 F 512 0\n18 0 8 E mm_compaction_begin zone_start=0x0\n19 0 1 M S2\n";

const SNAPSHOT: &str = "# page-allocator snapshot v1: a test\n\
    zone node=0 zone=DMA start_pfn=1 spanned=4095 present=3998 managed=3840 wmark=187/233/279/325 \
    watermark_boost=0 lowmem_reserve=0/574 nr_free_pages=773 flags=4 compact_considered=1 x=y\n\
    pcpinfo cpu=0 node=0 zone=DMA count=0 high=116 batch=1 alloc_factor=0 expire=0\n\
    free 0 DMA 0 2 1062\npcp 0 0 DMA 11 3 2 2048\nblock 0 DMA 512 1 1\nused file 256 1\n";

const TRACE: &str = "# tracer: nop\n  wl-26389 [000] ...2.  9386.850200: mm_page_free: pfn=0x5f order=0\n\
    CPU:1 [LOST 25 EVENTS]\n wl 26389 [001]  9386.85: kmem:mm_page_alloc: page=0 pfn=0x0 order=9 \
    migratetype=1 gfp_flags=GFP_TRANSHUGE\n";

const TYPES: &str = "Page block order: 9\nNode    0, zone      DMA, type    Unmovable      3      1 \n\
    Number of blocks type     Unmovable          CMA \nNode 0, zone      DMA            1     7 \n";

fn input(bytes: &[u8]) -> Result<Input, Error> {
    Input::from_reader(Cursor::new(bytes.to_vec()), Path::new("made"))
}

/// Reads the bytes as every text form; the first error of each.
fn read_all(bytes: &[u8]) -> Vec<Error> {
    let events = input(bytes)
        .and_then(|input| TsvReader::new(input, DECODING).collect::<Result<Vec<_>, _>>());
    let text = input(bytes)
        .and_then(|input| TextReader::new(input, DECODING).collect::<Result<Vec<_>, _>>());
    let snapshot = input(bytes).and_then(|input| Snapshot::read(input, DECODING));
    let types = input(bytes).and_then(PageTypeInfo::read);
    let buddy = input(bytes).and_then(BuddyInfo::read);
    let stat = input(bytes).and_then(VmStat::read);
    let errors = [events.err(), text.err(), snapshot.err(), types.err(), buddy.err(), stat.err()];
    errors.into_iter().flatten().collect()
}

fn pack(text: &str, form: usize) -> Vec<u8> {
    let mut packed = Vec::new();
    match form {
        0 => packed.extend(text.as_bytes()),
        1 => packed = zstd::encode_all(text.as_bytes(), 3).unwrap(),
        _ => drop(
            liblzma::read::XzEncoder::new(text.as_bytes(), 6).read_to_end(&mut packed).unwrap(),
        ),
    }
    packed
}

proptest! {
    #[test]
    fn changed_text_never_panics(
        text in 0..4usize,
        form in 0..3usize,
        flips in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<proptest::sample::Index>(),
    ) {
        let mut bytes = pack([EVENTS, SNAPSHOT, TRACE, TYPES][text], form);
        for (at, value) in flips {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        for error in read_all(&bytes) {
            prop_assert_eq!(error.to_string().lines().count(), 1);
        }
    }

    #[test]
    fn any_line_never_panics(line in "[ -~]{0,60}|[0-9]{1,20} [0-9] [0-9] [AFBZDXIKME] [0-9 -]{0,40}") {
        read_all(line.as_bytes());
    }
}

#[track_caller]
fn check(events: &[u8], expect: &str) {
    let error = input(events)
        .and_then(|input| TsvReader::new(input, DECODING).collect::<Result<Vec<_>, _>>())
        .unwrap_err();
    assert_eq!(error.to_string(), expect);
}

#[test]
fn a_damaged_line_is_named_with_its_place() {
    check(
        b"1 0 1 F 2 0\n1 0 1 F x 0\n",
        "made:2 (byte 12): found \"1 0 1 F x 0\"; allowed: a page-frame number",
    );
    check(
        b"1 0 1 F 2 0\n1 0 1 F 27",
        "made:2 (byte 12): found \"1 0 1 F 27\"; allowed: an order from 0 to 15",
    );
    check(
        b"1 0 1 F 2 0\n1 0 1 B 27",
        "made:2 (byte 12): found \"1 0 1 B 27\"; allowed: a line end: the file is cut short",
    );
    check(
        b"1 0 1 Z 2 16 0 1\n",
        "made:1 (byte 0): found \"1 0 1 Z 2 16 0 1\"; allowed: an order from 0 to 15",
    );
    check(
        b"1 0 1 D 2 0 9\n",
        "made:1 (byte 0): found \"1 0 1 D 2 0 9\"; allowed: a migratetype number of this kernel",
    );
    check(
        b"1 0 1 F 2 0 7\n",
        "made:1 (byte 0): found \"1 0 1 F 2 0 7\"; allowed: no further field",
    );
}

#[test]
fn a_folder_without_a_part_says_which() {
    let temp = TempDir::new("parts");
    let message = |dir: &Path| Recording::open(dir).unwrap_err().to_string();
    assert!(message(&temp.0.join("absent")).contains("no such folder"));
    assert!(message(&temp.0).contains("no kernel version"));
    let dir = small_recording(&temp, "");
    std::fs::remove_file(dir.join("events.tsv")).unwrap();
    assert!(message(&dir).contains("no events"));
    std::fs::remove_file(dir.join("start/snapshot.txt")).unwrap();
    assert!(message(&dir).contains("no snapshot"));
}
