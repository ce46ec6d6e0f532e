//! Each generation's order of steps, as scripts: `step: outcome` line by line. The last step has no
//! outcome.

extern crate std;

mod flags;

use super::*;
use std::format;
use std::string::String;

fn show(step: Step) -> String {
    match step {
        Step::WakeKswapd { order } => format!("wake {order}"),
        Step::TryAlloc { flags, nodes: Nodes::Request } => format!("try {flags:?}"),
        Step::TryAlloc { flags, nodes: Nodes::Any } => format!("try anywhere {flags:?}"),
        Step::DirectCompact { order, priority } => format!("compact {order} {priority:?}"),
        Step::DirectReclaim { order } => format!("reclaim {order}"),
        Step::UnreserveHighatomic { force: false } => "unreserve".into(),
        Step::UnreserveHighatomic { force: true } => "unreserve all".into(),
        Step::ReclaimRetry { no_progress_loops, .. } => format!("reclaimable? {no_progress_loops}"),
        Step::CompactRetry { .. } => "compactable?".into(),
        Step::Wait(wait) => format!("wait {wait:?}"),
        step => format!("{step:?}"),
    }
}

fn outcome(text: &str) -> Outcome {
    let compacted = |result| Outcome::Compacted(result, Contention::None);
    match text {
        "done" => Outcome::Done,
        "page" => Outcome::Page,
        "none" => Outcome::NoPage,
        "yes" => Outcome::Yes,
        "no" => Outcome::No,
        "skipped" => compacted(CompactResult::Skipped),
        "deferred" => compacted(CompactResult::Deferred),
        "complete" => compacted(CompactResult::Complete),
        "success" => compacted(CompactResult::Success),
        "locked" => Outcome::Compacted(CompactResult::Contended, Contention::Lock),
        "resched" => Outcome::Compacted(CompactResult::Contended, Contention::Resched),
        "killed" => Outcome::Oom(OomResult::Killed),
        "nothing" => Outcome::Oom(OomResult::Nothing),
        "busy" => Outcome::Oom(OomResult::Busy),
        pages => Outcome::Reclaimed { pages: pages.parse().unwrap() },
    }
}

fn demand(gfp: Gfp, order: Order) -> Demand {
    let migratetype = gfp.migratetype().unwrap();
    Demand { gfp, order, migratetype, max_order: 10, pageblock_order: 9 }
}

#[track_caller]
fn check_as(caller: Caller, policy: &str, gfp: Gfp, order: Order, script: &str) {
    let policy = Policy::parse(policy).unwrap();
    let mut path = SlowPath::new(&policy, demand(gfp, order), caller);
    let mut answer = Outcome::Start;
    for (i, line) in script.lines().map(str::trim).filter(|l| !l.is_empty()).enumerate() {
        let (step, reply) = line.split_once(": ").unwrap_or((line, "done"));
        assert_eq!(show(path.next(answer)), step, "step {i}");
        answer = outcome(reply);
    }
}

#[track_caller]
fn check(policy: &str, gfp: Gfp, order: Order, script: &str) {
    check_as(Caller::default(), policy, gfp, order, script);
}

const NORETRY_THP: Gfp = Gfp(Gfp::GFP_TRANSHUGE.0 | Gfp::NORETRY.0);

#[test]
fn g1_310_order_0_reclaims_drains_and_kills() {
    check(
        "linux-3.10",
        Gfp::GFP_KERNEL,
        0,
        "wake 0: done
        try Min|CPUSET: none
        reclaim 0: 5
        try Min|CPUSET: none
        DrainAll: done
        try Min|CPUSET: none
        wait IffCongested: done
        try Min|CPUSET: none
        reclaim 0: 0
        try High|CPUSET: none
        Oom: killed
        wake 0: done
        try Min|CPUSET: page
        Served",
    );
}

#[test]
fn g1_310_costly_compacts_before_and_after() {
    check(
        "linux-3.10",
        Gfp::GFP_KERNEL,
        4,
        "wake 4: done
        try Min|CPUSET: none
        compact 4 Async: complete
        try Min|CPUSET: none
        reclaim 4: 40
        try Min|CPUSET: none
        DrainAll: done
        try Min|CPUSET: none
        compact 4 SyncLight: skipped
        Fail",
    );
    // REPEAT: until a block's worth was reclaimed.
    check(
        "linux-3.10",
        Gfp(Gfp::GFP_KERNEL.0 | Gfp::RETRY_MAYFAIL.0),
        4,
        "wake 4: done
        try Min|CPUSET: none
        compact 4 Async: skipped
        reclaim 4: 10
        try Min|CPUSET: none
        DrainAll: done
        try Min|CPUSET: none
        wait IffCongested: done
        try Min|CPUSET: none
        compact 4 SyncLight: skipped
        reclaim 4: 6
        try Min|CPUSET: none
        DrainAll: done
        try Min|CPUSET: none
        compact 4 SyncLight: success
        try Min|CPUSET: page
        Served",
    );
}

#[test]
fn g1_huge_pages_give_up_early() {
    let start = "try Min|CPUSET|CMA: none\n compact 9 Async: ";
    let script = |end: &str| format!("{start}{end}");
    check("linux-3.10", NORETRY_THP, 9, &script("deferred\n Fail"));
    check("linux-3.10", NORETRY_THP, 9, &script("resched\n try Min|CPUSET|CMA: none\n Fail"));
    check("linux-3.16", NORETRY_THP, 9, &script("locked\n try Min|CPUSET|CMA: none\n Fail"));
    let kthread = Caller { kthread: true, ..Caller::default() };
    let goes_on = script(
        "resched
        try Min|CPUSET|CMA: none
        reclaim 9: 0
        compact 9 SyncLight: complete
        try Min|CPUSET|CMA: none
        Fail",
    );
    check_as(kthread, "linux-3.16", NORETRY_THP, 9, &goes_on);
    let fault = script(
        "complete
        try Min|CPUSET|CMA: none
        reclaim 9: 0
        compact 9 Async: skipped
        Fail",
    );
    check("linux-3.16", NORETRY_THP, 9, &fault);
}

#[test]
fn g1_44_gives_the_reserve_back_and_wakes_on_retry() {
    check(
        "linux-4.4",
        Gfp::GFP_KERNEL,
        1,
        "wake 1: done
        try Min|CPUSET: none
        compact 1 Async: skipped
        reclaim 1: 3
        try Min|CPUSET: none
        unreserve: no
        DrainAll: done
        try Min|CPUSET: none
        wait IffCongested: done
        wake 1: done
        try Min|CPUSET: none
        compact 1 SyncLight: skipped
        reclaim 1: 0
        try High|CPUSET: none
        Oom: nothing
        compact 1 SyncLight: skipped
        Fail",
    );
    check(
        "linux-4.4",
        Gfp(Gfp::GFP_KERNEL.0 | Gfp::NORETRY.0),
        1,
        "wake 1: done
        try Min|CPUSET: none
        compact 1 Async: skipped
        reclaim 1: 0
        compact 1 SyncLight: complete
        try Min|CPUSET: none
        Fail",
    );
}

#[test]
fn g1_without_waiting_uses_reserves_and_fails() {
    check(
        "linux-3.10",
        Gfp::GFP_ATOMIC,
        0,
        "wake 0: done\n try Min|NON_BLOCK|MIN_RESERVE: none\n Fail",
    );
    let freeing = Caller { pf_memalloc: true, ..Caller::default() };
    check_as(
        freeing,
        "linux-3.10",
        Gfp::GFP_NOFS,
        0,
        "wake 0: done
        try Min|CPUSET: none
        try anywhere None|NO_WATERMARKS|CPUSET: none
        Fail",
    );
    let nofail = Gfp(Gfp::GFP_NOFS.0 | Gfp::NOFAIL.0);
    check_as(
        freeing,
        "linux-4.4",
        nofail,
        0,
        "wake 0: done
        try Min|CPUSET: none
        try anywhere None|NO_WATERMARKS|CPUSET: none
        wait IffCongested: done
        try anywhere None|NO_WATERMARKS|CPUSET: page
        Served",
    );
    let thisnode = Gfp(Gfp::THISNODE.0 | Gfp::NOWARN.0 | Gfp::NORETRY.0);
    check("linux-3.10", thisnode, 0, "Fail");
}

#[test]
fn g2_order_0_retries_while_reclaim_can_help() {
    check(
        "linux-4.9",
        Gfp::GFP_KERNEL,
        0,
        "wake 0: done
        try Min|CPUSET: none
        wake 0: done
        try Min|CPUSET: none
        reclaim 0: 8
        try Min|CPUSET: none
        unreserve: no
        DrainAll: done
        try Min|CPUSET: none
        reclaimable? 0: yes
        wake 0: done
        try Min|CPUSET: none
        reclaim 0: 0
        reclaimable? 1: no
        try High|CPUSET: none
        Oom: busy
        wait Tick: done
        wake 0: done
        try Min|CPUSET: page
        Served",
    );
}

#[test]
fn g2_compacts_first_for_costly_orders_then_for_kernel_requests() {
    let atomic_first = "wake 2: done\n try Min|CPUSET: none\n ";
    let compact_first =
        format!("{atomic_first}compact 2 Async: success\n try Min|CPUSET: page\n Served");
    let loop_first = format!("{atomic_first}wake 2: done\n try Min|CPUSET: page\n Served");
    check("linux-4.9", Gfp::GFP_KERNEL, 2, &loop_first);
    check("linux-4.12", Gfp::GFP_KERNEL, 2, &compact_first);
    let movable =
        "wake 2: done\n try Min|CPUSET|CMA: none\n wake 2: done\n try Min|CPUSET|CMA: page";
    check("linux-4.12", Gfp::GFP_HIGHUSER_MOVABLE, 2, movable);
}

#[test]
fn what_was_not_compacted_is_tried_again_by_release() {
    let start = "try Min|CPUSET|CMA: none\n compact 9 Async: ";
    let (fails, tries) = ("Fail", "try Min|CPUSET|CMA: page\n Served");
    for (name, skipped, deferred) in [
        ("linux-5.0", fails, fails),
        ("linux-5.1", tries, tries),
        ("linux-5.10", tries, tries),
        ("linux-5.13", fails, tries),
        (
            "linux-7.2",
            "try Min|CPUSET|CMA: none\n reclaim 9: 0\n compact 9 Async: skipped\n Fail",
            tries,
        ),
    ] {
        check(name, NORETRY_THP, 9, &format!("{start}skipped\n {skipped}"));
        check(name, NORETRY_THP, 9, &format!("{start}deferred\n {deferred}"));
    }
}

#[test]
fn g2_huge_page_does_one_light_round() {
    check(
        "linux-6.12",
        NORETRY_THP,
        9,
        "try Min|CPUSET|CMA: none
        compact 9 Async: deferred
        try Min|CPUSET|CMA: none
        Fail",
    );
    check(
        "linux-6.12",
        NORETRY_THP,
        9,
        "try Min|CPUSET|CMA: none
        compact 9 Async: complete
        try Min|CPUSET|CMA: none
        try Min|CPUSET|CMA: none
        reclaim 9: 0
        compact 9 Async: complete
        try Min|CPUSET|CMA: none
        Fail",
    );
    check(
        "linux-4.9",
        NORETRY_THP,
        9,
        "try Min|CPUSET|CMA: none\n compact 9 Async: skipped\n try Min|CPUSET|CMA",
    );
    check(
        "linux-6.12",
        NORETRY_THP,
        9,
        "try Min|CPUSET|CMA: none\n compact 9 Async: skipped\n Fail",
    );
}

#[test]
fn g2_raises_the_priority_of_compaction() {
    let round = |priority: &str| {
        format!(
            "wake 1: done
            try Min|CPUSET|KSWAPD: none
            reclaim 1: 1
            try Min|CPUSET|KSWAPD: none
            unreserve: no
            DrainAll: done
            try Min|CPUSET|KSWAPD: none
            compact 1 {priority}: complete
            try Min|CPUSET|KSWAPD: none
            reclaimable? 0: no
            unreserve all: no\n"
        )
    };
    let first = "wake 1: done
        try Min|CPUSET|KSWAPD: none
        compact 1 Async: complete
        try Min|CPUSET|KSWAPD: none\n";
    let end = "try High|CPUSET: none\n Oom: nothing\n Fail";
    let script = format!("{first}{}{}{end}", round("SyncLight"), round("SyncFull"));
    check("linux-6.12", Gfp::GFP_KERNEL, 1, &script);
}

#[test]
fn g2_skipped_compaction_asks_whether_reclaim_would_help() {
    check(
        "linux-6.12",
        Gfp(Gfp::GFP_KERNEL.0 | Gfp::RETRY_MAYFAIL.0),
        4,
        "wake 4: done
        try Min|CPUSET|KSWAPD: none
        compact 4 Async: skipped
        wake 4: done
        try Min|CPUSET|KSWAPD: none
        reclaim 4: 1
        try Min|CPUSET|KSWAPD: none
        unreserve: no
        DrainAll: done
        try Min|CPUSET|KSWAPD: none
        compact 4 SyncLight: skipped
        reclaimable? 1: no
        unreserve all: no
        compactable?: yes
        wake 4: done
        try Min|CPUSET|KSWAPD: none
        reclaim 4: 0
        compact 4 SyncLight: skipped
        reclaimable? 2: no
        unreserve all: no
        try High|CPUSET: none
        Fail",
    );
}

#[test]
fn retries_without_progress_end() {
    let policy = Policy::parse("linux-6.12").unwrap();
    let mut path = SlowPath::new(&policy, demand(Gfp::GFP_KERNEL, 0), Caller::default());
    let (mut answer, mut asked) = (Outcome::Start, 0);
    loop {
        answer = match path.next(answer) {
            Step::ReclaimRetry { .. } => {
                asked += 1;
                Outcome::Yes
            }
            Step::Oom => break,
            _ => Outcome::NoPage,
        };
    }
    assert_eq!(asked, MAX_RETRIES);
}

#[test]
fn compaction_with_progress_retries_a_bounded_number_of_times() {
    let gfp = Gfp(Gfp::GFP_KERNEL.0 | Gfp::RETRY_MAYFAIL.0);
    let compactions = |order| {
        let policy = Policy::parse("linux-6.12").unwrap();
        let mut path = SlowPath::new(&policy, demand(gfp, order), Caller::default());
        let (mut answer, mut count) = (Outcome::Start, 0);
        loop {
            answer = match path.next(answer) {
                Step::DirectCompact { priority: CompactPriority::SyncLight, .. } => {
                    count += 1;
                    Outcome::Compacted(CompactResult::Success, Contention::None)
                }
                Step::DirectCompact { priority: CompactPriority::SyncFull, .. } => break,
                Step::DirectReclaim { .. } => Outcome::Reclaimed { pages: 1 },
                Step::Fail => break,
                _ => Outcome::No,
            };
        }
        count
    };
    assert_eq!(compactions(1), 17);
    assert_eq!(compactions(4), 5);
}
