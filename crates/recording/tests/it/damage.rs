//! Truncated and changed input: one line with the position, and never a panic.

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

/// Reads the bytes in every text format; returns the first error of each.
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
        "made:2 (byte 12): found \"1 0 1 B 27\"; allowed: a line end: the file is truncated",
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

/// Checks what is allowed instead of this line after a zone of frames 1024 to 5119.
#[track_caller]
fn refuses_line(line: &str, expect: &str) {
    let text = format!(
        "# page-allocator snapshot v1: a test\nzone node=0 zone=DMA32 start_pfn=1024 spanned=4096 \
         present=3998 managed=3840 wmark=10/12/14 nr_free_pages=773\nfree 0 DMA32 3 1 2048\n\
         pcpinfo cpu=0 node=0 zone=DMA32 count=0 high=2 batch=1\nblock 0 DMA32 1024 1 0\n{line}\n"
    );
    let error = input(text.as_bytes()).and_then(|input| Snapshot::read(input, DECODING));
    let error = error.expect_err(line).to_string();
    assert!(error.starts_with("made:6 (byte "), "{error}");
    assert!(error.ends_with(&format!("; allowed: {expect}")), "{error}");
}

const ZONE: &str = "zone DMA32 of node 0, which has the frames 1024 to 5119";

#[test]
fn a_snapshot_that_contradicts_itself_is_refused_with_the_line() {
    let again = |frame: u64| format!("frames that no line above has; frame {frame} has one");
    refuses_line("free 0 DMA32 0 1 5120", &format!("a block inside {ZONE}"));
    refuses_line("free 0 DMA32 10 1 5119", &format!("a block inside {ZONE}"));
    refuses_line("pcp 0 0 DMA32 0 0 1 1023", &format!("a block inside {ZONE}"));
    let multiple = "a block of order 1 that starts at a multiple of its size";
    refuses_line("free 0 DMA32 1 1 2057", multiple);
    refuses_line("free 0 DMA32 0 1 2055", &again(2055));
    refuses_line("pcp 0 0 DMA32 0 2 1 2052", &again(2052));
    refuses_line("used file 2000 100", &again(2048));
    let none = "frames of zones that lines above describe; frame 5120 is in none";
    refuses_line("used slab 4000 4503599627370496", none);
    refuses_line("used slab 5120 1", none);
    refuses_line("used slab 4000 18446744073709551615", "frames below 2^40");
    refuses_line("block 0 DMA32 5120 1 0", &format!("a pageblock of {ZONE}"));
    refuses_line("block 0 DMA32 1024 1 0", "one line for a pageblock");
    let lists = "pcpinfo cpu=0 node=0 zone=DMA32 count=0 high=2 batch=1";
    refuses_line(lists, "one line for the lists of a CPU and zone");
    refuses_line(&lists.replace("cpu=0", "cpu=8192"), "a CPU number below 8192");
    let factor = format!("{} alloc_factor=7", lists.replace("cpu=0", "cpu=1"));
    refuses_line(&factor, "alloc_factor= of at most 6");
}

#[test]
fn an_impossible_zone_is_refused_with_the_line() {
    let zone = |start: u64, spanned: u64, present: u64| {
        format!(
            "zone node=0 zone=Normal start_pfn={start} spanned={spanned} present={present} \
             managed=1 nr_free_pages=0"
        )
    };
    refuses_line(&zone(5119, 9, 9), &format!("frames outside {ZONE}"));
    refuses_line(
        &zone(8192, 1 << 40, 9),
        "spanned= of at most 4294967294 pages (16 TiB), not 1099511627776",
    );
    refuses_line(
        &zone((1 << 40) - 8, 9, 9),
        "start_pfn= and spanned= that end below frame 2^40, as physical addresses have at most 52 bits",
    );
    refuses_line(&zone(8192, 9, 10), "present= of at most the 9 pages of spanned=, not 10");
    refuses_line(&zone(8192, 9, 1 << 52), "a number below 2^52 after present=");
    let names = "a zone named DMA, DMA32, Normal, HighMem, Movable, Device";
    refuses_line(&zone(8192, 9, 9).replace("Normal", "Abnormal"), names);
    refuses_line(&zone(8192, 9, 9).replace("node=0", "node=1024"), "a node number below 1024");
}

/// A kernel's bounds cross only if the low watermark is above an eighth of the zone.
#[test]
fn crossed_per_cpu_limits_are_refused_unless_a_kernel_would_have_them() {
    let crossed = "pcpinfo cpu=1 node=0 zone=DMA32 count=0 high=9 batch=1 high_min=9 high_max=3";
    refuses_line(crossed, "high_min=9 of at most high_max=3");
    let low = |low: u64| {
        let text = format!(
            "# page-allocator snapshot v1\nzone node=0 zone=DMA start_pfn=0 spanned=4096 \
             present=4096 managed=4096 wmark=1/{low}/{low} nr_free_pages=0\n\
             {}\n",
            crossed.replace("DMA32", "DMA")
        );
        input(text.as_bytes()).and_then(|input| Snapshot::read(input, DECODING)).is_ok()
    };
    assert_eq!((low(256), low(600)), (false, true));
}

/// Text that decompresses to thousands of times its size is rejected at the first repeated line.
#[test]
fn a_bomb_of_repeated_lines_is_rejected_at_the_first_repetition() {
    for line in ["used file 1500 1\n", "free 0 DMA32 0 1 1500\n", "block 0 DMA32 1536 1 0\n"] {
        let zone = "# page-allocator snapshot v1\nzone node=0 zone=DMA32 start_pfn=1024 spanned=4096 \
                    present=3998 managed=3840 nr_free_pages=773\n";
        let packed = pack(&(zone.to_owned() + &line.repeat(1 << 20)), 1);
        assert!(packed.len() < 1 << 14);
        let error = input(&packed).and_then(|input| Snapshot::read(input, DECODING)).unwrap_err();
        assert!(error.to_string().starts_with("made:4 (byte "), "{error}");
    }
}

/// A replay indexes tables by what it reads: a frame that no machine has is refused where it stands.
#[test]
fn an_event_at_a_frame_that_no_machine_has_is_refused_with_its_line() {
    let temp = TempDir::new("frames");
    let path = temp.0.join("events.tsv");
    for event in ["A {} 0 1 GFP_KERNEL", "F {} 0", "X {} 0 3 0 1 1"] {
        for (frame, kept) in [(1_u64 << 40, false), ((1 << 40) - 1, true)] {
            let event = event.replace("{}", &frame.to_string());
            std::fs::write(&path, format!("10 0 1 M S1\n11 0 1 {event}\n")).unwrap();
            let events = Recording::open(&path)
                .and_then(|recording| recording.events()?.collect::<Result<Vec<_>, _>>());
            match events {
                Ok(_) => assert!(kept, "{event}"),
                Err(error) => {
                    let error = error.to_string();
                    assert!(!kept && error.contains("events.tsv:2 "), "{error}");
                    assert!(error.ends_with("allowed: a frame below 2^40"), "{error}");
                }
            }
        }
    }
}

#[test]
fn a_file_of_proc_is_limited() {
    let text = "nr_something_that_is_long_enough 1\n".repeat(1 << 19);
    let error = input(text.as_bytes()).and_then(VmStat::read).unwrap_err();
    assert!(error.to_string().ends_with("found more data; allowed: a file of at most 16 MiB"));
}

#[test]
fn a_folder_without_a_part_says_which() {
    let temp = TempDir::new("parts");
    let message = |dir: &Path| Recording::open(dir).unwrap_err().to_string();
    assert!(message(&temp.0.join("absent")).contains("no such file or folder"));
    assert!(message(&temp.0).contains("no kernel version"));
    let dir = small_recording(&temp, "");
    std::fs::remove_file(dir.join("events.tsv")).unwrap();
    assert!(message(&dir).contains("no events"));
    std::fs::remove_file(dir.join("start/snapshot.txt")).unwrap();
    assert!(message(&dir).contains("no snapshot"));
}
