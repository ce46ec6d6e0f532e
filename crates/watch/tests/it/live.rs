//! A machine's files that the test writes.

use std::fs;
use std::path::Path;
use std::time::Duration;

use pageblock_measure::value::history::Content;
use pageblock_watch::{App, Colors, Error, Live, LivePlan, Source};

use crate::fake::{look, screen, text};

const FREE: u64 = 1 << 10;
const FILE: u64 = 1 << 3 | 1 << 5;
const SLAB: u64 = 1 << 7;
const RESERVED: u64 = 1 << 32;
const KERNEL: u64 = 0;

const ZONEINFO: &str = "Node 0, zone   Normal\n  pages free     900\n        min      8\n        low      10\n        \
                        high     12\n        spanned  2560\n        present  2560\n        managed  2048\n        \
                        protection: (0, 0)\n  pagesets\n    cpu: 0\n              count:    0\n  start_pfn:           512\n";
const LISTS: &str = "Page block order: 9\nPages per block:  512\n\n\
    Free pages count per migrate type at order       0      1      2      3      4      5      6      7      8      9     10 \n\
    Node    0, zone   Normal, type    Unmovable      1      0      0      0      0      0      0      0      0      0      0 \n\
    Node    0, zone   Normal, type      Movable      3      0      0      0      0      0      0      0      0      1      0 \n\
    Node    0, zone   Normal, type  Reclaimable      0      0      0      0      0      0      0      0      0      0      0 \n\
    \nNumber of blocks type     Unmovable      Movable  Reclaimable \nNode 0, zone   Normal            1            4            0 \n";

/// Five pageblocks from the second on.
const BLOCKS: [&[(u64, usize)]; 5] = [
    &[(RESERVED, 512)],
    &[(FREE, 512)],
    &[(FILE, 400), (FREE, 112)],
    &[(SLAB, 3), (FILE, 509)],
    &[(KERNEL, 2), (FREE, 510)],
];

fn machine(folder: &Path) {
    let proc = folder.join("proc");
    fs::create_dir_all(&proc).unwrap();
    let mut words = vec![RESERVED; 512];
    words.extend(BLOCKS.iter().copied().flatten().flat_map(|&(word, n)| vec![word; n]));
    let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    fs::write(proc.join("kpageflags"), bytes).unwrap();
    fs::write(proc.join("zoneinfo"), ZONEINFO).unwrap();
    fs::write(proc.join("pagetypeinfo"), LISTS).unwrap();
    fs::write(proc.join("version"), "Linux version 6.12.3 (x)\n").unwrap();
    fs::write(proc.join("meminfo"), "MemTotal: 8192 kB\n").unwrap();
    let orders = "Node 0, zone   Normal      4      0      0      0      0      0      0      0      0      1      0 \n";
    fs::write(proc.join("buddyinfo"), orders).unwrap();
    set(folder, 100, 0);
}

/// Sets the uptime and the requests that compacted memory.
fn set(folder: &Path, uptime: u64, stalls: u64) {
    fs::write(folder.join("proc/uptime"), format!("{uptime}.00 1.00\n")).unwrap();
    fs::write(folder.join("proc/vmstat"), format!("compact_stall {stalls}\nallocstall_normal 0\n"))
        .unwrap();
}

fn open(folder: &Path) -> Result<Live, Error> {
    let interval = Duration::from_secs(1);
    Live::open(LivePlan { root: folder.to_owned(), interval, events: true })
}

#[test]
fn pageblocks_are_what_their_frames_are() {
    let folder = tempfile::tempdir().unwrap();
    machine(folder.path());
    let mut live = open(folder.path()).unwrap();
    live.read_all().unwrap();
    live.tick().unwrap();
    let cells: Vec<(Content, u16)> =
        live.now().cells.iter().map(|cell| cell.unwrap()).map(|c| (c.content, c.stuck)).collect();
    assert_eq!(
        cells,
        [
            (Content::Reserved, 512),
            (Content::Free, 0),
            (Content::Movable, 0),
            (Content::Mixed, 3),
            (Content::Unmovable, 2),
        ]
    );
    assert_eq!(live.now().unsure.iter().filter(|&&unsure| unsure).count(), 1);
    let facts = live.block(0, 3);
    assert!(facts.contains(&("page cache".to_owned(), "509 pages".to_owned())), "{facts:?}");
    assert!(facts.contains(&("frames".to_owned(), "0x800 to 0x9ff".to_owned())), "{facts:?}");
    // Block 1 is written over while it runs: what is seen follows.
    let mut bytes = fs::read(folder.path().join("proc/kpageflags")).unwrap();
    bytes[1024 * 8..1024 * 8 + 8].copy_from_slice(&SLAB.to_le_bytes());
    fs::write(folder.path().join("proc/kpageflags"), bytes).unwrap();
    live.read_all().unwrap();
    live.tick().unwrap();
    assert_eq!(live.now().cells[1].unwrap().content, Content::Unmovable);
}

#[test]
fn rates_are_those_since_the_last_moment() {
    let folder = tempfile::tempdir().unwrap();
    machine(folder.path());
    let mut live = open(folder.path()).unwrap();
    set(folder.path(), 102, 30);
    live.tick().unwrap();
    let stalls = live.curves().iter().find(|curve| curve.name == "stalls: compaction").unwrap();
    assert_eq!(stalls.values, [None, Some(15.0)]);
    assert!(live.now().verdict.contains("hurts: yes (15.0 requests/s"), "{}", live.now().verdict);
    assert_eq!(live.position(), (1, 2));
    let zone = &live.now().zones[0];
    assert_eq!(zone.by_type.as_ref().unwrap()[1][9], 1);
    assert_eq!((zone.free, zone.marks), (900, [8, 10, 12]));
}

#[test]
fn without_root_the_rest_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    machine(folder.path());
    for file in ["kpageflags", "pagetypeinfo"] {
        fs::remove_file(folder.path().join("proc").join(file)).unwrap();
    }
    let live = open(folder.path()).unwrap();
    let shown = text(&screen(&mut App::new(&live, look(Colors::None), 1), &live, (100, 30)));
    assert!(shown.contains("without: map, "), "{shown}");
    assert!(shown.contains("9        1") && shown.contains("Normal"), "{shown}");
    assert!(live.now().missing.iter().any(|what| what.contains("pagetypeinfo")));
}

#[test]
fn a_folder_that_is_no_machine_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let error = open(folder.path()).err().unwrap().to_string();
    assert!(error.contains("zoneinfo"), "{error}");
}
