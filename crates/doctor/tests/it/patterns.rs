//! Each pattern is found in a machine that has it, and not in one that nearly has it. The machines are real ones
//! (`tests/machines`), edited.

use std::fs;
use std::path::Path;

use pageblock_doctor::checkup::{Fragmented, Hurts, Sample, Severity, checkup};
use pageblock_doctor::proc::tree::Tree;

use crate::edited::{Machine, fixture, names, never_runs, one, only, runs, two};

#[test]
fn a_quiet_machine_has_no_finding() {
    let machine = Machine::quiet();
    let later = machine.later();
    let checkup = two(&machine, &later);
    assert_eq!((names(&checkup), checkup.severity(), checkup.hurts), (vec![], None, Hurts::No));
    assert_eq!(checkup.page_kb, 4);
    assert!((checkup.rates.unwrap().seconds - 10.0).abs() < 0.1);
    // Counters since boot say nothing: a million stalls a year ago are none now.
    machine.count("compact_stall", 1_000_000).count("thp_fault_fallback", 1_000_000);
    let checkup = two(&machine, &machine.later());
    assert_eq!((names(&checkup), checkup.hurts), (vec![], Hurts::No));
    assert_eq!((names(&one(&machine)), one(&machine).hurts), (vec![], Hurts::Unknown));
}

#[test]
fn what_is_rare_is_not_said_to_be_never() {
    let machine = Machine::quiet();
    let later = machine.later();
    later.count("compact_stall", 4).count("thp_fault_alloc", 100).count("thp_fault_fallback", 20);
    let checkup = two(&machine, &later);
    assert_eq!(checkup.hurts, Hurts::No);
    let why =
        ["0.4 requests/s compact memory to get a block", "2.0 of 12.0 huge page faults/s get none"];
    assert_eq!(checkup.why, why);
}

/// A real failure, edited into one of an atomic request on a machine with cache.
fn burst_log() -> String {
    let log = fs::read_to_string(fixture("reports/4.12-order-0-used-up.txt")).unwrap();
    log.replace("mode:0x14201ca(GFP_HIGHUSER_MOVABLE|__GFP_COLD)", "mode:0x1080020(GFP_ATOMIC)")
        .replace("DMA32 free:44568kB", "DMA32 free:9000kB")
        .replace("DMA free:7120kB", "DMA free:6000kB")
        .replace("active_file:92 inactive_file:82", "active_file:92000 inactive_file:82")
}

#[test]
fn p1_a_burst_and_not_a_shortage() {
    let machine = Machine::quiet();
    machine.log(&burst_log());
    let checkup = one(&machine);
    let finding = only(&checkup, "burst");
    runs(
        finding,
        "sysctl vm.watermark_scale_factor=100",
        Some("sysctl vm.watermark_scale_factor=10"),
    );
    assert!(finding.does_nothing.iter().any(|advice| advice.what.contains("compact_memory")));
    // Where it is set already, the reserve is what is left.
    machine.sysctl("watermark_scale_factor", 150);
    runs(
        &one(&machine).findings[0],
        "vm.min_free_kbytes=",
        Some("sysctl vm.min_free_kbytes=67584"),
    );
    // The original: next to nothing to reclaim.
    machine.log(&fs::read_to_string(fixture("reports/4.12-order-0-used-up.txt")).unwrap());
    assert_eq!(names(&one(&machine)), [""; 0]);
}

#[test]
fn p2_no_block_left_and_few_left() {
    let machine = Machine::quiet();
    // Order 2 is all that is left of memory that is free beyond the watermarks.
    machine.scattered("900000 700000 500000 0 0 0 0 0 0 0 0");
    let checkup = one(&machine);
    let finding = only(&checkup, "fragmentation");
    assert_eq!((finding.severity, checkup.fragmented), (Severity::Critical, Fragmented::Badly));
    assert!(finding.evidence[0].contains("no block of order 3 (32 KiB)"), "{:?}", finding.evidence);
    runs(finding, "vm.compaction_proactiveness=40", Some("sysctl vm.compaction_proactiveness=20"));
    // Blocks of order 6 are left: orders up to 5 are served.
    machine.scattered("900000 700000 500000 0 0 0 9 0 0 0 0");
    assert_eq!(names(&one(&machine)), [""; 0]);
    // 5.8 has no proactive compaction, and no other version's command is given.
    machine.scattered("900000 700000 500000 0 0 0 0 0 0 0 0");
    machine
        .write("proc/version", "Linux version 5.8.0\n")
        .write("sos_commands/kernel/sysctl_-a", "");
    never_runs(&one(&machine).findings[0], "proactiveness");
}

#[test]
fn p2_and_p7_differ_by_the_order_that_failed() {
    let log = fs::read_to_string(fixture("reports/5.10-arm64-order-5.txt")).unwrap();
    let second = log.lines().skip(30).map(|line| format!("{line}\n")).collect::<String>();
    let first = log.lines().take(30).map(|line| format!("{line}\n")).collect::<String>();
    let machine = Machine::quiet();
    machine.log(&first);
    let checkup = one(&machine);
    assert_eq!(only(&checkup, "fragmentation").severity, Severity::Warning);
    assert_eq!(checkup.hurts, Hurts::Did);
    machine.log(&second);
    let checkup = one(&machine);
    assert!(only(&checkup, "very_large_blocks").evidence[0].contains("order 6"));
}

#[test]
fn p3_fewer_hugetlb_pages_than_asked() {
    let machine = Machine::quiet();
    machine.line("proc/meminfo", "HugePages_Total:", "HugePages_Total:     900");
    machine.write("etc/sysctl.d/90-db.conf", "# pages of the database\nvm.nr_hugepages = 1024\n");
    let checkup = one(&machine);
    let finding = only(&checkup, "hugetlb_short");
    assert!(
        finding.evidence[0]
            .starts_with("/etc/sysctl.d/90-db.conf asks for 1024 pages, there are 900")
    );
    runs(finding, "sysctl vm.nr_hugepages=1024", Some("sysctl vm.nr_hugepages=900"));
    machine.line("proc/meminfo", "HugePages_Total:", "HugePages_Total:    1024");
    assert_eq!(names(&one(&machine)), [""; 0]);
}

#[test]
fn p4_kswapd_that_frees_nothing_and_kswapd_at_work() {
    let machine = Machine::quiet();
    machine.thread(52, "kswapd0", 100);
    let later = machine.later();
    later
        .thread(52, "kswapd0", 1000)
        .count("pgscan_kswapd", 9_000_000)
        .count("pgsteal_kswapd", 90_000);
    let checkup = two(&machine, &later);
    let finding = only(&checkup, "kswapd_busy");
    assert!(finding.evidence[0].contains("kswapd0 uses 90 %"), "{:?}", finding.evidence);
    assert!(finding.does_nothing.iter().any(|advice| advice.what == "vm.swappiness=0"));
    later.count("pgsteal_kswapd", 8_000_000);
    assert_eq!(names(&two(&machine, &later)), [""; 0]);
    // Boosted watermarks are why it works.
    let zoneinfo = fs::read_to_string(later.path("proc/zoneinfo")).unwrap();
    later.write("proc/zoneinfo", &zoneinfo.replace("boost    0", "boost    9216"));
    let checkup = two(&machine, &later);
    runs(
        only(&checkup, "kswapd_busy"),
        "vm.watermark_boost_factor=0",
        Some("sysctl vm.watermark_boost_factor=15000"),
    );
}

#[test]
fn p4_kcompactd_in_a_loop_and_at_work() {
    let machine = Machine::quiet();
    machine.thread(53, "kcompactd0", 100);
    let later = machine.later();
    later.thread(53, "kcompactd0", 1090).count("compact_daemon_free_scanned", 50_000_000);
    let checkup = two(&machine, &later);
    let finding = only(&checkup, "kcompactd_busy");
    runs(finding, "vm.compaction_proactiveness=0", Some("sysctl vm.compaction_proactiveness=20"));
    assert!(finding.does_nothing.iter().any(|advice| advice.what.contains("extfrag_threshold")));
    later.thread(53, "kcompactd0", 400);
    assert_eq!(names(&two(&machine, &later)), [""; 0]);
}

/// A machine after a kill says so, and when that was.
#[test]
fn an_oom_kill_is_told_with_its_time() {
    let machine = Machine::quiet();
    let uptime = fs::read_to_string(machine.path("proc/uptime")).unwrap();
    let now: f64 = uptime.split_whitespace().next().unwrap().parse().unwrap();
    let kill = |ago: f64| {
        format!("[{:12.6}] Out of memory: Killed process 4242 (tail) total-vm:9kB\n", now - ago)
    };
    machine.log(&kill(12.0));
    let checkup = one(&machine);
    assert_eq!((checkup.hurts, checkup.severity()), (Hurts::Did, Some(Severity::Warning)));
    assert_eq!(checkup.why, ["the OOM killer ended tail 12 s ago"]);
    assert!(only(&checkup, "oom_kill").evidence[0].starts_with("log line 1: tail was ended 12 s"));
    machine.log(&kill(4000.0));
    let checkup = one(&machine);
    assert_eq!((checkup.hurts, checkup.severity()), (Hurts::Did, Some(Severity::Notice)));
    assert_eq!(checkup.why, ["the OOM killer ended tail 67 minutes ago"]);
    // Between the samples: it hurts.
    let machine = Machine::quiet();
    let later = machine.later();
    later.count("oom_kill", 2);
    let checkup = two(&machine, &later);
    assert_eq!(checkup.hurts, Hurts::Yes);
    assert_eq!(checkup.why, ["the OOM killer ended 2 tasks in these 10 s"]);
    // Before them, and nobody may read the log.
    fs::remove_file(later.path("sos_commands/kernel/dmesg")).ok();
    let checkup = one(&later);
    assert_eq!(checkup.hurts, Hurts::Did);
    assert_eq!(checkup.why, ["the OOM killer ended 2 tasks since boot; the log tells when"]);
}

/// Compaction that hugetlb pages cause is not that of faults, which got their pages without it.
#[test]
fn p5_hugetlb_pages_that_compact_beside_faults() {
    let machine = Machine::quiet();
    machine.thp("enabled", "[always] madvise never\n");
    machine.thp("defrag", "always defer defer+madvise [madvise] never\n");
    let later = machine.later();
    later.count("compact_stall", 580).count("compact_fail", 580).count("thp_fault_alloc", 100);
    later.count("htlb_buddy_alloc_success", 60).count("htlb_buddy_alloc_fail", 10);
    let checkup = two(&machine, &later);
    let found = checkup.findings.iter().find(|finding| finding.name == "direct_compaction");
    let finding = found.expect("58 requests a second compact");
    assert!(finding.cause.starts_with("hugetlb pages are asked for"), "{}", finding.cause);
    assert!(finding.commands.iter().all(|command| !command.run.contains("/defrag")));
    // Nobody who is counted: not known.
    let later = machine.later();
    later.count("compact_stall", 580).count("compact_fail", 100);
    let checkup = two(&machine, &later);
    let finding = only(&checkup, "direct_compaction");
    assert!(finding.cause.starts_with("not known"), "{}", finding.cause);
    runs(finding, "pageblock doctor --trace 10s", None);
}

#[test]
fn p5_faults_that_compact_and_requests_that_do() {
    let machine = Machine::quiet();
    machine.thp("enabled", "[always] madvise never\n");
    machine.thp("defrag", "[always] defer defer+madvise madvise never\n");
    let later = machine.later();
    later.count("compact_stall", 500).count("compact_fail", 400).count("thp_fault_alloc", 1000);
    let checkup = two(&machine, &later);
    let finding = only(&checkup, "direct_compaction");
    assert_eq!((finding.severity, checkup.hurts), (Severity::Critical, Hurts::Yes));
    assert!(
        finding.evidence[0].starts_with("50.0 requests/s compact memory themselves, 80 % of them")
    );
    let file = "/sys/kernel/mm/transparent_hugepage/defrag";
    runs(finding, &format!("echo defer+madvise > {file}"), Some(&format!("echo always > {file}")));
    // 4.10 has no defer+madvise.
    later.write("proc/version", "Linux version 4.10.1\n");
    runs(
        &two(&machine, &later).findings[0],
        &format!("echo defer > {file}"),
        Some(&format!("echo always > {file}")),
    );
    // Faults may not compact: it is somebody else.
    later
        .thp("defrag", "always [defer] defer+madvise madvise never\n")
        .write("proc/version", "Linux version 6.18.44\n");
    let checkup = two(&machine, &later);
    never_runs(only(&checkup, "direct_compaction"), "defrag");
    // One stall in ten seconds is nothing.
    let later = machine.later();
    later.count("compact_stall", 1);
    assert_eq!(names(&two(&machine, &later)), [""; 0]);
}

#[test]
fn p6_coverage_that_decays_and_one_that_does_not() {
    let machine = Machine::quiet();
    let later = machine.later();
    later.count("thp_fault_alloc", 100).count("thp_fault_fallback", 300);
    let checkup = two(&machine, &later);
    let finding = only(&checkup, "huge_pages_decay");
    assert!(
        finding.evidence[0].contains("75 % of 40.0 faults/s get none"),
        "{:?}",
        finding.evidence
    );
    runs(finding, "vm.defrag_mode=1", Some("sysctl vm.defrag_mode=0"));
    assert!(finding.does_nothing.iter().any(|advice| advice.what.contains("drop_caches")));
    let few = machine.later();
    few.count("thp_fault_alloc", 900).count("thp_fault_fallback", 100);
    assert_eq!(names(&two(&machine, &few)), [""; 0]);
    // mTHP has counters of its own.
    let folios = machine.later();
    folios.thp("hugepages-64kB/stats/anon_fault_fallback", "5000\n");
    assert!(only(&two(&machine, &folios), "huge_pages_decay").symptom.contains("large folios"));
    // Without free memory it is another thing.
    let zoneinfo = fs::read_to_string(later.path("proc/zoneinfo")).unwrap();
    let lines = zoneinfo.lines().map(|line| match line.contains("pages free") {
        true => "  pages free     9".to_owned(),
        false => line.to_owned(),
    });
    later.write("proc/zoneinfo", &(lines.collect::<Vec<_>>().join("\n") + "\n"));
    assert_eq!(names(&two(&machine, &later)), [""; 0]);
}

#[test]
fn p8_a_large_arc_on_a_fragmented_machine_only() {
    let machine = Machine::quiet();
    let arc = "13 1 0x01 96 26112 5 9\nname type data\nhits 4 77\nsize 4 12884901888\n";
    machine.write("proc/spl/kstat/zfs/arcstats", arc);
    machine.scattered("9000 7000 50000 9000 5000 500 90 9 1 1 1");
    let checkup = one(&machine);
    let file = "/sys/module/zfs/parameters/zfs_arc_max";
    let undo = format!("echo 12884901888 > {file} (the size now; 0 is the default)");
    runs(only(&checkup, "large_cache"), &format!("echo 6442450944 > {file}"), Some(&undo));
    machine.scattered("9 7 5 9 5 5 9 9 1 1 5000");
    assert_eq!(names(&one(&machine)), [""; 0]);
}

#[test]
fn p9_xfs_and_p10_cma_are_told_by_the_log() {
    let machine = Machine::quiet();
    let xfs = "XFS: java(2291) possible memory allocation deadlock size 65552 in kmem_realloc (mode:0x2400240)\n";
    machine.log(&xfs.repeat(3));
    assert_eq!(only(&one(&machine), "xfs_extents").evidence, ["3 such lines in the log"]);
    machine.log("XFS (sda1): Ending clean mount\n");
    assert_eq!(names(&one(&machine)), [""; 0]);
    let cma = |ret| {
        format!(
            "[   12.345678] cma: cma_alloc: linux,cma: alloc failed, req-size: 2025 pages, ret: {ret}\n"
        )
    };
    machine.log(&cma(-12));
    let checkup = one(&machine);
    assert!(only(&checkup, "cma_full").evidence[0].ends_with("for up to 2025 pages"));
    machine.log(&cma(-16).repeat(2));
    let checkup = one(&machine);
    let finding = only(&checkup, "cma_busy");
    assert!(finding.does_nothing.iter().any(|advice| advice.what == "a larger cma="));
    // Interrupted: nobody is short.
    machine.log(&cma(-4));
    assert_eq!(names(&one(&machine)), [""; 0]);
}

#[test]
fn p11_defrag_mode_where_its_faults_are() {
    let machine = Machine::quiet();
    machine.sysctl("defrag_mode", 1);
    let checkup = one(&machine);
    let finding = only(&checkup, "defrag_mode");
    assert_eq!(finding.severity, Severity::Notice);
    assert!(finding.cause.contains("before 7.2 atomic"));
    let later = machine.later();
    later.count("allocstall_normal", 400).count("pswpout", 90_000);
    assert_eq!(only(&two(&machine, &later), "defrag_mode").severity, Severity::Warning);
    machine.write("proc/version", "Linux version 7.3.1\n");
    assert_eq!(names(&one(&machine)), [""; 0]);
}

#[test]
fn p12_a_monitor_without_the_counters() {
    let machine = Machine::quiet();
    let exporter = |arguments: &str| {
        machine.thread(777, "node_exporter", 5);
        machine.write("proc/777/cmdline", &format!("/usr/bin/node_exporter\0{arguments}\0"));
    };
    exporter("--web.listen-address=:9100");
    let checkup = one(&machine);
    assert_eq!(only(&checkup, "monitor_blind").evidence.len(), 2);
    exporter("--collector.buddyinfo\0--collector.vmstat.fields=^(compact_|thp_).*");
    assert_eq!(names(&one(&machine)), [""; 0]);
}

#[test]
fn a_shortage_is_no_fragmentation() {
    let machine = Machine::quiet();
    machine.line("proc/meminfo", "MemAvailable:", "MemAvailable:     200000 kB");
    assert_eq!(names(&one(&machine)), [""; 0]);
    machine.write("proc/pressure/memory", "some avg10=35.10 avg60=9.00 avg300=2.00 total=99\nfull avg10=9.00 avg60=1.00 avg300=0.00 total=9\n");
    let checkup = one(&machine);
    assert_eq!(only(&checkup, "shortage").severity, Severity::Critical);
}

#[test]
fn a_fragmented_machine_is_said_to_be_fragmented() {
    let machine = Machine::copy(&fixture("machines/6.12-640m-fragmented"));
    let checkup = one(&machine);
    assert_eq!((checkup.fragmented, checkup.hurts), (Fragmented::Yes, Hurts::Unknown));
    // Of 56,067 free pages none is in a block of order 9; counts by hand from buddyinfo.
    assert_eq!((checkup.unusable[9], checkup.zones.len()), (1000, 2));
    assert!(
        checkup.zones.iter().all(|zone| zone.fragmentation[9].is_some_and(|index| index > 900))
    );
    assert!(checkup.zones.iter().all(|zone| zone.fragmentation[0].is_none()));
    let missing: Vec<&str> = checkup.missing.iter().map(|missing| missing.file.as_str()).collect();
    assert!(
        missing.contains(&"/proc/version") && missing.contains(&"/proc/pressure/memory"),
        "{missing:?}"
    );
}

#[test]
fn damaged_files_are_named_and_the_rest_is_read() {
    let machine = Machine::quiet();
    machine.write("proc/buddyinfo", "Node 0, zone Normal x y\n").write("proc/zoneinfo", "Node\n");
    machine.write("proc/vmstat", "nr_free_pages\n\u{0}\u{1}\n").write("proc/pagetypeinfo", "?\n");
    let checkup = one(&machine);
    assert_eq!(checkup.fragmented, Fragmented::Unknown);
    for file in ["/proc/buddyinfo", "/proc/zoneinfo", "/proc/pagetypeinfo"] {
        assert!(
            checkup.missing.iter().any(|missing| missing.file == file),
            "{file}: {:?}",
            checkup.missing
        );
    }
    // A machine that was started in between has no rates.
    let machine = Machine::quiet();
    let later = machine.later();
    let checkup = two(&later, &machine);
    assert!(
        checkup.rates.is_none() && checkup.missing.iter().any(|missing| missing.file == "rates")
    );
}

#[test]
fn the_machine_where_tests_run_is_examined() {
    let sample = Sample::read(&Tree::new(Path::new("/")), true);
    if sample.zones.is_empty() {
        eprintln!("skipped: no /proc/zoneinfo here");
        return;
    }
    let checkup = checkup(&sample, None);
    assert!(checkup.free.is_some_and(|free| free > 0) && checkup.unusable.len() >= 10);
    assert!(checkup.unusable.is_sorted() && checkup.unusable[0] == 0);
}
