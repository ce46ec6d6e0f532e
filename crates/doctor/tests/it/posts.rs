//! Whole posts, made up: the answer that comes first, by its class, its first advice, and who holds the memory.

use pageblock_doctor::class::Class;
use pageblock_doctor::explain;
use pageblock_doctor::holders::Holding;

/// The counts and the end of a state of memory, whose zones go between.
const COUNTS: &str = "Mem-Info:\nactive_anon:90000 inactive_anon:0 isolated_anon:0\n active_file:9 inactive_file:0 isolated_file:0\n \
                      unevictable:0 dirty:0 writeback:0\n slab_reclaimable:900 slab_unreclaimable:900\n mapped:9 shmem:0 pagetables:90 bounce:0\n";
const END: &str = "Free swap  = 0kB\nTotal swap = 0kB\n4000000 pages RAM\n90000 pages reserved\n";
const OOM: &str =
    "app invoked oom-killer: gfp_mask=0x100cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0\n";

/// Returns the first answer: its class or the likely one, its first advice, the largest holder.
fn first(log: &str) -> Option<(Class, String, Option<Holding>)> {
    let found = explain(log);
    let of = found.first()?;
    let holder = of.holders.first().map(|holder| holder.holding);
    let advice = of.helps.first().map_or(String::new(), |advice| advice.what.clone());
    Some((of.likely.unwrap_or(of.class), advice, holder))
}

#[test]
fn the_first_answer_is_the_one_that_decides() {
    let zone = |numbers: &str| {
        format!(
            "{OOM}{COUNTS}Node 0 Normal free:40000kB min:50000kB low:60000kB high:70000kB{numbers}\nlowmem_reserve[]: 0 0\n{END}"
        )
    };
    let low = "dd invoked oom-killer: gfp_mask=0x101cc0(GFP_USER|__GFP_WRITE), order=0, oom_score_adj=0\nMem-Info:\n\
               Normal free:4300kB min:7700kB low:8600kB high:9500kB inactive_file:780000kB present:880000kB managed:840000kB\n\
               lowmem_reserve[]: 0 0 8000\nHighMem free:900000kB min:500kB low:1700kB high:2900kB present:990000kB managed:990000kB\n\
               lowmem_reserve[]: 0 0 0\nNormal: 1075*4kB (U) = 4300kB\nHighMem: 225000*4kB (M) = 900000kB\n";
    let failure = "a: page allocation failure: order:0, mode:0x820(GFP_ATOMIC), nodemask=(null)\n";
    let state = zone(" managed:900000kB")
        .replace(OOM, &failure.replace("0x820(GFP_ATOMIC)", "0xcc0(GFP_KERNEL)"));
    let blocked = |frame: &str| {
        format!(
            "INFO: task db:77 blocked for more than 120 seconds.\nCall Trace:\n io_schedule+0x1/0x2\n shrink_page_list+0x1/0x2\n {frame}+0x1/0x2\n"
        )
    };
    let slab = "Unreclaimable slab info:\nName                      Used          Total\nextents             3207098KB    3375622KB\n";
    let cpuset = "app invoked oom-killer\noom-kill:constraint=CONSTRAINT_CPUSET,nodemask=(null),cpuset=a,mems_allowed=0\n\
             Out of memory: Killed process 7 (app) total-vm:9kB, anon-rss:3146756kB, file-rss:1kB\n";
    let write = "dd invoked oom-killer: gfp_mask=0x101c4a(GFP_NOFS|__GFP_WRITE), order=0, oom_score_adj=0\nCall Trace:\n \
             mem_cgroup_out_of_memory+0x1/0x2\n";
    let pool = "swapper/0: page allocation failure: order:5, mode:0xcc1(GFP_KERNEL|GFP_DMA), nodemask=(null)\nCall Trace:\n \
             atomic_pool_expand+0x1/0x2\n";
    for (log, answer) in [
        (cpuset.to_owned(), "NodeMask None a wider cpuset.mems"),
        (write.to_owned(), "Cgroup None look at file_dirty"),
        (low.to_owned(), "ZoneMask Some(File) find what keeps reclaim"),
        (
            format!(
                "[ 0.7] kworker/u2:0{}Call Trace:\n unpack_to_rootfs+0x1/0x2\n{COUNTS}",
                &OOM[3..]
            ),
            "Shortage Some(Anonymous) more memory, or a smaller initramfs",
        ),
        (
            format!("Killed process 9 (b) total-vm:9kB, anon-rss:9kB\n[ 9.1] c{}{slab}", &OOM[3..]),
            "Shortage Some(SlabUnreclaimable) find what fills the slab cache extents",
        ),
        // Of 16 GB, with the lines of zones cut, 15 are in no counter.
        (zone(" active_anon:3600>"), "Shortage Some(Uncounted) find who has it"),
        (pool.to_owned(), "ZoneMask None nothing, if the devices work"),
        (
            format!("{failure}\n{}{state}", "text\n".repeat(9)),
            "Shortage Some(Uncounted) find who has it",
        ),
        // 0 of what the watermark of Normal was is known, and 10 of 15 GB are free.
        (
            zone(" managed:15000000kB").replace(
                "free:40000kB min:50000kB low",
                "free:10000000kB min:99395541895224kB low",
            ),
            "Unknown None journalctl -k",
        ),
        (
            state
                .replace("a: page", "[ 1] a: page")
                .replace("Mem-Info", " alloc_anon_folio+0x1/0x2\nMem-Info"),
            "Shortage Some(Uncounted) find who has it",
        ),
        (blocked("try_to_free_mem_cgroup_pages"), "Notice None look at the limit of the task's"),
        (blocked("xfs_vm_writepages"), "Notice None a newer kernel: the task asks"),
        (blocked("filemap_fault"), "Notice None look for a slow disk"),
    ] {
        let (class, first, holder) = first(&log).expect("an answer");
        let seen = format!("{class:?} {holder:?} {first}");
        assert!(seen.starts_with(answer), "{seen}\n{log}");
    }
}

#[test]
fn titles_and_crashes_are_no_answer() {
    for log in [
        "Subject: Re: mm: mkfs invoked oom-killer on i386 - pagecache_get_page\n\nIt is gone now.\n",
        "Unable to handle kernel NULL pointer dereference at 0\nPC is at lock+0x1/0x2\n cma_alloc+0x1/0x2\n alloc_contig_range+0x1/0x2\n",
    ] {
        assert_eq!(first(log), None, "{log}");
    }
}

/// The size of a page is not printed, and follows from the names of kernels of some distributions.
#[test]
fn pages_of_64_kb_are_known_by_the_name_of_the_kernel() {
    for (version, kb) in
        [("4.18.0-139.el8.ppc64le", 64), ("4.18.0-1.el8.aarch64", 64), ("6.1.0", 4)]
    {
        let log = format!("{OOM}CPU: 2 PID: 9 Comm: app Not tainted {version} #1\n{COUNTS}");
        assert_eq!(explain(&log)[0].holders[0].kb, 90_000 * kb, "{version}");
    }
}
