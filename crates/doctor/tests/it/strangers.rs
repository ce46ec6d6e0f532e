//! Logs as strangers paste them, made up: what each is, who asked, and the first thing that helps.

use pageblock_doctor::class::Class;
use pageblock_doctor::group::groups;
use pageblock_doctor::holders::Holding;
use pageblock_doctor::log::{Kind, Purpose};
use pageblock_doctor::watermark::Verdict;
use pageblock_doctor::{Explanation, explain};

/// A report of a 64 GiB machine: the first line without the task, the stack, the pages of each holder, the zones.
struct Made {
    version: &'static str,
    request: &'static str,
    stack: &'static str,
    /// Anonymous memory, page cache, slab that cannot be freed, huge pages; in pages but the last.
    held: [u64; 4],
    zones: String,
}

impl Made {
    fn log(&self) -> String {
        let Self { version, request, stack, held: [anonymous, file, slab, huge], zones } = self;
        format!(
            "[ 5000.000001] app{request}\n[ 5000.000002] CPU: 1 PID: 42 Comm: app Not tainted {version} #1\n{stack}\
             [ 5000.000100] Mem-Info:\n[ 5000.000101] active_anon:{anonymous} inactive_anon:0 isolated_anon:0\n \
             active_file:{file} inactive_file:0 isolated_file:0\n unevictable:0 dirty:0 writeback:0\n \
             slab_reclaimable:9000 slab_unreclaimable:{slab}\n mapped:1000 shmem:900 pagetables:3000 bounce:0\n{zones}\
             [ 5000.000120] Node 0 hugepages_total={huge} hugepages_free=9 hugepages_surp=0 hugepages_size=2048kB\n\
             [ 5000.000121] 9000 total pagecache pages\n[ 5000.000122] Free swap  = 0kB\n\
             [ 5000.000123] Total swap = 0kB\n[ 5000.000124] 16250000 pages RAM\n"
        )
    }

    fn explain(&self) -> Explanation {
        let mut found = explain(&self.log());
        assert_eq!(found.len(), 1, "{}", self.log());
        found.remove(0)
    }
}

/// A zone of 64 GiB with this much free, in single pages.
fn zone(node: u32, kind: &str, free: u64, min: u64) -> String {
    let (low, high) = (min + min / 4, min + min / 2);
    format!(
        "[ 5000.000110] Node {node} {kind} free:{free}kB min:{min}kB low:{low}kB high:{high}kB present:65000000kB \
         managed:64000000kB mlocked:0kB free_cma:0kB\n[ 5000.000111] lowmem_reserve[]: 0 0 0\n\
         [ 5000.000112] Node {node} {kind}: {}*4kB (UME) = {free}kB\n",
        free / 4
    )
}

const OOM: &str =
    " invoked oom-killer: gfp_mask=0x100cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0";

fn made(request: &'static str, zones: String) -> Made {
    let held = [15_000_000, 2000, 20_000, 0];
    Made { version: "5.15.0-91-generic", request, stack: "", held, zones }
}

#[test]
fn who_holds_the_memory_of_a_machine_is_named() {
    let short = || zone(0, "Normal", 60_000, 66_000);
    for (held, holding, help) in [
        ([15_000_000, 2000, 20_000, 0], Holding::Anonymous, "ps -eo rss"),
        ([600_000, 2000, 20_000, 28_000], Holding::Hugetlb, "vm.nr_hugepages"),
        ([600_000, 2000, 20_000, 0], Holding::Uncounted, "arcstats"),
        ([600_000, 2000, 14_000_000, 0], Holding::SlabUnreclaimable, "slabtop"),
    ] {
        let found = Made { held, ..made(OOM, short()) }.explain();
        assert_eq!((found.class, found.holders[0].holding), (Class::Shortage, holding));
        assert!(found.helps[0].what.contains(help), "{:?}", found.helps);
    }
}

#[test]
fn what_a_request_was_for_is_read_from_the_stack() {
    let fragmented = || zone(0, "Normal", 240_000, 67_000);
    for (request, stack, purpose, help) in [
        (
            ": page allocation failure: order:9, mode:0x1c20ca(GFP_TRANSHUGE_LIGHT|__GFP_NORETRY), nodemask=(null)",
            "[ 5000.1]  __alloc_pages+0x1/0x2\n[ 5000.1]  do_huge_pmd_anonymous_page+0x1/0x2\n",
            Some(Purpose::HugePage),
            "nothing, if the program works",
        ),
        (
            ": page allocation failure: order:4, mode:0x40cc0(GFP_KERNEL|__GFP_COMP), nodemask=(null)",
            "[ 5000.1]  kmalloc_order+0x1/0x2\n[ 5000.1]  nvkms_alloc+0x1/0x2 [nvidia_modeset]\n",
            Some(Purpose::Graphics),
            "compact_memory",
        ),
        (
            ": page allocation failure: order:2, mode:0xa20(GFP_ATOMIC), nodemask=(null)",
            "[ 5000.1]  new_slab+0x1/0x2\n[ 5000.1]  __alloc_skb+0x1/0x2\n",
            Some(Purpose::Packet),
            "vm.compaction_proactiveness",
        ),
    ] {
        let found = Made { stack, ..made(request, fragmented()) }.explain();
        assert_eq!(found.class, Class::Fragmentation, "{request}");
        assert_eq!(found.report.caller.unwrap().purpose, purpose);
        assert!(found.helps[0].what.contains(help), "{:?}", found.helps);
        let twice = |advice: &&pageblock_doctor::advice::Advice| {
            let key = |what: &str| what.contains("vm.min_free_kbytes");
            key(&advice.what) && found.does_not_help.iter().any(|other| key(&other.what))
        };
        assert_eq!(found.helps.iter().find(twice), None, "it helps, or it does not");
    }
}

/// Node 0 has 15 GB free, which a policy or a cpuset keeps from the task.
#[test]
fn nodes_that_a_request_may_not_use_do_not_serve_it() {
    let policy = " invoked oom-killer: gfp_mask=0x100cca(GFP_HIGHUSER_MOVABLE), nodemask=1, order=0, oom_score_adj=0";
    let nodes = zone(0, "Normal", 15_000_000, 33_000) + &zone(1, "Normal", 32_000, 33_500);
    let found = made(policy, nodes.clone()).explain();
    assert_eq!((found.class, found.zones.len()), (Class::NodeMask, 1));
    let cpuset = made(OOM, nodes).log()
        + "[ 5000.2] oom-kill:constraint=CONSTRAINT_CPUSET,nodemask=(null),cpuset=db,mems_allowed=1,task=app,pid=42,uid=0\n";
    let found = explain(&cpuset);
    assert_eq!((found.len(), found[0].class, found[0].zones.len()), (1, Class::NodeMask, 1));
}

#[test]
fn low_memory_of_32_bits_is_not_high_memory() {
    let zones = zone(0, "Normal", 114_488, 3044) + &zone(0, "HighMem", 27_530_668, 512);
    let request = " invoked oom-killer: gfp_mask=0x42d0, order=3, oom_score_adj=0";
    let found = Made { version: "3.5.0-17-generic", ..made(request, zones) }.explain();
    assert_eq!(found.class, Class::Fragmentation);
    assert_eq!(found.helps[0].what, "a 64-bit kernel");
}

/// A quarter of 52840 kB would be the least distance of `low`: it is 4065 kB, so that 36580 kB are a boost.
#[test]
fn a_boost_that_is_not_printed_is_seen() {
    let zones = zone(0, "Normal", 16_000, 52_840)
        .replace("low:66050kB high:79260kB", "low:56905kB high:60970kB");
    let request = ": page allocation failure: order:0, mode:0xa20(GFP_ATOMIC), nodemask=(null)";
    let held = [9_000_000, 5_000_000, 20_000, 0];
    let found = Made { held, version: "5.4.0-100-generic", ..made(request, zones) }.explain();
    let zone = found.boosted().expect("the boost decides");
    assert_eq!((zone.boost, zone.is_boost_inferred), (Some(36_580), true));
    assert!(found.helps[0].what.contains("watermark_boost_factor"), "{:?}", found.helps);
}

/// One failure of vmalloc is told by up to three lines, and a page is asked for on behalf of a slab cache.
#[test]
fn lines_about_one_failure_are_one_report() {
    let found = explain(
        "[ 7.1] vmap allocation for size 37806080 failed: use vmalloc=<size> to increase size.\n\
         [ 7.1] vmalloc: allocation failure: 37798136 bytes\n\
         [ 7.1] insmod: page allocation failure: order:0, mode:0xd2\n\
         [ 7.1] CPU: 1 PID: 4211 Comm: insmod Tainted: G           O 3.14.1-1-ARCH #1\n",
    );
    assert_eq!((found.len(), found[0].report.kind), (1, Kind::Vmalloc));
    assert_eq!(found[0].report.vmalloc.unwrap().bytes, Some(37_798_136));
    assert_eq!(found[0].report.task.as_deref(), Some("insmod"));
    let request = ": page allocation failure: order:0, mode:0x800(GFP_NOWAIT), nodemask=(null)";
    let log = format!(
        "warn_alloc: 12 callbacks suppressed\n{}\
         [ 5000.2] SLUB: Unable to allocate memory on node -1, gfp=0x900(GFP_NOWAIT|__GFP_ZERO)\n\
         [ 5000.2]   cache: page->ptl, object size: 72, buffer size: 72, default order: 0, min order: 0\n\
         [ 5000.2]   node 0: slabs: 236, objs: 13216, free: 0\n",
        made(request, zone(0, "Normal", 16_000, 33_000)).log()
    );
    let found = explain(&log);
    assert_eq!((found.len(), found[0].report.suppressed), (1, Some(12)));
    let slab = found[0].report.slab.as_ref().unwrap();
    assert_eq!(slab.cache.as_deref(), Some("page->ptl"));
}

/// 67 MB are free, which is above the min watermark of 66 MB: the last attempt before a kill wants the high one.
#[test]
fn an_oom_kill_between_min_and_high_is_a_shortage() {
    let found = made(OOM, zone(0, "Normal", 67_000, 66_000)).explain();
    assert_eq!((found.class, found.zones[0].verdict), (Class::Shortage, Verdict::BelowHigh));
    let found = made(OOM, zone(0, "Normal", 670_000, 66_000)).explain();
    assert_eq!((found.class, found.zones[0].verdict), (Class::Changed, Verdict::Fits));
}

/// What a request alone tells is said apart from what is known.
#[test]
fn a_failure_without_its_state_is_unknown_and_has_a_likely_class() {
    let fragmentation = Some(Class::Fragmentation);
    for (line, likely, first) in [
        ("exporter: page allocation failure. order:5, mode:0xd0", fragmentation, "echo 1 > /proc"),
        (
            "swapper/21: page allocation failure: order:0, mode:0x20",
            Some(Class::Burst),
            "nothing, if",
        ),
        ("cld: page allocation failure. order:1, mode:0x20", fragmentation, "sysctl vm.min_free"),
        ("kworker/0:1: page allocation failure: order:1, mode:0xd0", None, "journalctl -k"),
    ] {
        let found = explain(line);
        assert_eq!((found[0].class, found[0].likely), (Class::Unknown, likely), "{line}");
        let helps = &found[0].helps;
        assert!(helps[0].what.starts_with(first), "{helps:?}");
        assert!(helps.iter().any(|advice| advice.what.starts_with("journalctl -k")), "{helps:?}");
    }
}

#[test]
fn kills_without_their_report_are_one_group() {
    let kill = |n: u32| {
        format!(
            "[  518.0] Out of memory: Killed process {n} ((resolved)) total-vm:11kB, anon-rss:4288kB, file-rss:3kB\n"
        )
    };
    let found = explain(&(1..=40).map(kill).collect::<String>());
    let groups = groups(&found);
    assert_eq!((groups.len(), groups[0].members.len()), (1, 40));
    assert_eq!(groups[0].differences(&found).victims, [("(resolved)".to_owned(), 40)]);
}

/// Nothing can be freed while the kernel unpacks its first file system, and only pools of DMA memory are asked for.
#[test]
fn what_the_kernel_itself_asks_for_at_boot_is_told_by_its_task() {
    let oom = "invoked oom-killer: gfp_mask=0x6200c2, order=0, oom_score_adj=0";
    let failure = "page allocation failure: order:5, mode:0xcc1(GFP_KERNEL|GFP_DMA)";
    for (line, first) in [
        (format!("[ 7.1] swapper {oom}\n"), "more memory, or a smaller initramfs"),
        (format!("[ 700.1] swapper {oom}\n"), "journalctl -k"),
        (format!("[ 7.1] swapper {oom}\n bpf_jit_alloc_exec+0x1/0x2\n"), "journalctl -k"),
        (format!("[ 1.4] swapper/0: {failure}\n"), "nothing, if the devices work"),
        (format!("[ 1.4] insmod: {failure}\n"), "in the driver"),
    ] {
        let what = &explain(&line)[0].helps[0].what;
        assert!(what.starts_with(first), "{line}: {what}");
    }
}

/// A state with memory to spare does not tell to free what has little of it.
#[test]
fn a_small_holder_of_a_machine_with_memory_is_left_alone() {
    let of = |shared: u32| {
        let text = format!(
            "MemTotal: 4000000 kB\nMemFree: 1000000 kB\nMemAvailable: 2000000 kB\nShmem: {shared} kB\nSlab: 9 kB\n"
        );
        explain(&text)[0].helps[0].what.clone()
    };
    assert!(of(150_000).starts_with("nothing for memory"), "{}", of(150_000));
    assert!(of(1_500_000).starts_with("less in tmpfs"), "{}", of(1_500_000));
}
