//! Failures in the kernel's log.

use super::{Facts, compact_once, nothing, percent};
use crate::checkup::finding::{Command, Finding, Severity};
use crate::checkup::klog::Failures;
use crate::class::{Class, Confidence};

/// The highest order of a driver's or a file system's usual request.
const USUAL_ORDER: u32 = 5;
const ANY_ORDER: u32 = 63;

/// Describes a place in a log.
fn place(file: Option<&str>, line: usize) -> String {
    match file {
        Some(file) => format!("{file} line {line}"),
        None => format!("log line {line}"),
    }
}

fn evidence<'a>(failures: impl Iterator<Item = &'a Failures>) -> Vec<String> {
    let line = |f: &Failures| {
        let task = f.task.as_deref().map_or(String::new(), |task| format!(", first for {task}"));
        let place = place(f.file.as_deref(), f.line);
        format!("{place}: {} reports of order {}{task}", f.count, f.order)
    };
    failures.map(line).collect()
}

/// Requests that cannot sleep find the reserve used up.
pub(super) fn burst(facts: &Facts<'_>) -> Option<Finding> {
    let mut evidence = evidence(facts.sample.log.as_ref()?.of(Class::Burst, 0..=ANY_ORDER));
    if evidence.is_empty() {
        return None;
    }
    let scale = facts.sample.sysctl("watermark_scale_factor");
    if let Some(scale) = scale {
        evidence.push(format!("vm.watermark_scale_factor is {scale}"));
    }
    let mut commands = Vec::new();
    if scale.is_none_or(|scale| scale < 100) {
        let risk = "keeps 1 % of memory free that was cache";
        commands.extend(facts.sysctl("watermark_scale_factor", 100, risk));
    }
    if commands.is_empty() {
        let now = facts.sample.sysctl("min_free_kbytes").unwrap_or(65_536);
        let risk =
            "takes as much memory from everybody; above 5 % of memory the OOM killer comes sooner";
        commands.extend(facts.sysctl("min_free_kbytes", now.saturating_mul(2), risk));
    }
    Some(Finding {
        name: "burst",
        severity: Severity::Warning,
        confidence: Confidence::High,
        symptom: "requests that cannot wait failed (network or USB drivers; a packet is dropped)"
            .to_owned(),
        evidence,
        cause:
            "a burst used up the reserve below the min watermark before kswapd could free memory"
                .to_owned(),
        commands,
        does_nothing: vec![
            nothing(
                "echo 1 > /proc/sys/vm/compact_memory",
                "single pages were missing, not large blocks",
            ),
            nothing("drop_caches in cron", "the next burst finds the same reserve"),
        ],
    })
}

/// Requests of orders 1 to 5 fail while memory is free.
pub(super) fn fragmentation(facts: &Facts<'_>) -> Option<Finding> {
    let logged =
        facts.sample.log.iter().flat_map(|log| log.of(Class::Fragmentation, 1..=USUAL_ORDER));
    let mut evidence = evidence(logged);
    let failed = !evidence.is_empty();
    // The index says why a request would fail, and is asked only where it would.
    let threshold = facts.sample.sysctl("extfrag_threshold").unwrap_or(500).cast_signed();
    let zones: Vec<_> = facts.large_zones().filter(|zone| zone.is_above_high()).collect();
    let fragmented = |order: usize| {
        let index = |zone: &&super::ZoneHealth| {
            zone.fragmentation.get(order).copied().flatten().is_some_and(|index| index > threshold)
        };
        !zones.is_empty() && zones.iter().all(index)
    };
    let first = (1..=USUAL_ORDER).find(|&order| fragmented(order as usize));
    if let Some(order) = first {
        for zone in &zones {
            let index = zone.fragmentation[order as usize].unwrap_or(0);
            evidence.push(format!(
                "node {} {}: {} MiB are free, no block of order {order} ({}) or above; fragmentation index {}.{:03}",
                zone.node,
                zone.zone,
                facts.mib(zone.free),
                facts.size(order),
                index / 1000,
                index % 1000
            ));
        }
    }
    if evidence.is_empty() {
        return None;
    }
    let mut commands = vec![compact_once()];
    let risk = "kcompactd uses CPU time in the background";
    if facts.sample.sysctl("compaction_proactiveness").is_none_or(|now| now < 40) {
        commands.extend(facts.sysctl("compaction_proactiveness", 40, risk));
    }
    let severity = if first.is_some() { Severity::Critical } else { Severity::Warning };
    Some(Finding {
        name: "fragmentation",
        severity,
        confidence: if first.is_some() || failed { Confidence::High } else { Confidence::Medium },
        symptom: "requests for a few pages side by side fail (fork, KVM, jumbo frames: ENOMEM) while memory is free"
            .to_owned(),
        evidence,
        cause: "free memory is in blocks that are too small: unmovable pages lie among movable ones".to_owned(),
        commands,
        does_nothing: vec![
            nothing("a larger vm.min_free_kbytes", "it keeps more memory free, not larger blocks"),
            nothing("echo 3 > /proc/sys/vm/drop_caches in cron", "it frees scattered pages, and the cache is read again"),
            nothing("vm.extfrag_threshold=500", "that is the default"),
        ],
    })
}

/// A driver needs blocks of order 6 and more.
pub(super) fn very_large(facts: &Facts<'_>) -> Option<Finding> {
    let log = facts.sample.log.as_ref()?;
    let mut evidence = evidence(log.of(Class::Fragmentation, USUAL_ORDER + 1..=ANY_ORDER));
    if evidence.is_empty() {
        return None;
    }
    if let Some(order) = facts.largest_free() {
        evidence.push(format!(
            "the largest free block now is of order {order} ({})",
            facts.size(order as u32)
        ));
    }
    let change = |run: &str, risk| Command { run: run.to_owned(), undo: None, risk };
    Some(Finding {
        name: "very_large_blocks",
        severity: Severity::Warning,
        confidence: Confidence::High,
        symptom: "a driver gets no block of hundreds of kB or MB on a machine that ran for a while".to_owned(),
        evidence,
        cause: "above order 3 the kernel gives up early by design; such blocks are there after boot and then rare".to_owned(),
        commands: vec![
            change("pageblock forecast (as root)", "none: it reads, and says what compaction could give"),
            compact_once(),
            change(
                "load the driver at boot, or give it CMA (cma= on the kernel's command line)",
                "CMA memory serves movable pages only while the driver does not use it",
            ),
        ],
        does_nothing: vec![nothing("a larger vm.min_free_kbytes", "it keeps more memory free, not larger blocks")],
    })
}

/// XFS waits for blocks for the list of a file's extents.
pub(super) fn xfs(facts: &Facts<'_>) -> Option<Finding> {
    let lines = facts.sample.log.as_ref().map_or(0, |log| log.xfs_deadlock);
    if lines == 0 {
        return None;
    }
    let change = |run: &str, risk| Command { run: run.to_owned(), undo: None, risk };
    Some(Finding {
        name: "xfs_extents",
        severity: Severity::Warning,
        confidence: Confidence::High,
        symptom: "XFS says \"possible memory allocation deadlock\" and writes stall".to_owned(),
        evidence: vec![format!("{lines} such lines in the log")],
        cause: "a file with very many extents: XFS (up to 4.15) asks for its whole list of extents as one block, again and again"
            .to_owned(),
        commands: vec![
            change("xfs_bmap -v FILE | wc -l, and xfs_fsr FILE for the worst", "disk traffic while it copies"),
            change("xfs_io -c 'extsize 16m' DIRECTORY, so that new files have fewer extents", "small files take more space"),
            compact_once(),
        ],
        does_nothing: vec![nothing(
            "drop_caches in cron (\"xfs-guard\")",
            "it gives a block by luck, and costs all the cache; the file stays as it is",
        )],
    })
}

/// CMA areas are full.
pub(super) fn cma_no_room(facts: &Facts<'_>) -> Option<Finding> {
    let log = facts.sample.log.as_ref().filter(|log| log.cma_no_room > 0)?;
    let total = facts.sample.kb("CmaTotal").unwrap_or(0);
    let free = facts.sample.kb("CmaFree").unwrap_or(0);
    Some(Finding {
        name: "cma_full",
        severity: Severity::Warning,
        confidence: Confidence::High,
        symptom: "cma_alloc fails with -12 (ENOMEM)".to_owned(),
        evidence: vec![
            format!("{} times in the log, for up to {} pages", log.cma_no_room, log.cma_pages),
            format!("CMA: {total} kB, {free} kB of them free"),
        ],
        cause: "no range of the area is long enough: it is full of device memory, or smaller than what is asked for".to_owned(),
        commands: vec![Command {
            run: format!("cma={}M on the kernel's command line", (total * 2 / 1024).max(64)),
            undo: Some("remove it".to_owned()),
            risk: "free CMA memory serves movable pages only: unmovable requests run short sooner",
        }],
        does_nothing: vec![nothing(
            "echo 1 > /proc/sys/vm/compact_memory",
            "device memory in the area does not move, and movable pages leave by themselves",
        )],
    })
}

/// Pages in CMA areas cannot leave.
pub(super) fn cma_busy(facts: &Facts<'_>) -> Option<Finding> {
    let log = facts.sample.log.as_ref().filter(|log| log.cma_busy > 0)?;
    let order = facts.pageblock_order();
    let mut evidence =
        vec![format!("{} times in the log, for up to {} pages", log.cma_busy, log.cma_pages)];
    evidence.extend(
        facts
            .unusable(order)
            .map(|share| format!("unusable for order {order}: {}", percent(share))),
    );
    Some(Finding {
        name: "cma_busy",
        severity: Severity::Warning,
        confidence: Confidence::High,
        symptom: "cma_alloc fails with -16 (EBUSY)".to_owned(),
        evidence,
        cause: "movable pages in the area could not leave: pinned (O_DIRECT, RDMA, virtual machines), locked or under writeback"
            .to_owned(),
        commands: vec![Command {
            run: "allocate when the driver is loaded and keep it, or ask again after sync".to_owned(),
            undo: None,
            risk: "kept memory serves nobody else",
        }],
        does_nothing: vec![nothing("a larger cma=", "there was room; pages in it could not leave")],
    })
}

/// Seconds after which a kill is only a notice.
const RECENT_S: f64 = 3600.0;

/// The OOM killer killed tasks, according to the log.
pub(super) fn killed(facts: &Facts<'_>) -> Option<Finding> {
    let log = facts.sample.log.as_ref()?;
    let kill = log.last_kill.as_ref()?;
    let ago = facts.sample.uptime.zip(kill.at_s).map(|(now, at)| now - at);
    let recent = ago.is_none_or(|ago| ago <= RECENT_S);
    let evidence = vec![format!(
        "{}: {} was ended {}, the last of {}",
        place(kill.file.as_deref(), kill.line),
        kill.task,
        kill.ago(facts.sample.uptime),
        log.kills
    )];
    let cause = if kill.of_cgroup {
        "a memory cgroup was at its limit; the machine may have memory"
    } else {
        "nothing could be reclaimed for a request that had to be served"
    };
    Some(Finding {
        name: "oom_kill",
        severity: if recent { Severity::Warning } else { Severity::Notice },
        confidence: Confidence::High,
        symptom: "the OOM killer ended tasks".to_owned(),
        evidence,
        cause: cause.to_owned(),
        commands: vec![Command {
            run: "dmesg | pageblock explain: which memory the request could use, and what had it"
                .to_owned(),
            undo: None,
            risk: "none: it reads",
        }],
        does_nothing: vec![nothing(
            "echo 1 > /proc/sys/vm/compact_memory",
            "compaction joins free memory; it does not make more of it",
        )],
    })
}
