//! Each file in `tests/pasted` is what somebody pasted, made small and nameless: cut, damaged, or of a kind that was read
//! wrongly. The numbers tell what is right.

use std::path::PathBuf;

use pageblock_doctor::class::{Class, Confidence};
use pageblock_doctor::holders::Holding;
use pageblock_doctor::log::{About, Kind, Lack, Vmalloc};
use pageblock_doctor::watermark::Verdict;
use pageblock_doctor::{Explanation, explain_log};

fn explained(name: &str) -> Vec<Explanation> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/pasted").join(name);
    let log = std::fs::File::open(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    explain_log(log).unwrap().found
}

fn one(name: &str) -> Explanation {
    let mut all = explained(name);
    assert_eq!(all.len(), 1, "{name}");
    all.remove(0)
}

fn verdict(of: &Explanation, zone: &str) -> Verdict {
    of.zones.iter().find(|check| check.kind.name() == zone).unwrap().verdict
}

#[test]
fn numbers_that_the_log_lacks_are_unknown() {
    let found = one("unknown-printed-as-0.log");
    let zone = &found.zones[0];
    assert_eq!(
        (zone.free, zone.mark, zone.needed(), zone.blocks),
        (Some(280_296), None, None, Some(0))
    );
    assert_eq!((found.class, found.confidence), (Class::Fragmentation, Confidence::Medium));
}

/// DMA has 8084 kB free, and 356 + 7732 kB must stay free. Only the second log has the line with the 7732 kB.
#[test]
fn a_reserve_that_the_log_lacks_is_not_0() {
    let cut = one("reserve-unknown-counts-as-0.log");
    let whole = one("with-the-reserve-line.log");
    assert_eq!((verdict(&cut, "DMA"), verdict(&whole, "DMA")), (Verdict::Unknown, Verdict::Below));
    assert_eq!((cut.class, whole.class), (Class::Shortage, Class::Shortage));
}

/// The mark is 834 pages, less a half and a quarter of what is left: 313 pages, and 313 are free.
#[test]
fn marks_are_compared_in_pages() {
    let found = one("atomic-mark-rounded-in-kB.log");
    assert_eq!((found.zones[0].free, found.zones[0].mark), (Some(1252), Some(1252)));
    assert_eq!((found.zones[0].verdict, found.class), (Verdict::Below, Class::Burst));
}

#[test]
fn swap_that_the_log_lacks_is_missing() {
    let found = one("oom-cut-before-swap.log");
    assert!(found.lacks_swap());
    assert_eq!((found.class, found.confidence), (Class::Shortage, Confidence::Medium));
    assert!(found.missing.iter().any(|missing| missing.contains("swap")), "{:?}", found.missing);
}

/// 33608 kB are free. Of 52840 kB that must stay 36580 are boost: without it 16260.
#[test]
fn a_boost_that_decides_is_named() {
    for name in ["boost-printed.log", "plain-with-swap.log"] {
        let found = one(name);
        let zone = found.boosted().expect("the boost decides");
        assert_eq!((zone.needed(), zone.boost), (Some(52_840), Some(36_580)));
        assert!(found.helps[0].what.contains("watermark_boost_factor"), "{:?}", found.helps);
    }
}

#[test]
fn who_holds_the_memory_is_said() {
    for (name, holding, advice) in [
        ("mlocked.log", Holding::Mlocked, "VmLck"),
        ("kernel-holds-it.log", Holding::SlabUnreclaimable, "slabtop"),
        ("kernel-holds-it-with-swap.log", Holding::SlabUnreclaimable, "slabtop"),
        ("managed-far-below-present.log", Holding::NeverGiven, "crashkernel"),
    ] {
        let found = one(name);
        assert_eq!((found.class, found.holders[0].holding), (Class::Shortage, holding), "{name}");
        assert!(found.helps[0].what.contains(advice), "{name}: {:?}", found.helps);
    }
    let holders = one("kernel-holds-it.log").holders;
    assert!(holders.iter().any(|h| h.holding == Holding::KernelStack && h.kb == 612_912));
}

#[test]
fn the_zone_limits_a_request_that_finds_none_with_memory() {
    for name in ["no-zone-line-at-all.log", "older-kernel-only-normal.log"] {
        let found = one(name);
        assert_eq!((found.class, found.missing.len()), (Class::ZoneMask, 0), "{name}");
    }
}

/// The state was printed 107 ms before the failure whose line is above it.
#[test]
fn a_state_that_is_older_than_the_request_is_another_event() {
    let found = explained("state-older-than-failure.log");
    let kinds: Vec<Kind> = found.iter().map(|found| found.report.kind).collect();
    assert_eq!(kinds, [Kind::Failure, Kind::State]);
    assert_eq!(found[0].class, Class::Unknown);
}

#[test]
fn a_page_fault_that_failed_has_no_request() {
    let found = one("page-fault-oom.log");
    assert_eq!((found.class, found.report.kind), (Class::FaultOom, Kind::FaultOom));
    let slab = found.report.slab.expect("a slab cache got no memory");
    assert_eq!((slab.line, slab.cache.as_deref()), (1, Some("dentry")));
    assert_eq!(slab.cgroup.as_deref(), Some("GROUP"));
}

#[test]
fn a_kill_that_somebody_asked_for_is_no_failure() {
    let found = one("sysrq-f.log");
    assert_eq!((found.class, found.report.kind), (Class::Asked, Kind::AskedOom));
}

#[test]
fn an_optional_request_needs_no_help() {
    let found = one("thp-optional.log");
    assert_eq!((found.class, found.helps.len()), (Class::Fragmentation, 1));
    assert!(found.helps[0].what.starts_with("nothing"), "{:?}", found.helps);
}

/// kswapd leaves CMA out of what it keeps free.
#[test]
fn a_larger_reserve_helps_single_pages_of_callers_that_cannot_wait() {
    let found = one("cma-atomic-order0.log");
    let min_free = |all: &[pageblock_doctor::advice::Advice]| {
        all.iter().any(|advice| advice.what.contains("min_free_kbytes"))
    };
    assert_eq!(found.class, Class::OnlyCma);
    assert!(min_free(&found.helps) && !min_free(&found.does_not_help));
    assert!(found.helps.iter().any(|advice| advice.what.contains("rare")));
}

/// The lines of a task and of a CPU alternate.
#[test]
fn reports_of_two_callers_are_told_apart() {
    let found = explained("two-cpus-interleaved-with-caller-ids.log");
    let seen: Vec<_> = found
        .iter()
        .map(|f| (f.report.line, f.report.version.as_deref(), f.report.memory.zones[0].free))
        .collect();
    let expected = [(1, Some("6.1.73"), Some(33_608)), (2, Some("4.9.0"), Some(143_792))];
    assert_eq!(seen, expected);
}

/// What logs are wrapped in does not change the answer.
#[test]
fn wrapped_logs_say_what_plain_ones_do() {
    let answer = |name: &str| {
        let Explanation { report, class, confidence, zones, .. } = one(name);
        let zones: Vec<_> = zones
            .iter()
            .map(|zone| (zone.free, zone.needed(), zone.blocks, zone.verdict))
            .collect();
        (report.task, report.order, report.flags, report.version, class, confidence, zones)
    };
    let plain = answer("boost-printed.log");
    assert_eq!(plain.0.as_deref(), Some("mosdns"));
    for name in [
        "docker-json.log",
        "journalctl-o-json.log",
        "dmesg-color-always.log",
        "mtk-prefix.log",
        "kmsg-netconsole-ext.log",
        "markdown-backslashes.log",
    ] {
        assert_eq!(answer(name), plain, "{name}");
    }
    assert_eq!(answer("html-br-loses-swap.log"), answer("plain-with-swap.log"));
    assert_eq!(one("html-br-loses-swap.log").report.memory.free_swap_kb, Some(1_836_400));
    assert_eq!(answer("markdown-underscores.log"), answer("with-stars.log"));
    assert_eq!(answer("reply-inside-header.log"), answer("no-reply.log"));
}

#[test]
fn utf_16_is_read() {
    let found = explained("utf16.log");
    assert_eq!(found[0].report.kind, Kind::Stall);
    assert_eq!(found[0].report.task.as_deref(), Some("DOM Worker"));
    assert_eq!(found[0].report.memory.free_swap_kb, Some(1_836_400));
}

#[test]
fn compressed_logs_are_read() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/pasted/boost-printed.log");
    let packed = zstd::encode_all(std::fs::File::open(path).unwrap(), 1).unwrap();
    let found = explain_log(&packed[..]).unwrap().found;
    assert_eq!(found, explained("boost-printed.log"));
    let cut = explain_log(&packed[..packed.len() / 2]).unwrap_err();
    assert_eq!(cut.to_string().lines().count(), 1);
}

#[test]
fn names_of_tasks_are_whole() {
    for (name, task) in [
        ("comm-with-blank.log", "DOM Worker"),
        ("console-text-before.log", "swapper/0"),
        ("header-in-pieces.log", "swapper/3"),
    ] {
        assert_eq!(one(name).report.task.as_deref(), Some(task), "{name}");
    }
    let pieces = one("header-in-pieces.log");
    assert_eq!(
        (pieces.report.order, pieces.report.flags.as_deref()),
        (Some(0), Some("GFP_ATOMIC"))
    );
}

#[test]
fn failures_of_vmalloc_are_of_addresses_or_of_pages() {
    for (name, bytes, had_bytes, lack, flags) in [
        ("vmalloc-error.log", Some(4096), None, Lack::Addresses, "GFP_KERNEL|__GFP_ZERO"),
        (
            "vmalloc-4.19-memcg.log",
            Some(20_480),
            Some(8192),
            Lack::Pages,
            "GFP_KERNEL_ACCOUNT|__GFP_ZERO",
        ),
        (
            "vmalloc-line-only.log",
            Some(20_480),
            Some(12_288),
            Lack::Pages,
            "GFP_KERNEL_ACCOUNT|__GFP_ZERO",
        ),
    ] {
        let found = one(name);
        assert_eq!((found.report.kind, found.class), (Kind::Vmalloc, Class::Vmalloc), "{name}");
        assert_eq!(found.report.vmalloc, Some(Vmalloc { bytes, had_bytes, lack }), "{name}");
        assert_eq!(found.report.flags.as_deref(), Some(flags), "{name}");
        assert_eq!(found.helps.len(), 1, "{name}");
    }
}

/// 503316 kB of the limit of 524288 kB are dirty page cache: 96 %.
#[test]
fn a_cgroup_that_waits_for_writeback_says_so_with_and_without_the_first_line() {
    for (name, task) in
        [("memcg-with-header-dirty-cache.log", Some("cp")), ("memcg-without-header.log", None)]
    {
        let found = one(name);
        assert_eq!((found.class, found.report.task.as_deref()), (Class::Cgroup, task), "{name}");
        assert_eq!(found.missing, Vec::<&str>::new(), "{name}");
        let cgroup = found.report.cgroup.expect("it is printed");
        assert_eq!(cgroup.path.as_deref(), Some("/kubepods/podUID/CONTAINER"), "{name}");
        assert_eq!((cgroup.limit_kb, cgroup.dirty_kb), (Some(524_288), Some(503_316)), "{name}");
        assert_eq!((cgroup.dirty_percent(), cgroup.version), (Some(96), Some(1)), "{name}");
        assert_eq!(found.report.victim.map(|victim| victim.pid), Some(62_685), "{name}");
        let what: Vec<&str> = found.helps.iter().map(|advice| advice.what.as_str()).collect();
        assert!(what[0].contains("dirty") && what[1].contains("memory.limit_in_bytes"), "{what:?}");
    }
}

#[test]
fn lines_of_kills_alone_tell_who_was_killed() {
    let found = explained("only-the-killed-lines.log");
    let seen: Vec<_> = found
        .into_iter()
        .map(|f| (f.class, f.report.victim.map(|victim| (victim.task, victim.anon_kb))))
        .collect();
    let victim = |task: &str, kb| Some((task.to_owned(), Some(kb)));
    let expected =
        [(Class::Unknown, victim("java", 2_630_920)), (Class::Cgroup, victim("uwsgi", 164_992))];
    assert_eq!(seen, expected);
}

#[test]
fn lines_without_a_report_are_explained_once() {
    for (name, about, count, task) in [
        ("xfs-lines.log", About::Xfs(Some(65_728)), 5, Some("fs_mark")),
        ("cma-line.log", About::Cma(200_000, -16), 1, None),
        ("hugetlb-line.log", About::Hugetlb(1000, 400, "2.00 MiB".into()), 1, None),
        ("task-blocked-in-compaction.log", About::Compaction(120), 1, Some("fs_mark")),
    ] {
        let found = one(name);
        assert_eq!((found.class, found.report.line, found.helps.len()), (Class::Notice, 1, 1));
        let notice = found.report.notice.expect("it is a notice");
        assert_eq!((notice.about, notice.count), (about, count), "{name}");
        assert_eq!(notice.task.as_deref(), task, "{name}");
    }
}

/// Before 2.6.35 nothing compacts, but for kernels of RHEL 6, which have it from later ones.
#[test]
fn kernels_without_compaction_are_not_told_to_compact() {
    let log = |version: &str| {
        format!(
            "app: page allocation failure. order:3, mode:0xd0\nPid: 9, comm: app Not tainted {version} #1\nMem-Info:\n\
             Node 0 Normal free:900000kB min:11000kB low:13000kB high:16000kB present:8000000kB\n\
             lowmem_reserve[]: 0 0 0 0\nNode 0 Normal: 200000*4kB 12000*8kB 250*16kB 0*32kB 0*64kB = 900000kB\n"
        )
    };
    for (version, compacts) in [("2.6.32", false), ("2.6.32-754.el6.x86_64", true), ("3.2.0", true)]
    {
        let found = pageblock_doctor::explain(&log(version));
        assert_eq!(found[0].class, pageblock_doctor::class::Class::Fragmentation, "{version}");
        let told = found[0].helps.iter().any(|advice| advice.what.contains("compact_memory"));
        assert_eq!(told, compacts, "{version}: {:?}", found[0].helps);
    }
}
