//! The first step of an answer: it depends on who has the memory, as far as the log tells.

use pageblock_doctor::class::Class;
use pageblock_doctor::log::Kind;
use pageblock_doctor::{Explanation, explain};

/// Returns the only explanation of a log.
#[track_caller]
fn only(log: &str) -> Explanation {
    let mut found = explain(log);
    assert_eq!(found.len(), 1, "{log}");
    found.remove(0)
}

#[track_caller]
fn begins(log: &str, what: &str) {
    let helps = only(log).helps;
    assert!(helps[0].what.starts_with(what), "{helps:?}");
}

const KILL: &str = "app invoked oom-killer: gfp_mask=0x201da, order=0, oom_score_adj=0\n\
                    [ pid ]   uid  tgid total_vm      rss nr_ptes swapents oom_score_adj name\n";

/// Many small processes may have more than the largest one.
#[test]
fn processes_of_one_name_count_together() {
    let row = |pid: u32, rss: u32, name: &str| {
        format!("[ {pid}]     0  {pid}      492     {rss}       4        0             0 {name}\n")
    };
    let workers: String = (100..140).map(|pid| row(pid, 5000, "worker")).collect();
    let log = [KILL, &row(99, 60_000, "database"), &workers].concat();
    let named = only(&log).report.most_named.unwrap();
    assert_eq!((named.task.as_str(), named.count, named.pages), ("worker", 40, 200_000));
    begins(&log, "less memory for 40 of worker");
    let one = [KILL, &row(99, 300_000, "database"), &workers].concat();
    assert_eq!(only(&one).report.most_named, None);
    begins(&one, "less memory for database");
}

/// Lines that two consoles printed, or somebody repeated, add up to more than the machine has.
#[test]
fn more_than_the_machine_has_is_not_counted() {
    let state = |times: usize| {
        let counts =
            " active_anon:1000 inactive_anon:1000\n active_file:90000 inactive_file:90000\n";
        KILL.to_owned() + "Mem-Info:\n" + &counts.repeat(times) + "524288 pages RAM\n"
    };
    let memory = |times| only(&state(times)).report.memory;
    assert_eq!(memory(1).file_pages, Some(180_000));
    assert_eq!((memory(3).file_pages, memory(3).held.anonymous), (None, Some(24_000)));
    assert_eq!(memory(300).held.anonymous, None);
}

/// A state without a request tells who has the memory, or that nothing is short.
#[test]
fn a_state_alone_has_a_first_step() {
    let state = |available: u32, slab: u32| {
        format!(
            "MemTotal: 8000000 kB\nMemFree: 100000 kB\nMemAvailable: {available} kB\nBuffers: 0 kB\nCached: 300000 kB\n\
             AnonPages: 200000 kB\nShmem: 0 kB\nSlab: {slab} kB\nSReclaimable: 0 kB\nSUnreclaim: {slab} kB\nSwapFree: 0 kB\n"
        )
    };
    begins(&state(150_000, 7_300_000), "slabtop");
    begins(&state(7_000_000, 200_000), "find who has it: VmallocUsed");
    let cached = state(7_000_000, 200_000).replace("Cached: 300000", "Cached: 7300000");
    begins(&cached, "nothing for memory at that moment");
}

/// Mail wraps the first line anywhere.
#[test]
fn a_first_line_that_is_broken_in_the_middle_begins_a_report() {
    let of = only(
        "[  336.17] kworker/u48:6: page\nallocation failure: order:5, mode:\n0x40c40(GFP_NOFS|__GFP_COMP), nodemask=(null)\n\
         [  336.18] CPU: 7 PID: 1407\nComm: kworker/u48:6 Not tainted 6.14.0 #9\n",
    );
    let report = &of.report;
    assert_eq!((report.kind, report.order), (Kind::Failure, Some(5)));
    assert_eq!(report.flags.as_deref(), Some("GFP_NOFS|__GFP_COMP"));
}

/// On 32 bits high memory does not serve the kernel itself, however much of it is free.
#[test]
fn the_kernels_own_memory_on_32_bits_is_of_low_zones() {
    let log = "sh invoked oom-killer: gfp_mask=0xd0, order=1, oom_score_adj=0\n\
               Pid: 3, comm: sh Not tainted 3.2.0-4-686-pae #1\nMem-Info:\n\
               Normal free:43788kB min:44112kB low:55140kB high:66168kB present:887976kB\nlowmem_reserve[]: 0 0 400\n\
               HighMem free:474208kB min:512kB low:7898kB high:15792kB inactive_file:16579kB present:635553kB\n\
               lowmem_reserve[]: 0 0 0\nNormal: 900*4kB 620*8kB 2200*16kB = 43760kB\nHighMem: 226*4kB 242*8kB 29457*16kB = 474152kB\n\
               Free swap  = 0kB\n390000 pages RAM\n";
    assert_eq!(only(log).class, Class::ZoneMask);
    begins(log, "a 64-bit kernel");
    let full = log.replace("HighMem free:474208kB", "HighMem free:500kB");
    assert_eq!(only(&full).class, Class::SlowReclaim, "high memory is as short");
}

/// What is advised first is not among what does not help.
#[test]
fn no_advice_is_for_and_against_the_same() {
    let log = "dd invoked oom-killer: gfp_mask=0x400dc0(GFP_KERNEL_ACCOUNT|__GFP_ZERO), order=2, oom_score_adj=0\n\
               CPU: 1 PID: 7 Comm: dd Not tainted 6.6.32 #1\nMem-Info:\n\
               DMA free:202296kB boost:0kB min:22528kB low:28160kB high:33792kB reserved_highatomic:0KB managed:1900000kB free_cma:91480kB\n\
               lowmem_reserve[]: 0 0 0 0\nDMA: 15619*4kB (UMEC) 8377*8kB (UMEC) 385*16kB (C) 1000*64kB (C) = 199652kB\n\
               Free swap  = 0kB\n524288 pages RAM\n";
    let of = only(log);
    assert_eq!(of.class, Class::OnlyCma);
    begins(log, "echo 1 > /proc/sys/vm/compact_memory");
    let against = |what: &String| of.does_not_help.iter().any(|other| other.what == *what);
    assert!(of.does_not_help.iter().any(|other| other.what.contains("min_free_kbytes")));
    for help in &of.helps {
        assert!(!against(help.what.split(", once").next().map(str::to_owned).as_ref().unwrap()));
    }
}

/// A cache that the kernel frees is not what fills slab that it cannot free.
#[test]
fn the_cache_that_is_kept_is_looked_at() {
    begins(
        "990 990  99%    0.19K   9000       21     90000K dentry\n\
         36465 3646  10%    0.38K  17364       21    60000K filp\n\
         36465 3646  10%    0.38K  17364       21    50000K iommu_iova\n",
        "find what fills the slab cache filp",
    );
}

/// A boost holds little back where the kernel itself has the memory.
#[test]
fn pages_of_the_kernel_come_before_a_boost() {
    let log = "nfsd invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n\
               CPU: 1 PID: 7 Comm: nfsd Not tainted 6.8.1 #1\nMem-Info:\n\
               active_anon:101 inactive_anon:127 isolated_anon:29\n active_file:1200 inactive_file:1204 isolated_file:98\n\
               unevictable:394 dirty:296 writeback:17\n slab_reclaimable:13680 slab_unreclaimable:4350\n\
               mapped:637 shmem:4 pagetables:414\n sec_pagetables:0 bounce:0\n kernel_misc_reclaimable:0\n\
               free:7279 free_pcp:184 free_cma:0\n\
               Node 0 kernel_stack:584kB pagetables:1656kB\n\
               Normal free:25000kB boost:18432kB min:26624kB low:28672kB high:30720kB reserved_highatomic:0KB present:1048576kB managed:1011988kB free_cma:0kB\n\
               lowmem_reserve[]: 0 0\nNormal: 2000*4kB (UE) 1125*8kB (UE) 500*16kB (UE) = 25000kB\n2991 total pagecache pages\n\
               Free swap  = 93424kB\n262144 pages RAM\n9147 pages reserved\n";
    begins(log, "find who has it");
}

/// The advice against dirty cache knows the version of cgroups, and a state of shared memory who has it.
#[test]
fn dirty_cache_and_shared_memory_have_first_steps() {
    let log = "a invoked oom-killer: gfp_mask=0x8d40, order=0, oom_score_adj=0\n\
               memory: usage 32768kB, limit 32768kB, failcnt 9\nswap: usage 0kB, limit 0kB, failcnt 0\n\
               Memory cgroup stats for /a:\nanon 0\nfile 26927104\nfile_dirty 26927104\n\
               Memory cgroup out of memory: Killed process 8 (a) total-vm:8kB, anon-rss:2kB, file-rss:4kB, shmem-rss:0kB\n";
    assert!(only(log).helps[0].why.contains("the disk is slower"));
    let shared = "Mem-Info:\nactive_anon:4426 inactive_anon:4668 isolated_anon:0\n active_file:20 inactive_file:51\n\
                  unevictable:7035290 dirty:0 writeback:0\n slab_reclaimable:212 slab_unreclaimable:479\n mapped:2 shmem:7078021 pagetables:3\n\
                  Node 0 DMA free:11264kB min:28kB low:40kB high:52kB present:15996kB managed:15360kB\n";
    let holders = only(shared).holders;
    assert_eq!(holders.iter().filter(|holder| holder.kb > 20 << 20).count(), 1, "{holders:?}");
    begins(shared, "less in tmpfs");
}

/// Pagers cut long lines: without the size of a zone, what reclaim could take is compared with what is held.
#[test]
fn zones_without_their_size_are_not_reclaimable_for_a_few_pages() {
    let log = "tuned invoked oom-killer: gfp_mask=0x6200ca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0\n\
               CPU: 1 PID: 7 Comm: tuned Not tainted 4.18.0 #1\nMem-Info:\n\
               active_anon:18180 inactive_anon:738744 isolated_anon:0\n active_file:18 inactive_file:337 isolated_file:32\n\
               unevictable:132114 dirty:0 writeback:0 unstable:0\n slab_reclaimable:6250 slab_unreclaimable:5966\n\
               mapped:1626 shmem:738916 pagetables:1396 bounce:0\n free:31759 free_pcp:30 free_cma:0\n\
               Node 0 Normal free:46452kB min:51248kB low:64060kB high:76872kB >\nlowmem_reserve[]: 0 0 0\n\
               Node 0 Normal: 833*4kB (UME) 712*8kB (UME) 11*512kB >\n871413 total pagecache pages\nFree swap  = 0kB\n";
    let of = only(log);
    assert_eq!(of.class, Class::Shortage);
    begins(log, "less in tmpfs");
}

/// What a crash printed in between, the title of a mail, and a broken path are not the report's.
#[test]
fn what_stands_between_the_lines_is_not_the_reports() {
    let log = "Subject: [test] thp04: page allocation failure: order:0, mode:0x400dc0(GFP_KERNEL_ACCOUNT|__GFP_ZERO)\n\n\
               [ 1303.1] thp04: page allocation failure: order:0, mode:0x400dc0(GFP_KERNEL_ACCOUNT|__GFP_ZERO), nodemask=(null)\n\
               [ 1303.2] Unable to handle kernel paging request at virtual address 0000000000001540\n\
               [ 1303.3] CPU: 0 PID: 210 Comm: kworker/0:2 Not tainted 5.4.114 #1\n[ 1303.4] Call trace:\n\
               [ 1303.5]  next_online_pgdat+0x24/0x78\n[ 1303.6]  vmstat_shepherd+0x24/0x78\n";
    let of = only(log);
    assert_eq!((of.report.line, of.report.caller.as_ref()), (3, None));
    let kill = "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=c,mems_allowed=0,oom_memcg=/0,task_memcg=in\n\
                Memory cgroup out of memory: Killed process 8 (a) total-vm:8kB, anon-rss:2kB, file-rss:4kB, shmem-rss:0kB\n";
    assert_eq!(only(kill).report.cgroup.unwrap().task_path, None);
}

/// The kill of a large process tells more than a request without a victim; units are typed by hand, too.
#[test]
fn kills_with_a_large_victim_come_first() {
    let request = |task: &str| {
        format!(
            "{task} invoked oom-killer: gfp_mask=0x6280ca(GFP_HIGHUSER_MOVABLE|__GFP_ZERO), nodemask=(null), order=0, oom_score_adj=0\n\
             CPU: 0 PID: 2 Comm: {task} Not tainted 4.19.76 #1\n out_of_memory+0x28b/0x4a0\n __alloc_pages_slowpath+0x9c9/0xd10\n"
        )
    };
    let kill = "Out of memory: Kill process 2 (mysqld) score 9 or sacrifice child\n\
                killed process 2 (mysqld) total-vm:9812836kb, anon-rss: 978840kb, file-rss:0kb\n";
    let log = [&request("sh"), "\n", kill, &request("cat")].concat();
    let found = explain(&log);
    let victims: Vec<_> = found
        .iter()
        .map(|of| of.report.victim.as_ref().and_then(|victim| victim.anon_kb))
        .collect();
    assert_eq!(victims[0], Some(978_840));
    let last = [&request("sh"), &request("mysqld"), kill].concat();
    assert_eq!(explain(&last)[0].report.task.as_deref(), Some("mysqld"));
}

/// A whole state without a zone is that of a kernel whose allocator is not set up yet: no burst.
#[test]
fn a_state_without_zones_at_boot_is_no_burst() {
    let log = "[    0.000000] swapper: page allocation failure: order:0, mode:0x0(), nodemask=(null)\n\
               [    0.000000] CPU: 0 PID: 0 Comm: swapper Not tainted 6.3.0-rc7 #1\n[    0.000000] Mem-Info:\n\
               [    0.000000] active_anon:0 inactive_anon:0 isolated_anon:0\n[    0.000000]  slab_reclaimable:0 slab_unreclaimable:0\n\
               [    0.000000]  free:754086 free_pcp:0 free_cma:0\n[    0.000000] 0 total pagecache pages\n\
               [    0.000000] Free swap  = 0kB\n[    0.000000] 786431 pages RAM\n";
    let of = only(log);
    assert_eq!((of.class, of.likely), (Class::Unknown, None));
}
