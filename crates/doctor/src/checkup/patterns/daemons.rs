//! kswapd, kcompactd, and requests that do their work.

use super::{Facts, nothing, percent};
use crate::checkup::finding::{Command, Finding, Severity};
use crate::class::Confidence;

/// A thread that uses at least this share of a CPU, in percent, is busy.
const BUSY: f64 = 50.0;
/// If its CPU time is not known, kswapd is busy when it scans this many pages per second.
const SCANNED: f64 = 50_000.0;
/// The share of scanned pages that efficient reclaim frees.
const EFFICIENT: f64 = 0.3;

fn busiest(facts: &Facts<'_>, prefix: &str) -> Option<(String, f64)> {
    let threads = facts.rates?.daemons.iter().filter(|(name, _)| name.starts_with(prefix));
    threads.map(|(name, &cpu)| (name.clone(), cpu)).max_by(|a, b| a.1.total_cmp(&b.1))
}

/// kswapd is busy and frees little.
pub(super) fn kswapd(facts: &Facts<'_>) -> Option<Finding> {
    let rates = facts.rates?;
    let thread = busiest(facts, "kswapd");
    let busy = thread.as_ref().map_or(rates.kswapd_scanned >= SCANNED, |(_, cpu)| *cpu >= BUSY);
    if !busy {
        return None;
    }
    let freed = rates.kswapd_freed / rates.kswapd_scanned.max(1.0);
    let boosted: u64 =
        facts.zones.iter().flat_map(|zone| &zone.accounts).map(|zone| zone.boost).sum();
    if rates.kswapd_scanned >= 1.0 && freed >= EFFICIENT && boosted == 0 {
        // It serves programs that read files or allocate, which is its job.
        return None;
    }
    let mut evidence: Vec<String> =
        thread.map(|(name, cpu)| format!("{name} uses {cpu:.0} % of a CPU")).into_iter().collect();
    evidence.push(format!(
        "it looks at {:.0} pages/s and frees {:.0} % of them",
        rates.kswapd_scanned,
        freed * 100.0
    ));
    let mut commands = Vec::new();
    let cause = if boosted > 0 {
        evidence.push(format!("watermarks are boosted by {} MiB", facts.mib(boosted)));
        let risk = "fragmentation grows faster, as nobody makes room for unmovable pages";
        commands.extend(facts.sysctl("watermark_boost_factor", 0, risk));
        "fragmentation events raise the watermarks for a moment, and kswapd reclaims cache up to them"
    } else {
        commands.push(Command {
            run: "find what cannot be reclaimed: Dirty, Writeback, Unevictable and SUnreclaim in /proc/meminfo".to_owned(),
            undo: None,
            risk: "none: it reads",
        });
        "reclaim looks at pages that it cannot free: dirty, in use, or without swap"
    };
    Some(Finding {
        name: "kswapd_busy",
        severity: Severity::Warning,
        confidence: if boosted > 0 { Confidence::High } else { Confidence::Medium },
        symptom: "kswapd uses much CPU time".to_owned(),
        evidence,
        cause: cause.to_owned(),
        commands,
        does_nothing: vec![
            nothing("vm.swappiness=0", "kswapd then looks at page cache only, as often"),
            nothing("drop_caches in cron", "the cache is read again, and reclaimed again"),
        ],
    })
}

/// kcompactd is busy.
pub(super) fn kcompactd(facts: &Facts<'_>) -> Option<Finding> {
    let (name, cpu) = busiest(facts, "kcompactd").filter(|(_, cpu)| *cpu >= BUSY)?;
    let rates = facts.rates?;
    let mut evidence = vec![
        format!("{name} uses {cpu:.0} % of a CPU"),
        format!("it looks at {:.0} pages/s", rates.kcompactd_scanned),
    ];
    let order = facts.pageblock_order();
    evidence.extend(facts.unusable(order).map(|share| {
        format!("all the same, {} of free memory is in blocks below order {order}", percent(share))
    }));
    let mut commands = Vec::new();
    let defrag_mode = facts.sample.sysctl("defrag_mode") == Some(1);
    let cause = if defrag_mode {
        commands.extend(facts.sysctl("defrag_mode", 0, "more unmovable pages among movable ones"));
        "under defrag_mode kcompactd works until the high watermark is free in whole pageblocks"
    } else {
        let risk = "huge pages are found ready less often, and faults compact themselves";
        let on = facts.sample.sysctl("compaction_proactiveness").is_none_or(|now| now > 0);
        commands.extend(on.then(|| facts.sysctl("compaction_proactiveness", 0, risk)).flatten());
        "kcompactd retries what it cannot reach: pages that do not move hold the blocks"
    };
    commands.push(Command {
        run: "pageblock forecast (as root): what holds the blocks, and how much compaction could give".to_owned(),
        undo: None,
        risk: "none: it reads",
    });
    Some(Finding {
        name: "kcompactd_busy",
        severity: Severity::Warning,
        confidence: Confidence::Medium,
        symptom: "kcompactd uses much CPU time".to_owned(),
        evidence,
        cause: cause.to_owned(),
        commands,
        does_nothing: vec![
            nothing("a lower vm.extfrag_threshold", "lower means more compaction, not less"),
            nothing("a larger vm.min_free_kbytes", "it keeps more memory free, not larger blocks"),
        ],
    })
}
