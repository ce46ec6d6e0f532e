//! Forecasts of states whose answer was computed by hand, and of the machine where the test runs.

use std::fs;
use std::path::Path;

use pageblock_doctor::Error;
use pageblock_doctor::forecast::{Bound, Forecast, Kind, Range, forecast};

const FREE: u64 = 1 << 10;
const FILE: u64 = 1 << 3 | 1 << 5;
const ANON: u64 = FILE | 1 << 12 | 1 << 14;
const SLAB: u64 = 1 << 7;
const RESERVED: u64 = 1 << 32;
const HEAD: u64 = 1 << 15;
const TAIL: u64 = 1 << 16;
const KERNEL: u64 = 0;

const ZONE: &str = "Node 0, zone   Normal\n  pages free     1891\n        min      8\n        low      10\n        \
                    high     12\n        spanned  4096\n        present  4096\n        managed  3500\n        \
                    protection: (0, 0)\n  pagesets\n    cpu: 0\n              count:    0\n  start_pfn:           0\n";

/// Eight pageblocks: what their frames are, and how many.
const BLOCKS: [&[(u64, usize)]; 8] = [
    &[(ANON, 100), (FREE, 412)],
    &[(FREE, 512)],
    &[(SLAB, 1), (FREE, 511)],
    &[(SLAB, 3), (FILE, 509)],
    &[(KERNEL, 512)],
    &[(ANON, 256), (FREE, 256)],
    &[(FREE, 200), (FILE, 312)],
    &[(RESERVED, 512)],
];

/// Writes a machine's files.
fn machine(folder: &Path, zoneinfo: &str, blocks: &[&[(u64, usize)]]) {
    let words = blocks.iter().copied().flatten().flat_map(|&(word, n)| vec![word; n]);
    let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    fs::write(folder.join("kpageflags"), bytes).unwrap();
    fs::write(folder.join("zoneinfo"), zoneinfo).unwrap();
}

fn made(folder: &Path) -> Result<Forecast, Error> {
    forecast(folder, &|_| (), &|_| false)
}

fn of_order(forecast: &Forecast, order: u8) -> Range {
    *forecast.orders.iter().find(|range| range.order == order).unwrap()
}

/// Free: block 1. At most: blocks 0, 5 and 6 take 100, 256 and 312 moves, but 1891 free frames fill 3 blocks only.
/// At least: the 100 pages of block 0 go to block 6 (200 free frames). The 509 of block 3 need more than its last 100 and the
/// 256 of block 5, so that nothing else is emptied.
#[test]
fn bounds_are_those_computed_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    machine(folder.path(), ZONE, &BLOCKS);
    let forecast = made(folder.path()).unwrap();
    let block = of_order(&forecast, 9);
    assert_eq!((block.free, block.at_least, block.at_most), (1, 2, 3));
    // Slab in two, reserved memory in one; block 4 may be free memory on a per-CPU list.
    assert_eq!((block.blocks, block.held), (8, 3));
    // Block 0 becomes free beside block 1.
    let large = of_order(&forecast, 10);
    assert_eq!((large.free, large.at_least, large.at_most), (0, 1, 1));
    let page = of_order(&forecast, 0);
    assert_eq!((page.free, page.at_most), (1891, 1891));
    let bins: Vec<_> = forecast.held.bins.iter().map(|bin| (bin.from, bin.blocks)).collect();
    assert_eq!(bins, [(1, 1), (3, 1), (512, 2)]);
    assert_eq!((forecast.held.up_to(3), forecast.held.blocks()), (2, 4));
    let kinds: Vec<Kind> = forecast.held.bins[0].pages.iter().map(|holder| holder.kind).collect();
    assert_eq!(kinds, [Kind::Slab]);
    assert_eq!(forecast.map[0].cells.trim_end(), "m.11Kmmr");
    assert_eq!(forecast.orders.last().map(|range| (range.order, range.blocks)), Some((18, 0)));
}

/// By each means and by both, computed by hand. Block 6 is free when its 312 pages of clean page cache are; blocks 0 and 5
/// have anonymous pages, which need swap. Compaction is as above.
#[test]
fn free_memory_compaction_and_reclaim_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    machine(folder.path(), ZONE, &BLOCKS);
    let of = |swap_kb: u64, counts: bool| {
        let meminfo = format!("MemTotal: 14000 kB\nSwapFree: {swap_kb} kB\n");
        fs::write(folder.path().join("meminfo"), meminfo).unwrap();
        // Every frame of page cache is mapped once, or none is.
        let maps = vec![if counts { 0_u64 } else { 1 }; 4096];
        let bytes: Vec<u8> = maps.into_iter().flat_map(u64::to_le_bytes).collect();
        fs::write(folder.path().join("kpagecount"), bytes).unwrap();
        let forecast = made(folder.path()).unwrap();
        *forecast.obtain.iter().find(|made| made.order == 9).unwrap()
    };
    let bound = |at_least, at_most| Bound { at_least, at_most };
    let no_swap = of(0, true);
    assert_eq!((no_swap.free, no_swap.compaction), (1, bound(1, 2)));
    assert_eq!((no_swap.reclaim, no_swap.together), (bound(1, 1), bound(1, 3)));
    // 100 pages of swap are enough for block 0, 1000 for both.
    assert_eq!(of(400, true).reclaim, bound(1, 2));
    assert_eq!(of(4000, true).reclaim, bound(1, 3));
    // What processes map is not dropped for certain.
    assert_eq!(of(0, false).reclaim, bound(0, 1));
    // The last block stays below the min watermark.
    let high = ZONE.replace("min      8", "min      1500");
    machine(folder.path(), &high, &BLOCKS);
    assert_eq!(of(0, true).free, 0);
}

/// A kernel that initialises memory late counts it in MemTotal before a zone has it: its frames, at the end of the zone,
/// hold nothing. Without that the same frames are the kernel's.
#[test]
fn memory_that_is_not_initialised_holds_nothing() {
    let mut blocks = BLOCKS.to_vec();
    blocks.extend([BLOCKS[4]; 3]);
    // 2048 of 5632 frames are not managed: 1536 that come later, and 512 reserved ones.
    let zone = ZONE.replace("4096", "5632").replace("managed  3500", "managed  3584");
    let folder = tempfile::tempdir().unwrap();
    machine(folder.path(), &zone, &blocks);
    fs::write(folder.path().join("meminfo"), "MemTotal:       20480 kB\n").unwrap();
    let forecast = made(folder.path()).unwrap();
    let block = of_order(&forecast, 9);
    assert_eq!((block.blocks, block.held), (8, 3));
    assert_eq!(forecast.held.blocks(), 4);
    assert_eq!(forecast.map[0].cells.trim_end(), "m.11Kmmr");
    let told = forecast.missing.iter().find(|missing| missing.file == "/proc/zoneinfo");
    assert_eq!(
        told.unwrap().why,
        "its zones manage 14 MiB of the 20 MiB of MemTotal: the rest is not initialised yet, and counts as no memory"
    );
    // All of it is managed: the frames are in use.
    fs::write(folder.path().join("meminfo"), "MemTotal:       14336 kB\n").unwrap();
    let forecast = made(folder.path()).unwrap();
    assert_eq!(forecast.held.blocks(), 7);
    assert_eq!(forecast.map[0].cells.trim_end(), "m.11KmmrKKK");
}

/// Some kernels have words of 0 for holes, which `/proc/iomem` tells from memory.
#[test]
fn holes_that_look_like_the_kernels_hold_nothing() {
    let mut blocks = BLOCKS.to_vec();
    blocks.insert(4, BLOCKS[4]);
    let zone = ZONE.replace("spanned  4096", "spanned  4608");
    let folder = tempfile::tempdir().unwrap();
    machine(folder.path(), &zone, &blocks);
    // Frames 2048 to 2559 are none.
    let iomem = "00000000-007fffff : System RAM\n00a00000-011fffff : System RAM\n";
    fs::write(folder.path().join("iomem"), iomem).unwrap();
    let forecast = made(folder.path()).unwrap();
    assert_eq!(forecast.map[0].cells.trim_end(), "m.11 Kmmr");
    assert_eq!((of_order(&forecast, 9).blocks, forecast.held.blocks()), (8, 4));
}

/// 512 frames without a flag are a free block if they are on per-CPU lists, which only their number tells.
#[test]
fn pages_on_cpu_lists_raise_the_upper_bound() {
    let folder = tempfile::tempdir().unwrap();
    machine(folder.path(), &ZONE.replace("count:    0", "count:    512"), &BLOCKS);
    let forecast = made(folder.path()).unwrap();
    let block = of_order(&forecast, 9);
    assert_eq!((block.at_least, block.at_most), (2, 4));
    assert_eq!(forecast.on_cpu_lists, 512);
}

/// Free memory in pageblocks of other types is no target: the 100 pages of block 0 find 64 places.
#[test]
fn lists_by_type_limit_the_room() {
    let folder = tempfile::tempdir().unwrap();
    machine(folder.path(), ZONE, &BLOCKS);
    let types = "Page block order: 9\nPages per block:  512\n\n\
                 Free pages count per migrate type at order       0      1      2      3      4      5      6      7      8      9     10 \n\
                 Node    0, zone   Normal, type    Unmovable      3      0      0      1      0      0      0      1      1      0      0 \n\
                 Node    0, zone   Normal, type      Movable      0      0      0      0      0      0      1      0      0      1      0 \n\n\
                 Number of blocks type     Unmovable      Movable \nNode 0, zone   Normal            4            4 \n";
    fs::write(folder.path().join("pagetypeinfo"), types).unwrap();
    let lists = "Node 0, zone   Normal      3      0      0      1      0      0      1      1      1      1      0 \n";
    fs::write(folder.path().join("buddyinfo"), lists).unwrap();
    let block = of_order(&made(folder.path()).unwrap(), 9);
    assert_eq!((block.free, block.at_least, block.at_most), (1, 1, 1));
}

/// From 6.9 a run of compaction may end at a folio for which there is no block; before, it passes over it.
#[test]
fn a_large_folio_may_end_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut blocks = BLOCKS;
    blocks[0] = &[(FILE | HEAD, 1), (FILE | TAIL, 3), (ANON, 100), (FREE, 408)];
    blocks[3] = &[(ANON, 100), (FREE, 412)];
    machine(folder.path(), ZONE, &blocks);
    for (version, at_least) in [("6.8.0", 2), ("6.9.0", 1)] {
        fs::write(folder.path().join("version"), format!("Linux version {version}\n")).unwrap();
        assert_eq!(of_order(&made(folder.path()).unwrap(), 9).at_least, at_least, "{version}");
    }
}

#[test]
fn pinned_pages_lower_the_lower_bound() {
    let folder = tempfile::tempdir().unwrap();
    machine(folder.path(), ZONE, &BLOCKS);
    let vmstat = "nr_foll_pin_acquired 7\nnr_foll_pin_released 6\n";
    fs::write(folder.path().join("vmstat"), vmstat).unwrap();
    let forecast = made(folder.path()).unwrap();
    assert_eq!((forecast.pinned, of_order(&forecast, 9).at_least), (Some(1), 1));
}

#[test]
fn what_is_missing_is_named_and_the_rest_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    assert!(made(folder.path()).unwrap_err().to_string().contains("no zoneinfo"));
    fs::write(folder.path().join("zoneinfo"), ZONE).unwrap();
    assert!(made(folder.path()).unwrap_err().to_string().contains("no kpageflags"));
    machine(folder.path(), ZONE, &BLOCKS);
    let forecast = made(folder.path()).unwrap();
    let missing: Vec<&str> = forecast.missing.iter().map(|missing| missing.file.as_str()).collect();
    assert!(
        missing.contains(&"/proc/kpagecount") && missing.contains(&"/proc/slabinfo"),
        "{missing:?}"
    );
    // Cut in the middle of a block: the rest is no memory.
    let bytes = fs::read(folder.path().join("kpageflags")).unwrap();
    fs::write(folder.path().join("kpageflags"), &bytes[..8 * 700 + 3]).unwrap();
    assert_eq!(of_order(&made(folder.path()).unwrap(), 9).blocks, 1);
    fs::write(folder.path().join("zoneinfo"), "Node x\n").unwrap();
    assert!(
        made(folder.path())
            .unwrap_err()
            .to_string()
            .contains("zoneinfo:1 (byte 0): found \"Node x\"")
    );
    assert!(matches!(forecast_stopped(folder.path()), Err(Error::Recording(_))));
}

/// A file that is no recording is named itself, not the folder that it was unpacked to.
#[test]
fn a_file_without_a_state_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.txt");
    fs::write(&file, "# tracer: nop\n").unwrap();
    let error = made(&file).unwrap_err().to_string();
    assert!(error.contains("trace.txt"), "{error}");
}

fn forecast_stopped(folder: &Path) -> Result<Forecast, Error> {
    forecast(folder, &|_| (), &|_| true)
}

#[test]
fn asked_to_stop_it_stops() {
    let folder = tempfile::tempdir().unwrap();
    machine(folder.path(), ZONE, &BLOCKS);
    assert!(matches!(forecast_stopped(folder.path()), Err(Error::Stopped)));
}

#[test]
fn this_machine_has_a_forecast() {
    if fs::File::open("/proc/kpageflags").is_err() {
        eprintln!("skipped: /proc/kpageflags cannot be read here");
        return;
    }
    let forecast = made(Path::new("/")).unwrap();
    for range in &forecast.orders {
        assert!(range.at_least <= range.at_most && range.free <= range.at_most, "{range:?}");
        assert!(range.at_most <= range.blocks, "{range:?}");
    }
    assert!(of_order(&forecast, 0).free > 0);
}
