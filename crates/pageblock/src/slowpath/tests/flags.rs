//! The flags of attempts, who may retry, and the last generation.

use super::*;
use crate::policy::OomReach;

#[test]
fn reserves_replace_the_flags_from_the_second_attempt_on() {
    let victim = Caller { oom_victim: true, ..Caller::default() };
    check_as(
        victim,
        "linux-6.12",
        Gfp::GFP_KERNEL,
        0,
        "wake 0: done
        try Min|CPUSET|KSWAPD: none
        wake 0: done
        try anywhere Min|OOM|KSWAPD: none
        reclaim 0: 0
        reclaimable? 1: no
        unreserve all: no
        try anywhere High|CPUSET: none
        Oom: killed
        Fail",
    );
    let freeing = Caller { pf_memalloc: true, ..Caller::default() };
    check_as(
        freeing,
        "linux-7.2",
        Gfp::GFP_HIGHUSER_MOVABLE,
        0,
        "wake 0: done
        try Min|CPUSET|CMA|KSWAPD: none
        try anywhere None|NO_WATERMARKS|CMA|KSWAPD: none
        Fail",
    );
}

#[test]
fn own_victim_gets_its_reserve() {
    let policy = Policy::parse("linux-6.12").unwrap();
    let mut path = SlowPath::new(&policy, demand(Gfp::GFP_KERNEL, 0), Caller::default());
    let mut answer = Outcome::Start;
    while path.next(answer) != Step::Oom {
        answer = Outcome::No;
    }
    path.set_caller(Caller { oom_victim: true, ..Caller::default() });
    assert_eq!(show(path.next(Outcome::Oom(OomResult::Killed))), "wake 0");
    assert_eq!(show(path.next(Outcome::Done)), "try anywhere Min|OOM|KSWAPD");
}

#[test]
fn nofail_goes_on_for_ever() {
    let nofail = Gfp(Gfp::GFP_KERNEL.0 | Gfp::NOFAIL.0);
    check(
        "linux-6.12",
        nofail,
        0,
        "wake 0: done
        try Min|CPUSET|KSWAPD: none
        wake 0: done
        try Min|CPUSET|KSWAPD: none
        reclaim 0: 0
        reclaimable? 1: no
        unreserve all: no
        try High|CPUSET: none
        Oom: nothing
        try None|NO_WATERMARKS|CPUSET: none
        wake 0: done",
    );
    check(
        "linux-6.12",
        Gfp(nofail.0 | Gfp::NORETRY.0),
        0,
        "wake 0: done
        try Min|CPUSET|KSWAPD: none
        wake 0: done
        try Min|CPUSET|KSWAPD: none
        reclaim 0: 0
        try Min|MIN_RESERVE|CPUSET: none
        wake 0: done",
    );
}

#[test]
fn defrag_mode_drops_nofragment_once() {
    check(
        "linux-6.15,nofragment=defrag_mode",
        Gfp::GFP_KERNEL,
        0,
        "wake 9: done
        try Min|CPUSET|NOFRAGMENT|KSWAPD: none
        wake 9: done
        try Min|CPUSET|NOFRAGMENT|KSWAPD: none
        reclaim 0: 0
        reclaimable? 1: no
        unreserve all: no
        DropNofragment: done
        wake 9: done
        try Min|CPUSET|KSWAPD: none
        reclaim 0: 0
        reclaimable? 2: no
        unreserve all: no
        try High|CPUSET: none
        Oom: killed
        wake 9: done",
    );
}

#[test]
fn defrag_mode_failed_atomic_requests_up_to_7_1() {
    let atomic = |policy, script| check(policy, Gfp::GFP_ATOMIC, 0, script);
    let flags = "Min|NON_BLOCK|MIN_RESERVE|NOFRAGMENT|KSWAPD";
    let g2 = format!(
        "wake 9: done\n try {flags}: none\n wake 9: done\n try anywhere {flags}: none\n Fail"
    );
    atomic("linux-6.15,nofragment=defrag_mode", &g2);
    let g3 = format!(
        "wake 9: done
        try {flags}: none
        try anywhere {flags}: none
        DropNofragment: done
        wake 9: done
        try anywhere Min|NON_BLOCK|MIN_RESERVE|KSWAPD: none
        Fail"
    );
    atomic("linux-7.2,nofragment=defrag_mode", &g3);
}

#[test]
fn g3_is_one_loop() {
    check(
        "linux-7.2",
        Gfp::GFP_KERNEL,
        1,
        "wake 1: done
        try Min|CPUSET|KSWAPD: none
        compact 1 Async: complete
        try Min|CPUSET|KSWAPD: none
        wake 1: done
        try Min|CPUSET|KSWAPD: none
        reclaim 1: 2
        try Min|CPUSET|KSWAPD: none
        unreserve: yes
        DrainAll: done
        try Min|CPUSET|KSWAPD: none
        compact 1 SyncLight: complete
        try Min|CPUSET|KSWAPD: none
        reclaimable? 0: yes
        wake 1: done",
    );
    check(
        "linux-7.2",
        Gfp::GFP_KERNEL,
        0,
        "wake 0: done
        try Min|CPUSET|KSWAPD: none
        reclaim 0: 1
        try Min|CPUSET|KSWAPD: page
        Served",
    );
}

#[test]
fn g3_huge_page_on_one_node_does_not_reclaim() {
    let thisnode = Gfp(NORETRY_THP.0 | Gfp::THISNODE.0);
    let start = "try Min|CPUSET|CMA: none\n compact 9 Async: complete\n try Min|CPUSET|CMA: none\n";
    check("linux-7.2", thisnode, 9, &format!("{start} Fail"));
    let once = "try Min|CPUSET|CMA: none\n reclaim 9: 0\n compact 9 Async: skipped\n Fail";
    check("linux-7.2", NORETRY_THP, 9, &format!("{start} {once}"));
    // Skipped or deferred compaction is no reason to fail there.
    for (result, try_of_6_19) in [("skipped", ""), ("deferred", " try Min|CPUSET|CMA: none\n")] {
        let start = format!("try Min|CPUSET|CMA: none\n compact 9 Async: {result}\n");
        check("linux-7.2", NORETRY_THP, 9, &format!("{start} {once}"));
        check("linux-7.2", thisnode, 9, &format!("{start} Fail"));
        check("linux-6.19", NORETRY_THP, 9, &format!("{start}{try_of_6_19} Fail"));
    }
}

#[test]
fn g2_huge_page_on_one_node_does_not_reclaim_from_6_19() {
    let thisnode = Gfp(NORETRY_THP.0 | Gfp::THISNODE.0);
    let start = "try Min|CPUSET|CMA: none\n compact 9 Async: complete\n try Min|CPUSET|CMA: none\n";
    for name in ["linux-6.19", "debian-6.1", "debian-6.12"] {
        check(name, thisnode, 9, &format!("{start} Fail"));
    }
    let reclaims = format!("{start} try Min|CPUSET|CMA: none\n reclaim 9: 0");
    for name in ["linux-6.1", "linux-6.12", "linux-6.18", "linux-6.19,thisnode_gives_up=off"] {
        check(name, thisnode, 9, &reclaims);
    }
    check("linux-6.19", NORETRY_THP, 9, &reclaims);
}

#[test]
fn from_6_9_requests_without_io_do_not_count_on_compaction() {
    let gfp = Gfp(Gfp::GFP_KERNEL.0 & !(Gfp::IO.0 | Gfp::FS.0) | Gfp::RETRY_MAYFAIL.0);
    let attempt = "wake 4: done\n try Min|CPUSET|KSWAPD: none\n";
    let reclaim = "reclaim 4: 9\n try Min|CPUSET|KSWAPD: none\n unreserve: no\n DrainAll: done
        try Min|CPUSET|KSWAPD: none\n compact 4 SyncLight: skipped\n";
    let first = format!("{attempt} compact 4 Async: skipped\n {attempt}");
    check("linux-6.8", gfp, 4, &format!("{first} {reclaim} reclaimable? 1: yes\n {attempt}"));
    for name in ["linux-6.9", "debian-6.1"] {
        check(name, gfp, 4, &format!("{attempt} {attempt} {reclaim} Fail"));
    }
    check("linux-7.2", gfp, 4, &format!("{attempt} {reclaim} Fail"));
}

#[test]
fn g3_73_works_for_whole_blocks_while_it_may_not_break_any() {
    check(
        "linux-7.3,nofragment=defrag_mode",
        Gfp::GFP_KERNEL,
        0,
        "wake 9: done
        try Min|CPUSET|NOFRAGMENT|KSWAPD: none
        reclaim 9: 0
        compact 9 SyncLight: complete
        try Min|CPUSET|NOFRAGMENT|KSWAPD: none
        reclaimable? 1: no
        unreserve all: no
        DropNofragment: done
        wake 9: done
        try Min|CPUSET|KSWAPD: none
        reclaim 0: 0
        reclaimable? 1: yes
        wake 9: done",
    );
}

/// A round under `defrag_mode` in which reclaim reports progress and compaction ends as `result` says.
fn block_round(priority: &str, result: &str, loops: u32) -> String {
    let attempt = "try Min|CPUSET|NOFRAGMENT|KSWAPD: none\n";
    let after = if result == "skipped" { "" } else { attempt };
    format!(
        "wake 9: done\n {attempt} reclaim 9: 1\n {attempt} unreserve: no\n DrainAll: done\n {attempt}
        compact 9 {priority}: {result}\n {after} reclaimable? {loops}: "
    )
}

#[test]
fn g3_73_counts_no_progress_of_requests_that_work_for_whole_blocks() {
    let light = |loops| block_round("SyncLight", "complete", loops);
    let kernel = |name| format!("{name},nofragment=defrag_mode");
    let seventeenth: String = (1..=16).map(|loops| light(loops) + "yes\n").collect();
    // The 17th round ends the retries of reclaim, and raises the priority of compaction, of order 0 too.
    let last = light(17).replace("reclaimable? 17: ", "unreserve all: no\n");
    let full = block_round("SyncFull", "complete", 18).replace("reclaimable? 18: ", "");
    let script = format!("{seventeenth} {last} {full} unreserve all: no\n DropNofragment: done");
    check(&kernel("linux-7.3"), Gfp::GFP_KERNEL, 0, &script);
    // Where compaction was skipped, others are allowed at once.
    let skipped = block_round("SyncLight", "skipped", 1);
    let drops = "no\n unreserve all: no\n DropNofragment: done\n";
    check(&kernel("linux-7.3"), Gfp::GFP_KERNEL, 0, &format!("{skipped}{drops}"));
    // 7.2.13 counts as for the request: there is no end as long as reclaim reports progress.
    let endless: String =
        (0..40).map(|_| block_round("SyncLight", "complete", 0) + "yes\n").collect();
    check(&kernel("debian-7.2"), Gfp::GFP_KERNEL, 0, &endless);
    let order_0 = block_round("SyncLight", "complete", 0) + drops;
    check(&kernel("debian-7.2"), Gfp::GFP_KERNEL, 0, &order_0);
}

#[test]
fn g3_73_starts_its_counts_over_when_others_are_allowed() {
    let rounds = |first: u32| {
        let round = |loops| {
            format!(
                "wake 9: done\n try Min|CPUSET|NOFRAGMENT|KSWAPD: none\n reclaim 9: 0
                compact 9 SyncLight: skipped\n reclaimable? {loops}: "
            )
        };
        let drop = "no\n unreserve all: no\n DropNofragment: done";
        format!(
            "{}yes\n {}{drop}\n wake 9: done\n try Min|CPUSET|KSWAPD: none\n reclaim 0: 0\n reclaimable? {first}: yes",
            round(1),
            round(2)
        )
    };
    check("linux-7.3,nofragment=defrag_mode", Gfp::GFP_KERNEL, 0, &rounds(1));
    check("debian-7.2,nofragment=defrag_mode", Gfp::GFP_KERNEL, 0, &rounds(3));
}

#[test]
fn requests_that_may_fail_do_when_nothing_helps() {
    // Up to 4.3 small requests retry forever.
    let bounded = crate::policy::preset::PRESETS.iter().filter(|p| {
        let first = p.policy.slowpath == Slowpath::CompactEachRound;
        !first || p.policy.oom_reach == OomReach::WithoutProgress
    });
    for preset in bounded {
        for defrag in [preset.policy.nofragment, Nofragment::DefragMode] {
            let policy = Policy { nofragment: defrag, ..preset.policy };
            for gfp in [Gfp::GFP_ATOMIC, Gfp::GFP_KERNEL, Gfp::GFP_HIGHUSER_MOVABLE, NORETRY_THP] {
                for order in [0, 1, 4, 9] {
                    let mut path = SlowPath::new(&policy, demand(gfp, order), Caller::default());
                    let failed = (0..100).any(|_| path.next(Outcome::No) == Step::Fail);
                    assert!(failed, "{} {gfp} {order}", preset.name);
                }
            }
        }
    }
}

/// `defrag_last=fails`: no attempt splits blocks of other types, and the request ends nevertheless.
#[test]
fn defrag_mode_without_a_last_fallback() {
    for base in ["linux-6.15", "linux-7.3", "linux-7.3,defrag_blocks=all"] {
        for gfp in [Gfp::GFP_KERNEL, Gfp::GFP_ATOMIC, Gfp::GFP_HIGHUSER_MOVABLE] {
            for (last, splits) in [("splits", true), ("fails", false)] {
                let text = std::format!("{base},nofragment=defrag_mode,defrag_last={last}");
                let policy = Policy::parse(&text).unwrap();
                let mut path = SlowPath::new(&policy, demand(gfp, 2), Caller::default());
                let mut steps: std::vec::Vec<_> =
                    (0..200).map(|_| path.next(Outcome::No)).collect();
                let end = steps.iter().position(|step| *step == Step::Fail).expect("it ends");
                steps.truncate(end);
                let kills = steps.contains(&Step::Oom);
                assert_eq!(kills, gfp != Gfp::GFP_ATOMIC, "{text} {gfp}");
                let drops = steps.contains(&Step::DropNofragment);
                // Up to 7.1 what cannot wait does not get there.
                let may = base != "linux-6.15" || gfp != Gfp::GFP_ATOMIC;
                assert_eq!(drops, splits && may, "{text} {gfp}: {steps:?}");
                let fragments = steps.iter().any(|step| {
                    matches!(step, Step::TryAlloc { flags, .. } if !flags.has(AllocFlags::NOFRAGMENT))
                });
                assert_eq!(fragments, splits && may, "{text} {gfp}: {steps:?}");
            }
        }
    }
}

/// `defrag_blocks=all`: movable requests work for whole pageblocks too.
#[test]
fn all_requests_make_blocks() {
    for (blocks, expect) in [("off", 1), ("on", 1), ("all", 9)] {
        let text = std::format!("linux-7.3,nofragment=defrag_mode,defrag_blocks={blocks}");
        let policy = Policy::parse(&text).unwrap();
        let movable = demand(Gfp::GFP_HIGHUSER_MOVABLE, 1);
        let mut path = SlowPath::new(&policy, movable, Caller::default());
        let reclaims = (0..40).find_map(|_| match path.next(Outcome::No) {
            Step::DirectReclaim { order } => Some(order),
            _ => None,
        });
        assert_eq!(reclaims, Some(expect), "{text}");
    }
}

#[test]
fn too_large_orders_fail_at_once() {
    check("linux-6.12", Gfp::GFP_KERNEL, 11, "Fail\n Fail");
}

#[track_caller]
fn check_flags(policy: &str, gfp: Gfp, order: Order, caller: Caller, expect: &str) {
    let policy = Policy::parse(policy).unwrap();
    let flags = slow_alloc_flags(&policy, &demand(gfp, order), &caller);
    assert_eq!(format!("{flags:?}"), expect);
}

#[test]
fn flags_by_version() {
    let task = Caller::default();
    let rt = Caller { rt_task: true, ..task };
    let interrupted = Caller { in_interrupt: true, ..rt };
    let atomic = Gfp::GFP_ATOMIC;
    let nowait = Gfp::GFP_NOWAIT;
    check_flags("linux-4.2", nowait, 0, task, "Min|NON_BLOCK");
    check_flags("linux-4.4", nowait, 0, task, "Min|CPUSET");
    check_flags("linux-4.4", atomic, 0, task, "Min|NON_BLOCK|MIN_RESERVE");
    check_flags("linux-4.4", Gfp(atomic.0 | Gfp::NOMEMALLOC.0), 0, task, "Min|MIN_RESERVE");
    check_flags("linux-4.4", Gfp::GFP_KERNEL, 0, rt, "Min|NON_BLOCK|CPUSET");
    check_flags("linux-4.4", Gfp::GFP_KERNEL, 0, interrupted, "Min|CPUSET");
    check_flags("linux-5.0", Gfp::GFP_HIGHUSER_MOVABLE, 0, task, "Min|CPUSET|CMA|KSWAPD");
    check_flags("linux-6.12", Gfp::GFP_KERNEL, 0, rt, "Min|MIN_RESERVE|CPUSET|KSWAPD");
    check_flags("linux-6.12", nowait, 0, task, "Min|NON_BLOCK|CPUSET|KSWAPD");
    check_flags("linux-6.12", nowait, 1, task, "Min|NON_BLOCK|CPUSET|HIGHATOMIC|KSWAPD");
    check_flags("linux-6.17", nowait, 1, task, "Min|NON_BLOCK|CPUSET|KSWAPD");
    check_flags("linux-6.17", atomic, 1, task, "Min|NON_BLOCK|MIN_RESERVE|HIGHATOMIC|KSWAPD");
    check_flags("linux-3.10,nofragment=defrag_mode", Gfp::GFP_KERNEL, 0, task, "Min|CPUSET");
}

#[test]
fn reserves_by_version() {
    let check = |policy, gfp, caller, expect| {
        let policy = Policy::parse(policy).unwrap();
        assert_eq!(reserve_flags(&policy, gfp, &caller), expect);
    };
    let victim = Caller { oom_victim: true, ..Caller::default() };
    let kernel = Gfp::GFP_KERNEL;
    check("linux-6.12", kernel, Caller::default(), None);
    check("linux-6.12", kernel, victim, Some(AllocFlags::OOM));
    check("linux-4.9", kernel, victim, Some(AllocFlags::NO_WATERMARKS));
    check("linux-6.12", kernel, Caller { in_interrupt: true, ..victim }, None);
    let memalloc = Gfp(kernel.0 | Gfp::MEMALLOC.0);
    check("linux-6.12", memalloc, victim, Some(AllocFlags::NO_WATERMARKS));
    check("linux-6.12", Gfp(memalloc.0 | Gfp::NOMEMALLOC.0), victim, None);
}
