//! Each file in `tests/reports` is a real report with the right diagnosis, which was worked out by hand from the
//! printed numbers; `SOURCES.md` says where it is from and how.

use std::path::PathBuf;

use pageblock::request::Gfp;
use pageblock_doctor::class::{Class, Confidence};
use pageblock_doctor::watermark::Verdict;
use pageblock_doctor::{Explanation, explain};

fn explained(name: &str) -> Vec<Explanation> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/reports").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    explain(&text)
}

fn one(name: &str) -> Explanation {
    let mut all = explained(name);
    assert_eq!(all.len(), 1, "{name}");
    all.remove(0)
}

fn verdicts(of: &Explanation) -> Vec<(&'static str, Verdict)> {
    of.zones.iter().map(|zone| (zone.kind.name(), zone.verdict)).collect()
}

#[test]
fn an_order_5_request_that_finds_only_smaller_blocks() {
    let found = explained("5.10-arm64-order-5.txt");
    assert_eq!(found.len(), 2);
    let first = &found[0];
    assert_eq!((first.class, first.report.order), (Class::Fragmentation, Some(5)));
    assert_eq!(first.report.version.as_deref(), Some("5.10.2"));
    assert_eq!(verdicts(first), [("DMA32", Verdict::NoBlock), ("DMA", Verdict::NoBlock)]);
    // 2807 pages must stay in DMA for requests that can use nothing else.
    assert_eq!(first.zones[1].reserve, Some(2807 * 4));
    assert_eq!((first.zones[0].unusable_cma, first.zones[0].unusable_highatomic), (776, 2048));
    let second = &found[1];
    assert_eq!((second.class, second.report.order), (Class::Fragmentation, Some(6)));
    assert!(second.helps.iter().any(|advice| advice.what.contains("compact_memory")));
    assert!(second.does_not_help.iter().any(|advice| advice.what.contains("min_free_kbytes")));
}

/// DMA has 7120 kB free, and needs 412 kB and 1677 pages: exactly as much, which is not enough.
#[test]
fn a_page_fault_on_a_machine_whose_memory_is_used_up() {
    let found = one("4.12-order-0-used-up.txt");
    assert_eq!(found.class, Class::Shortage);
    assert_eq!(verdicts(&found), [("DMA32", Verdict::Below), ("DMA", Verdict::Below)]);
    assert_eq!((found.zones[1].free, found.zones[1].needed()), (Some(7120), Some(412 + 1677 * 4)));
    assert!(found.does_not_help.iter().any(|advice| advice.what.contains("drop_caches")));
}

/// DMA32 has 48516 kB free, 72 kB less than its watermark and reserve ask for.
#[test]
fn the_oom_killer_where_the_reserve_of_a_lower_zone_decides() {
    let found = one("3.13-oom.txt");
    assert_eq!((found.class, found.report.mode), (Class::Shortage, Some(0x2_00da)));
    let dma32 = found.zones.iter().find(|zone| zone.kind.name() == "DMA32").unwrap();
    assert_eq!((dma32.free, dma32.needed()), (Some(48_516), Some(31_704 + 4221 * 4)));
    assert!(
        found.zones.iter().all(|zone| zone.verdict == Verdict::Below),
        "{:?}",
        verdicts(&found)
    );
}

/// 529024 kB are free, but for 523848 kB of CMA: 5176 kB, and the watermark is 5396 kB.
#[test]
fn the_oom_killer_where_only_cma_is_free() {
    let found = one("5.4-arm64-oom-cma.txt");
    assert_eq!((found.class, found.confidence), (Class::OnlyCma, Confidence::High));
    assert_eq!(verdicts(&found), [("DMA32", Verdict::BelowWithoutCma)]);
    assert!(found.does_not_help.iter().any(|advice| advice.what.contains("min_free_kbytes")));
}

/// All free blocks are in the highatomic reserve, from which single pages did not come. A second dump has no request.
#[test]
fn an_atomic_request_that_finds_only_the_highatomic_reserve() {
    let found = explained("4.14-android-atomic-highatomic.txt");
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].class, Class::OnlyHighatomic);
    assert_eq!(verdicts(&found[0]), [("Normal", Verdict::OtherBlocks)]);
    assert_eq!(found[1].class, Class::NoRequest);
    assert_eq!(found[1].report.memory.zones[0].free, Some(9956));
}

/// Normal is 116 kB below its watermark, and what is free in DMA is all CMA.
#[test]
fn a_request_that_does_not_wait_on_a_machine_with_cma() {
    let found = one("4.9-arm64-nowait-cma.txt");
    assert_eq!(found.class, Class::OnlyCma);
    let expected = [("Normal", Verdict::Below), ("DMA", Verdict::BelowWithoutCma)];
    assert_eq!(verdicts(&found), expected);
}

/// HighMem is not for this request. Low memory is 1576 kB above its watermark, and has a reserve of up to 20 MiB that
/// this version does not print. The numbers are wrapped.
#[test]
fn the_oom_killer_for_low_memory_on_32_bits() {
    let found = one("4.14-arm-oom-lowmem.txt");
    assert_eq!((found.class, found.report.order), (Class::Shortage, Some(1)));
    assert_eq!(verdicts(&found), [("DMA", Verdict::Below)]);
    let highmem = &found.report.memory.zones[1];
    assert_eq!((highmem.kind.name(), highmem.free_cma), ("HighMem", Some(553_588)));
    assert_eq!(highmem.lists[0].blocks, 8121);
    assert_eq!(highmem.lists[12].types, None);
}

#[test]
fn a_state_that_somebody_asked_for_with_sysrq_m() {
    let found = one("3.8-sysrq-m.txt");
    assert_eq!(found.class, Class::NoRequest);
    let zones: Vec<_> = found.report.memory.zones.iter().map(|zone| zone.kind.name()).collect();
    assert_eq!(zones, ["DMA", "DMA32"]);
    assert_eq!(found.report.memory.zones[1].lists[0].blocks, 1608);
}

/// The line with the request was lost. The mail's source joins lines by `=`, in the middle of words and numbers.
#[test]
fn states_whose_request_was_lost_are_read_all_the_same() {
    let found = one("5.11-oom-mail-source.txt");
    assert_eq!(found.class, Class::NoRequest);
    let zones = &found.report.memory.zones;
    assert_eq!(
        zones.iter().map(|zone| zone.kind.name()).collect::<Vec<_>>(),
        ["DMA", "DMA32", "Normal"]
    );
    assert_eq!((zones[2].free, zones[2].high), (Some(1_970_692), Some(107_248)));
    assert_eq!(zones[1].reserved_highatomic, Some(24_576));
    assert_eq!((zones[2].lists[8].blocks, zones[2].lists[10].blocks), (3, 472));
    let found = one("6.19-xen-header-lost.txt");
    assert_eq!((found.class, found.report.memory.free_swap_kb), (Class::NoRequest, Some(891_356)));
    let dma = &found.report.memory.zones[0];
    assert_eq!((dma.boost, dma.free_highatomic, dma.lowmem_reserve[2]), (Some(0), Some(0), 194));
}

/// Free memory of Normal is 916 kB below the min watermark, which a boost of 28672 kB has raised. The request comes from
/// kswapd, may not use reserves, and there are cache and swap.
#[test]
fn kswapds_own_request_below_a_boosted_watermark() {
    let found = one("6.19-nofs-without-reserves.txt");
    assert_eq!((found.class, found.report.task.as_deref()), (Class::SlowReclaim, Some("kswapd0")));
    let expected = ["Normal", "DMA32", "DMA"].map(|zone| (zone, Verdict::Below));
    assert_eq!(verdicts(&found), expected);
    // From 6.13 only free highatomic pages are not for it: 32 kB of the 2048 kB reserved.
    assert_eq!(found.zones[0].unusable_highatomic, 32);
    assert_eq!(
        (found.zones[1].free, found.zones[1].needed()),
        (Some(52_184), Some(15_860 + 9127 * 4))
    );
}

/// Memory is full of tmpfs, which counts as page cache; without swap none of it can be reclaimed.
#[test]
fn the_oom_killer_on_a_machine_full_of_tmpfs() {
    let found = one("6.15-oom-shmem.txt");
    assert_eq!((found.class, found.confidence), (Class::Shortage, Confidence::High));
    assert_eq!(verdicts(&found), ["Normal", "DMA32", "DMA"].map(|zone| (zone, Verdict::Below)));
    assert_eq!((found.zones[0].free, found.zones[0].needed()), (Some(63_212), Some(63_532)));
}

#[test]
fn a_request_without_watermarks_that_finds_nothing() {
    let found = one("5.18-arm-memalloc-empty.txt");
    assert_eq!(found.class, Class::SlowReclaim);
    assert!(found.flags.is_some_and(|flags| flags.has(Gfp::MEMALLOC)));
    assert_eq!((found.zones[0].free, found.zones[0].verdict), (Some(0), Verdict::Below));
    assert_eq!(found.report.memory.free_swap_kb, Some(1_009_180));
}

/// Only the zone DMA may serve it, and no other is printed: that memory is used up does not follow.
#[test]
fn a_driver_that_may_use_the_lowest_zone_only() {
    let found = one("5.14-dma-pool-order-10.txt");
    assert_eq!((found.class, found.confidence), (Class::ZoneMask, Confidence::Medium));
    assert_eq!(verdicts(&found), [("DMA", Verdict::Below)]);
}

/// 124 GiB are free on the one node that the cpuset allows, all in Movable, which is not for this request.
#[test]
fn a_cpuset_whose_node_has_no_zone_for_the_request() {
    let found = one("5.8-oom-cpuset-movable-node.txt");
    assert_eq!(found.class, Class::NodeMask);
    assert_eq!(found.report.mems_allowed.as_deref(), Some("4"));
    assert!(found.zones.is_empty());
    assert!(found.helps.iter().any(|advice| advice.what.contains("cpuset.mems")));
}

#[test]
fn the_oom_killer_of_a_memory_cgroup_without_a_state() {
    let found = one("5.0-memcg-oom.txt");
    assert_eq!((found.class, found.confidence), (Class::Cgroup, Confidence::High));
}

#[test]
fn text_without_a_report_gives_none() {
    assert_eq!(explain("nothing here\nusb 1-1: new high-speed USB device\n"), []);
    assert_eq!(explain(""), []);
}

/// Any cut leaves what can be said, and no panic.
#[test]
fn reports_cut_anywhere_are_explained_as_far_as_they_go() {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/reports/5.10-arm64-order-5.txt");
    let text = std::fs::read_to_string(path).unwrap();
    for end in (0..text.len()).step_by(97).filter(|&end| text.is_char_boundary(end)) {
        for found in explain(&text[..end]) {
            assert_ne!(found.class, Class::Changed, "cut at byte {end}");
        }
    }
}

/// A block of 32 kB is free, and 1032 kB above 192 kB. But before 4.4 smaller blocks do not count: of 251 pages 72, 86
/// and 92 lie in smaller ones, and the page that is left is not above an eighth of the watermark's 48.
#[test]
fn an_atomic_request_that_the_walk_over_orders_refuses() {
    let found = one("2.6-mips-order-3-walk.txt");
    assert_eq!((found.class, found.confidence), (Class::Fragmentation, Confidence::High));
    assert_eq!(verdicts(&found), [("Normal", Verdict::TooFewLarge)]);
    assert_eq!(
        (found.zones[0].free, found.zones[0].mark, found.zones[0].blocks),
        (Some(1032), Some(192), Some(1))
    );
    assert!(
        found.helps.iter().all(|advice| !advice.what.contains("proactiveness")),
        "it came with 5.9"
    );
}

/// 582004 kB are free, but for 516604 kB of CMA: 65400 kB, and the watermark is 65536 kB. The machine has high memory,
/// which is not printed, so that Normal is the second of four zones. The next report has no state.
#[test]
fn a_state_before_a_request_whose_own_state_was_cut() {
    let found = explained("6.1-arm-cma-512-boot.txt");
    let classes: Vec<Class> = found.iter().map(|found| found.class).collect();
    assert_eq!(classes, [Class::NoRequest, Class::Unknown]);
    assert_eq!(verdicts(&found[0]), [("DMA", Verdict::BelowWithoutCma)]);
    assert_eq!(found[0].zones[0].needed(), Some(65_536));
    assert!(found[0].missing.iter().any(|missing| missing.contains("request")));
    assert_eq!(found[1].report.version.as_deref(), Some("6.1.1-1-rpi-ARCH"));
    assert!(found[1].missing.iter().any(|missing| missing.contains("Mem-Info")));
}

/// 20212 kB are free, but for 6788 kB of CMA: 13424 kB, and the watermark is 16384 kB. A quoted mail, wrapped within
/// words and numbers, and cut within the list.
#[test]
fn a_quoted_and_wrapped_state() {
    let found = explained("4.14-arm-quoted-wrapped.txt");
    assert_eq!((found.len(), found[0].class), (2, Class::NoRequest));
    assert_eq!(verdicts(&found[0]), [("Normal", Verdict::BelowWithoutCma)]);
    assert_eq!((found[0].zones[0].free, found[0].zones[0].unusable_cma), (Some(20_212), 6788));
    assert_eq!(found[0].report.memory.zones[0].lists.len(), 8);
    assert_eq!(
        (found[1].report.order, found[1].report.task.as_deref()),
        (Some(1), Some("python3"))
    );
    assert!(found[1].flags.is_some_and(|flags| flags.has(Gfp::DIRECT_RECLAIM | Gfp::FS)));
    assert_eq!(found[1].report.version.as_deref(), Some("4.14.79-v7+"));
}

/// 519112 kB are free, but for 513592 kB of CMA: 5520 kB, and the watermark is 10428 kB with its boost.
#[test]
fn a_boosted_watermark_on_a_machine_whose_low_memory_is_cma() {
    let found = one("6.1-arm-oom-two-cut.txt");
    assert_eq!(verdicts(&found), [("DMA", Verdict::BelowWithoutCma)]);
    assert_eq!(
        (found.zones[0].free, found.zones[0].unusable_cma, found.zones[0].needed()),
        (Some(519_112), 513_592, Some(10_428))
    );
    assert_eq!(found.report.memory.zones[0].boost, Some(7216));
}
