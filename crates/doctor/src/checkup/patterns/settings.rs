//! Caches and settings that cause problems, and counters that nobody monitors.

use pageblock::policy::Slowpath;
use pageblock_kernel::Kernel;

use super::{Facts, nothing, percent};
use crate::checkup::finding::{Command, Finding, Severity};
use crate::class::Confidence;

/// A large cache outside the LRU lists, on a fragmented machine.
pub(super) fn large_cache(facts: &Facts<'_>) -> Option<Finding> {
    let arc = facts.sample.arc_bytes? >> 10;
    let total = facts.sample.kb("MemTotal")?;
    let order = facts.pageblock_order();
    let unusable = facts.unusable(order)?;
    if arc * 4 < total || unusable < 500 {
        return None;
    }
    let (half, now) = ((arc / 2) << 10, arc << 10);
    let file = "/sys/module/zfs/parameters/zfs_arc_max";
    Some(Finding {
        name: "large_cache",
        severity: Severity::Warning,
        confidence: Confidence::Medium,
        symptom: "memory fragments while ZFS caches, and reclaim is busy".to_owned(),
        evidence: vec![
            format!("the ZFS cache (ARC) has {} MiB of {} MiB", arc >> 10, total >> 10),
            format!("{} of free memory is in blocks below order {order}", percent(unusable)),
        ],
        cause: "its pages are on no LRU list: compaction cannot move them, and reclaim frees them scattered".to_owned(),
        commands: vec![Command {
            run: format!("echo {half} > {file}"),
            undo: Some(format!("echo {now} > {file} (the size now; 0 is the default)")),
            risk: "fewer hits in the cache",
        }],
        does_nothing: vec![
            nothing("vm.vfs_cache_pressure", "it governs dentries and inodes, not the ARC"),
            nothing("echo 1 > /proc/sys/vm/compact_memory", "pages of the ARC do not move"),
        ],
    })
}

/// `defrag_mode` with its known faults.
pub(super) fn defrag_mode(facts: &Facts<'_>) -> Option<Finding> {
    if facts.sample.sysctl("defrag_mode") != Some(1) || facts.has_defrag_blocks() {
        return None;
    }
    let mut evidence = vec!["vm.defrag_mode is 1".to_owned()];
    let mut severity = Severity::Notice;
    if let Some(rates) = facts.rates.filter(|rates| rates.direct_reclaim >= 1.0) {
        evidence.push(format!(
            "{:.1} requests/s reclaim memory themselves; {:.0} pages/s are swapped out",
            rates.direct_reclaim, rates.swapped_out
        ));
        severity = Severity::Warning;
    }
    let one_loop = |kernel: &Kernel| kernel.allocator.slowpath == Slowpath::OneLoop;
    let cause = match facts.sample.follows(one_loop) {
        true => "before 7.3, unmovable requests spin in reclaim rather than use movable blocks",
        false => {
            "before 7.3 unmovable requests spin in reclaim, and before 7.2 atomic requests of one page fail"
        }
    };
    let risk = "more unmovable pages among movable ones";
    Some(Finding {
        name: "defrag_mode",
        severity,
        confidence: Confidence::Medium,
        symptom: "swapping, failed atomic requests or a busy kcompactd under vm.defrag_mode=1"
            .to_owned(),
        evidence,
        cause: cause.to_owned(),
        commands: facts.sysctl("defrag_mode", 0, risk).into_iter().collect(),
        does_nothing: vec![nothing("vm.swappiness=0", "requests spin in reclaim all the same")],
    })
}

/// A monitoring agent that exports none of these counters.
pub(super) fn monitor(facts: &Facts<'_>) -> Option<Finding> {
    let line = facts.sample.exporter.as_ref()?;
    let buddyinfo =
        line.contains("--collector.buddyinfo") && !line.contains("--no-collector.buddyinfo");
    let counters = line.contains("--collector.vmstat.fields");
    if buddyinfo && counters {
        return None;
    }
    let mut evidence = Vec::new();
    if !buddyinfo {
        evidence.push(
            "node_exporter runs without --collector.buddyinfo, which is off by default".to_owned(),
        );
    }
    if !counters {
        let what = "its --collector.vmstat.fields is the default, which drops compact_*, thp_* and allocstall*";
        evidence.push(what.to_owned());
    }
    let fields = "^(oom_kill|pgpg|pswp|pg.*fault|compact_|thp_|allocstall|pgscan|pgsteal).*";
    Some(Finding {
        name: "monitor_blind",
        severity: Severity::Notice,
        confidence: Confidence::High,
        symptom: "the monitor shows nothing of fragmentation".to_owned(),
        evidence,
        cause: "the counters are not exported".to_owned(),
        commands: vec![Command {
            run: format!(
                "node_exporter --collector.buddyinfo --collector.vmstat.fields='{fields}'"
            ),
            undo: Some("start it as before".to_owned()),
            risk: "some dozen more series",
        }],
        does_nothing: Vec::new(),
    })
}

/// Memory is used up: a shortage, not fragmentation.
pub(super) fn shortage(facts: &Facts<'_>) -> Option<Finding> {
    let (available, total) = (facts.sample.kb("MemAvailable")?, facts.sample.kb("MemTotal")?);
    let waits = facts.sample.pressure.map_or(0.0, |pressure| pressure.some[0]);
    let kills = facts.rates.map_or(0.0, |rates| rates.oom_kills);
    if available * 20 >= total || (waits < 1.0 && kills == 0.0) {
        return None;
    }
    let mut evidence = vec![
        format!("{} MiB of {} MiB are available", available >> 10, total >> 10),
        format!("tasks waited for memory {waits:.1} % of the last 10 s"),
    ];
    if kills > 0.0 {
        evidence.push("the OOM killer ended a task meanwhile".to_owned());
    }
    Some(Finding {
        name: "shortage",
        severity: Severity::Critical,
        confidence: Confidence::High,
        symptom: "the machine is slow, or tasks are killed".to_owned(),
        evidence,
        cause: "memory is used up: this is no fragmentation".to_owned(),
        commands: vec![Command {
            run: "less load, or more memory or swap: ps aux --sort=-rss | head says who has it"
                .to_owned(),
            undo: None,
            risk: "none: it reads",
        }],
        does_nothing: vec![
            nothing(
                "echo 1 > /proc/sys/vm/compact_memory",
                "compaction joins free memory; it does not make more of it",
            ),
            nothing(
                "a larger vm.min_free_kbytes",
                "it takes memory from everybody, and there is none",
            ),
        ],
    })
}
