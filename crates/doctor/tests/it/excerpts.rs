//! Pieces of logs as people paste them: cut in the middle, wrapped, or lines of one kind alone.

use pageblock_doctor::class::{Class, Confidence};
use pageblock_doctor::explain;
use pageblock_doctor::log::{About, Kind, Lack, Purpose, Told};

/// A limit calls the OOM killer through functions of the memory cgroup, the allocator without them.
#[test]
fn the_stack_tells_a_cgroups_limit_from_a_shortage_of_the_machine() {
    let oom = |stack: &str| {
        let log = format!(
            "app invoked oom-killer: gfp_mask=0x100cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0\n\
             CPU: 2 PID: 210 Comm: app Not tainted 5.4.0 #1\nCall Trace:\n dump_header+0x4c/0x2d0\n{stack}"
        );
        let found = explain(&log).remove(0);
        (found.report.kind, found.class, found.likely)
    };
    let limit = oom(
        " out_of_memory+0x200/0x270\n mem_cgroup_out_of_memory+0xb7/0xc0\n try_charge+0x680/0x6f0\n",
    );
    assert_eq!(limit, (Kind::MemcgOom, Class::Cgroup, None));
    let machine = oom(
        " out_of_memory+0x200/0x270\n ? mem_cgroup_out_of_memory+0xb7/0xc0\n __alloc_pages_slowpath+0x1/0x2\n filemap_fault+0x1/0x2\n",
    );
    assert_eq!(machine, (Kind::Oom, Class::Unknown, Some(Class::Shortage)));
    let cut = oom(
        " [<80>] (out_of_memory) from [<81>] (out_of_memory+0xf0/0x43c)\n [<81>] (out_of_memory) from [<82>] (__alloc_page",
    );
    assert_eq!(cut, machine, "a stack of ARM, cut in a name");
    // So does the line of the kill; a cut stack does not tell.
    let kill =
        &explain("Out of memory: Killed process 7 (java) total-vm:9kB, anon-rss:5kB, file-rss:3kB")
            [0];
    assert_eq!((kill.class, kill.likely), (Class::Unknown, Some(Class::Shortage)));
    let second = &explain("Killed process 7 (java) total-vm:9kB, anon-rss:5kB, file-rss:3kB")[0];
    assert_eq!((second.class, second.likely), (Class::Unknown, None));
    assert_eq!(oom(" out_of_memory+0x200/0x270\n"), machine, "nothing names a memory cgroup");
    let id = "0123456789abcdef".repeat(4);
    let contained = format!(
        "cp invoked oom-killer: gfp_mask=0x14000c0(GFP_KERNEL), nodemask=(null), order=0, oom_score_adj=0\ncp cpuset={id} mems_allowed=0\n"
    );
    let of = &explain(&contained)[0];
    assert_eq!((of.class, of.likely), (Class::Unknown, Some(Class::Cgroup)));
    let row = |name| {
        format!("[68454]    26 68454    75887     7530   368640        0           999 {name}\n")
    };
    let likely = |rows: &str| explain(rows)[0].likely;
    assert_eq!(likely(&row("postgres").repeat(3)), Some(Class::Cgroup), "a container's");
    assert_eq!(
        likely(&(row("postgres").repeat(3) + &row("agetty").replace("999", "  0"))),
        Some(Class::Shortage)
    );
}

/// What may wait and got no single page found memory used up; a zone of devices is small.
#[test]
fn a_request_alone_tells_the_likeliest_class() {
    for (line, likely, first) in [
        (
            "order:0, mode:0x100c02(GFP_NOIO|__GFP_HIGHMEM|__GFP_HARDWALL)",
            Some(Class::SlowReclaim),
            "journalctl -k",
        ),
        ("order:1, mode:0xcc1(GFP_KERNEL|GFP_DMA)", Some(Class::ZoneMask), "in the driver"),
        ("order:2, mode:0xcc0(GFP_KERNEL)", None, "journalctl -k"),
    ] {
        let found = explain(&format!("app: page allocation failure: {line}, nodemask=(null)"));
        assert_eq!((found[0].class, found[0].likely), (Class::Unknown, likely), "{line}");
        let helps = &found[0].helps;
        assert!(helps[0].what.starts_with(first), "{helps:?}");
        assert!(helps.iter().any(|advice| advice.what.starts_with("journalctl -k")), "{helps:?}");
    }
    let stall =
        |ms: u32| format!("app: page allocation stalls for {ms}ms, order:0, mode:0x24201ca\n");
    let found = explain(&(stall(10_015) + &stall(610_074)));
    let seen: Vec<_> = found.iter().map(|of| (of.report.stall_ms, of.likely)).collect();
    let expected = [10_015, 610_074].map(|ms| (Some(ms), Some(Class::SlowReclaim)));
    assert_eq!(seen, expected);
    let groups = pageblock_doctor::group::groups(&found);
    assert_eq!((groups.len(), groups[0].shown), (1, 1), "the longest is shown");
}

#[test]
fn first_lines_of_every_age_begin_a_report() {
    for (line, kind, order, task) in [
        ("oom-killer: gfp_mask=0xd1, order=0", Kind::Oom, 0, None),
        ("__alloc_pages: 3-order allocation failed (gfp=0x20/0)", Kind::Failure, 3, None),
        (
            "kernel: WebServer : : page allocation failure: order:4, mode:0x4d0",
            Kind::Failure,
            4,
            Some("WebServer :"),
        ),
    ] {
        let found = explain(line);
        assert_eq!(found.len(), 1, "{line}");
        let report = &found[0].report;
        assert_eq!((report.kind, report.order, report.task.as_deref()), (kind, Some(order), task));
        assert!(found[0].flags.is_some(), "{line}");
    }
}

/// The log ends before the zones.
#[test]
fn a_state_that_was_cut_before_its_zones_is_a_state() {
    let found = explain(
        "[9.1]  start_secondary+0x191/0x1c2\n[9.1] Mem-Info:\n[9.1] active_anon:1859030 inactive_anon:329765 isolated_anon:0\n\
         [9.1]  active_file:5146966 inactive_file:563690 isolated_file:32\n\
         [9.1]  slab_reclaimable:132425 slab_unreclaimable:16290\n[9.1] Node 0 active_anon:2393412kB inactive_an",
    );
    assert_eq!((found.len(), found[0].class), (1, Class::NoRequest));
    assert!(
        found[0].missing.iter().any(|missing| missing.contains("zones")),
        "{:?}",
        found[0].missing
    );
    assert!(!found[0].holders.is_empty());
    assert_eq!(explain("Mem-Info:\n").len(), 0, "a header alone is nothing");
}

/// The first lines of the report above were not copied.
#[test]
fn a_failure_has_the_state_that_was_printed_just_before_it() {
    let log = |at: &str| {
        format!(
            "[ 1.000000] Node 0 Normal free:264kB min:3224kB low:4528kB high:5836kB active_file:104952kB present:445120kB\n\
             [ 1.000001] lowmem_reserve[]: 0 0\n[ 1.000002] Node 0 Normal: 50*4kB 8*8kB = 264kB\n\
             [ 1.000003] 92717 total pagecache pages\n[ {at}] app: page allocation failure. order:0, mode:0x4020\n"
        )
    };
    let found = explain(&log("1.003000"));
    assert_eq!((found.len(), found[0].class, found[0].report.state_of), (1, Class::Burst, Some(1)));
    assert_eq!(found[0].confidence, Confidence::Medium);
    assert_eq!(explain(&log("9.000000")).len(), 2, "memory changes in seconds");
}

/// The line names the function that reports failures, and is of no stack.
#[test]
fn a_count_of_left_out_reports_is_no_report() {
    let log = "SLUB: Unable to allocate memory on node -1, gfp=0x480020(GFP_ATOMIC)\n\
               cache: a, object size: 232, buffer size: 256, default order: 2, min order: 0\n\
               warn_alloc: 59 callbacks suppressed\n\
               swapper/1: page allocation failure: order:0, mode:0x480020(GFP_ATOMIC), nodemask=(null)\n";
    let found = explain(log);
    assert!(found.iter().all(|of| of.report.order.is_none_or(|order| order == 0)), "{found:?}");
    assert_eq!(found.len(), 2);
}

#[test]
fn who_loads_a_module_lacks_addresses_for_its_code() {
    let purpose = |task: &str| {
        let log = format!(
            "vmap allocation for size 430080 failed: use vmalloc=<size> to increase size\nvmalloc: allocation failure: 425984 bytes\n{task}: page allocation failure: order:0, mode:0xd2\n"
        );
        explain(&log)[0].report.caller.as_ref().and_then(|caller| caller.purpose)
    };
    assert_eq!((purpose("modprobe"), purpose("app")), (Some(Purpose::Module), None));
}

#[test]
fn a_cgroups_statistics_alone_name_it() {
    let found = explain(
        "[Di Aug 12 03:54:03 2025] Memory cgroup stats for /pods/a: cache:32KB rss:524188KB swap:524356KB\n\
         [Di Aug 12 03:54:03 2025] Memory cgroup out of memory: Kill process 245 (java) score 0 or sacrifice child\n\
         [Di Aug 12 03:54:03 2025] Killed process 284 (java) total-vm:20255636kB, anon-rss:466160kB, file-rss:13684kB\n\
         [Di Aug 12 03:59:03 2025] Memory cgroup stats for /pods/b: cache:0KB rss:1024KB\n",
    );
    let seen: Vec<_> = found
        .iter()
        .map(|of| {
            let cgroup = of.report.cgroup.as_ref().expect("it is printed");
            let by_stats = (cgroup.anon_kb, cgroup.swap_kb, cgroup.version);
            (of.class, cgroup.path.as_deref(), by_stats, of.report.at.is_some())
        })
        .collect();
    assert_eq!(
        seen,
        [
            (Class::Cgroup, Some("/pods/a"), (Some(524_188), Some(524_356), Some(1)), true),
            (Class::Cgroup, Some("/pods/b"), (Some(1024), None, Some(1)), true),
        ]
    );
    assert_eq!(found[0].report.victim.as_ref().map(|victim| victim.pid), Some(284));
}

/// All of DMA32 is CMA's; Normal has less, and no watermark was printed.
#[test]
fn free_lists_alone_show_that_only_cma_is_free() {
    let log = |normal: u32| {
        format!(
            "cam: page allocation failure: order:0, mode:0xc00(GFP_NOIO), nodemask=(null),cpuset=foreground,mems_allowed=0\n\
             DMA32: 0*4kB 447*8kB (C) 217*16kB (C) 124*32kB (C) = 11016kB\n\
             Normal: {normal}*4kB (UMEH) 49*8kB (MEH) = 1316kB\n\
             SLUB: Unable to allocate memory on node -1, gfp=0xa20(GFP_ATOMIC)\n\
             cache: io_end, object size: 64, buffer size: 64, default order: 0, min order: 0\n"
        )
    };
    let found = explain(&log(231));
    assert_eq!((found[0].class, found[0].confidence), (Class::OnlyCma, Confidence::Medium));
    // Its caller cannot wait, that of the page can.
    assert_eq!(found[0].report.slab, None);
    assert_eq!((found.len(), found[1].class), (2, Class::Notice));
    assert_eq!(explain(&log(23_100))[0].class, Class::Unknown, "Normal may have enough");
}

#[test]
fn failures_of_vmalloc_are_read_whole_where_mail_wrapped_them() {
    let zone = "Mem-Info:\nNode 0 Normal free:133976kB min:50428kB low:63032kB high:75636kB managed:5901680kB\n";
    for (lines, lack, order) in [
        (
            "app: vmalloc error: size 0, \npage order 9, failed to allocate pages, \nmode:0xcc2(GFP_KERNEL|__GFP_HIGHMEM)\n",
            Lack::Blocks,
            9,
        ),
        (
            "app: vmalloc error: size 0, failed to allocate pages, mode:0xcc2(GFP_KERNEL|__GFP_HIGHMEM)\n",
            Lack::Pages,
            0,
        ),
        (
            "vmalloc: allocation failure: 17178820608 bytes\napp: page allocation failure: order:0, mode:0x24000c2\n",
            Lack::Machine,
            0,
        ),
    ] {
        let found = explain(&format!("{lines}{zone}"));
        assert_eq!(found.len(), 1, "{lines}");
        let report = &found[0].report;
        assert_eq!(report.vmalloc.map(|vmalloc| vmalloc.lack), Some(lack), "{lines}");
        assert_eq!(report.order.unwrap_or(0), order, "{lines}");
    }
}

/// Four failures: of three only the first line is left, and each counts the page that guards the range.
#[test]
fn a_line_of_vmalloc_that_comes_again_is_a_failure_of_its_own() {
    let first = "vmap allocation for size 36864 failed: use vmalloc=<size> to increase size\n";
    let log = first.repeat(4)
        + "a: vmalloc: allocation failure: 32768 bytes, mode:0xcc0(GFP_KERNEL), nodemask=(null)\n\
           CPU: 0 PID: 23 Comm: a Not tainted 5.4.58 #0\n\
           [<c02>] (warn_alloc) from [<c03>] (__vmalloc_node_range+0x1b0/0x294)\n\
           [<c02>] (__vmalloc_node_range) from [<c03>] (module_alloc+0x44/0x4c)\n";
    let found = explain(&log);
    let seen: Vec<_> = found
        .iter()
        .map(|of| (of.report.line, of.report.caller.as_ref().and_then(|caller| caller.purpose)))
        .collect();
    assert_eq!(seen, [1, 2, 3, 4].map(|line| (line, Some(Purpose::Module))));
    assert_eq!(explain(first)[0].report.caller, None);
}

/// What people paste around a failure is a state, and counts for less than a report.
#[test]
fn a_pasted_state_stands_beside_words_that_tell_something() {
    let state = "MemTotal: 6112100 kB\nMemFree: 638020 kB\nMemAvailable: 3580192 kB\nSwapFree: 5960096 kB\n";
    let words = "nsenter: Unable to fork: Cannot allocate memory\n";
    let found = explain(&format!("{state}{words}"));
    let seen: Vec<_> = found.iter().map(|of| (of.report.line, of.report.kind)).collect();
    assert_eq!(seen, [(5, Kind::Notice), (1, Kind::State)], "what tells of a failure is first");
    assert_eq!(found[1].report.memory.available_kb, Some(3_580_192));
    let vague = explain(&format!("tg3: failed to allocate rx ring\n{state}"));
    assert_eq!((vague.len(), vague[0].report.kind), (1, Kind::State));
    let report = "a: page allocation failure: order:0, mode:0x20\n";
    let after = explain(&format!("{report}{state}"));
    assert_eq!((after.len(), after[0].report.memory.available_kb), (1, None), "of another time");
}

/// Only the OOM killer lists tasks; the kill below the list belongs to it.
#[test]
fn a_list_of_tasks_alone_is_of_the_oom_killer() {
    let row = |pid: u32, rss: u32| {
        format!(
            "[ {pid}]     0  {pid}      492     {rss}       4       0        0             0 app{pid}\n"
        )
    };
    let rows = row(2700, 29) + &row(2732, 28) + &row(2737, 1506);
    let found = explain(&rows);
    assert_eq!((found.len(), found[0].report.kind, found[0].class), (1, Kind::Oom, Class::Unknown));
    assert_eq!(found[0].report.processes[0].task, "app2737");
    let kill =
        "Memory cgroup out of memory: Kill process 2737 (app2737) score 11 or sacrifice child\n";
    let found = explain(&format!("{rows}{kill}"));
    assert_eq!((found.len(), found[0].class), (1, Class::Cgroup));
    assert_eq!(found[0].report.victim.as_ref().map(|victim| victim.pid), Some(2737));
    assert_eq!(explain(&row(2700, 29)).len(), 0, "one row may be anything");
}

/// Most of what a process has may be in swap.
#[test]
fn the_largest_processes_are_those_whose_end_frees_most() {
    let found = explain(
        "app invoked oom-killer: gfp_mask=0x201da, order=0, oom_score_adj=0\n\
         [ pid ]   uid  tgid total_vm      rss nr_ptes swapents oom_score_adj name\n\
         [12572]    33 12572    89683     1048     130     4350             0 php-cgi\n\
         [30705]   106 30705   223086      731      89    15800             0 mysqld\n",
    );
    let first = &found[0].report.processes[0];
    assert_eq!(
        (first.task.as_str(), first.rss_pages, first.swap_pages),
        ("mysqld", 731, Some(15_800))
    );
}

/// What drivers and programs say in their own words counts where nothing else is in the log.
/// The stack above the counts says that a process is killed, and for whose memory.
#[test]
fn a_kill_without_its_first_line_is_known_by_its_stack() {
    let counts = "Mem-Info:\nactive_anon:114711 inactive_anon:2124 isolated_anon:0\n";
    let find = |frame: &str| {
        let stack = format!(
            " oom_kill_process+0x202/0x3c0\n out_of_memory+0x219/0x460\n {frame}+0x1/0x2\n"
        );
        let found = explain(&(stack + counts));
        assert_eq!(found.len(), 1);
        (found[0].report.kind, found[0].class, found[0].likely)
    };
    assert_eq!(find("__alloc_pages_slowpath"), (Kind::Oom, Class::Unknown, Some(Class::Shortage)));
    assert_eq!(find("mem_cgroup_out_of_memory"), (Kind::MemcgOom, Class::Cgroup, None));
    assert_eq!(explain(counts)[0].class, Class::NoRequest);
}

#[test]
fn others_words_are_a_guess_of_their_own() {
    let words =
        "gpu 0: Allocate system memory failed (length: 16777216)!\nfork: Cannot allocate memory\n";
    let found = explain(words);
    let about: Vec<_> =
        found.iter().map(|of| of.report.notice.as_ref().map(|n| &n.about)).collect();
    // The first tells nothing but that it failed, and the second more.
    assert!(matches!(about[..], [Some(About::Words(Told::Fork, _))]), "{about:?}");
    assert_eq!(found[0].confidence, Confidence::Medium);
    let vague = explain(words.lines().next().expect("there are two"));
    assert_eq!((vague.len(), vague[0].confidence), (1, Confidence::Low));
    let report = "a: page allocation failure: order:0, mode:0x20\n";
    assert_eq!(explain(&format!("{words}{report}")).len(), 1, "a report says more");
    for nothing in
        ["usb 1-1: failed to allocate minor", "allocated 5 ports", "failed to assign BAR 0"]
    {
        assert_eq!(explain(nothing).len(), 0, "{nothing}");
    }
}

/// Reclaim failed again and again before a kill: memory is full, whatever a boost adds.
#[test]
fn a_boost_comes_after_who_fills_memory_in_an_oom() {
    let log = |first: &str| {
        format!(
            "{first}\nCPU: 1 PID: 9 Comm: app Not tainted 6.1.1 #1\nMem-Info:\n\
             active_anon:2900000 inactive_anon:3000 isolated_anon:0\n active_file:500 inactive_file:600 isolated_file:0\n\
             Node 0 Normal free:61900kB boost:8192kB min:61948kB low:75386kB high:88824kB reserved_highatomic:0KB \
             present:14000000kB managed:13500000kB free_cma:0kB\n\
             lowmem_reserve[]: 0 0 0\nNode 0 Normal: 9000*4kB (UME) 3237*8kB (UME) = 61896kB\n\
             0 pages in swap cache\nFree swap  = 0kB\nTotal swap = 0kB\n3500000 pages RAM\n"
        )
    };
    let first = |line: &str| explain(&log(line))[0].helps[0].what.clone();
    let oom = "app invoked oom-killer: gfp_mask=0x140dca(GFP_HIGHUSER_MOVABLE|__GFP_COMP|__GFP_ZERO), order=0, oom_score_adj=0";
    assert!(first(oom).contains("more memory"), "{}", first(oom));
    let failure = "app: page allocation failure: order:0, mode:0x100c02(GFP_NOIO|__GFP_HIGHMEM), nodemask=(null)";
    assert!(first(failure).contains("watermark_boost_factor"), "{}", first(failure));
}

/// A page is 8 kB here: 53 pages of page cache are 424 kB. Of 292864 kB that must stay 202752 are boost.
#[test]
fn a_state_without_lists_and_without_a_request_tells_its_pages_and_its_boost() {
    let found = explain(
        "Mem-Info:\nactive_anon:0 inactive_anon:0 isolated_anon:0\n active_file:23 inactive_file:30 isolated_file:0\n\
         slab_reclaimable:466670 slab_unreclaimable:534590\n\
         Node 0 active_anon:0kB inactive_anon:0kB active_file:184kB inactive_file:240kB\n\
         Normal free:248784kB boost:202752kB min:292864kB low:315392kB high:337920kB managed:16500000kB\n",
    );
    assert_eq!((found.len(), found[0].class), (1, Class::NoRequest));
    assert_eq!(found[0].report.memory.page_kb(), 8);
    assert_eq!(found[0].holders[0].kb, 534_590 * 8);
    assert_eq!(found[0].boosted().and_then(|zone| zone.boost), Some(202_752));
}

/// From 4.20 on the line of the constraint names who is killed.
#[test]
fn a_constraint_alone_names_the_victim() {
    let constraint = "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=a,mems_allowed=0,oom_memcg=/a,task_memcg=/a/b,\
                      task=main, thread,pid=4617,uid=0\n";
    let kill = "Memory cgroup out of memory: Killed process 4617 (main, thread) total-vm:9kB, anon-rss:5kB, file-rss:1kB\n";
    for (log, anon_kb, line) in
        [(constraint.to_owned(), None, 1), (constraint.to_owned() + kill, Some(5), 2)]
    {
        let found = explain(&log);
        assert_eq!((found.len(), found[0].class), (1, Class::Cgroup), "{log}");
        let victim = found[0].report.victim.as_ref().expect("it is named");
        assert_eq!((victim.task.as_str(), victim.pid), ("main, thread", 4617));
        assert_eq!((victim.anon_kb, victim.line), (anon_kb, line));
    }
}

/// A low zone limits the request, and not how much the machine has.
#[test]
fn an_oom_kill_for_memory_of_a_low_zone_is_of_the_zone() {
    let log = |mask| {
        format!(
            "swapper invoked oom-killer: gfp_mask={mask}, order=0, oomkilladj=0\n[<4015059f>] out_of_memory+0x17f/0x1c0\n\
             [<40151f3c>] __alloc_pages+0x37c/0x3a0\n[<405a17e3>] scsi_host_alloc+0x33/0x2c0\n"
        )
    };
    assert_eq!(explain(&log("0x80d1"))[0].likely, Some(Class::ZoneMask));
    assert_eq!(explain(&log("0x80d0"))[0].likely, Some(Class::Shortage));
}

/// It is read only where nothing else is in the log.
#[test]
fn the_end_of_a_report_alone_is_a_state() {
    let tail = "965 pages in swap cache\nFree swap  = 31979772kB\nTotal swap = 32653308kB\n8332646 pages RAM\n";
    let found = explain(tail);
    assert_eq!((found.len(), found[0].class), (1, Class::NoRequest));
    assert_eq!(found[0].report.memory.free_swap_kb, Some(31_979_772));
    assert!(
        found[0].missing.iter().any(|missing| missing.contains("zones")),
        "{:?}",
        found[0].missing
    );
    let words =
        explain(&format!("insmod: could not insert module: Cannot allocate memory\n{tail}"));
    assert_eq!(words.len(), 2, "others' words may say more");
    let next = explain(&format!("{tail}a: page allocation failure: order:0, mode:0x20\n"));
    assert_eq!((next.len(), next[0].report.kind), (1, Kind::Failure));
}

/// Who asked is all that is left of it.
#[test]
fn a_stack_whose_first_line_was_lost_is_a_failure() {
    let stack = "CPU: 0 PID: 34 Comm: kworker/0:1 Tainted: G         C         6.1.66-2-ARCH #1\nHardware name: BOARD\n \
                 dump_stack_lvl from warn_alloc+0x110/0x19c\n warn_alloc from __alloc_pages+0xe9c/0xfe8\n \
                 kmalloc_large from brcmf_fws_attach+0x38/0x39c [brcmfmac]\n";
    let found = explain(stack);
    assert_eq!(
        (found.len(), found[0].report.kind, found[0].class),
        (1, Kind::Failure, Class::Unknown)
    );
    assert_eq!(found[0].report.task.as_deref(), Some("kworker/0:1"));
    let caller = found[0].report.caller.as_ref().expect("the stack has it");
    assert_eq!(caller.function, "brcmf_fws_attach");
    assert!(found[0].missing[0].contains("first line"), "{:?}", found[0].missing);
    let next = explain(&format!("{stack}a: page allocation failure: order:0, mode:0x20\n"));
    assert_eq!((next.len(), next[0].report.order), (1, Some(0)));
    // What allocates and does not fail is no failure.
    assert_eq!(explain("Call Trace:\n __alloc_pages+0x1/0x2\n foo+0x1/0x2\n").len(), 0);
}

/// A stack without the line above it tells what the task does, and in what it waits.
#[test]
fn a_stack_alone_tells_that_a_task_reclaims_unless_it_is_of_a_crash() {
    let stack = " io_schedule+0xa0/0x130\n wait_on_page_bit+0xc7/0xd0\n shrink_page_list+0x2f5/0xa90\n \
                 try_to_free_pages+0xf3/0x1d0\n";
    let found = explain(stack);
    let notice = found[0].report.notice.as_ref().unwrap();
    assert_eq!((found.len(), &notice.about, notice.line), (1, &About::Reclaim(0), 3));
    assert_eq!(notice.waits_in.as_ref().unwrap().function, "wait_on_page_bit");
    assert_eq!(explain(&format!("kernel BUG: at mm/vmscan.c:1\n{stack}")).len(), 0);
    let kill =
        " oom_kill_process+0x1/0x2\n mem_cgroup_out_of_memory+0x1/0x2\n charge_memcg+0x1/0x2\n";
    assert_eq!(explain(kill)[0].class, Class::Cgroup);
}

#[test]
fn an_area_that_was_not_had_at_boot_is_helped_by_the_command_line() {
    for line in [
        "cma: Failed to reserve 512 MiB",
        "OF: reserved mem: failed to allocate memory for node 'a'",
    ] {
        let help = explain(line)[0].helps[0].what.clone();
        assert!(help.contains("cma="), "{help}");
    }
}

#[test]
fn low_memory_is_what_the_kernel_lacks_on_32_bits_and_dma_memory_at_boot() {
    let oom = |address: &str| {
        format!(
            "a invoked oom-killer: gfp_mask=0xd0, order=0, oomkilladj=0\n [<{address}>] out_of_memory+0x69/0x18e\n \
             [<{address}>] __alloc_pages+0x1fc/0x283\n [<{address}>] copy_process+0x89/0x1051\n"
        )
    };
    assert_eq!(explain(&oom("c01408cb"))[0].likely, Some(Class::ZoneMask));
    assert_eq!(explain(&oom("ffffffff810cb8a3"))[0].likely, Some(Class::Shortage));
    let at = |time: u32| {
        format!(
            "[   {time}.488770] swapper/0: page allocation failure: order:5, mode:0xcc1(GFP_KERNEL|GFP_DMA)\n"
        )
    };
    assert_eq!(explain(&at(1))[0].likely, Some(Class::ZoneMask));
    assert_eq!(explain(&at(900))[0].likely, Some(Class::Fragmentation));
}
