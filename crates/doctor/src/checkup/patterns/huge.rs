//! Huge pages that cannot be allocated.

use super::{Facts, compact_once, nothing, percent};
use crate::checkup::finding::{Command, Finding, Severity};
use crate::class::Confidence;

/// Fewer hugetlb pages than a configuration requests.
pub(super) fn hugetlb(facts: &Facts<'_>) -> Option<Finding> {
    let hugetlb = &facts.sample.hugetlb;
    let mut evidence = Vec::new();
    if let (Some(total), Some(wanted)) = (hugetlb.total, hugetlb.wanted)
        && total < wanted
    {
        let file = hugetlb.wanted_by.as_deref().unwrap_or_default();
        evidence.push(format!("{file} asks for {wanted} pages, there are {total}"));
    }
    if let Some(rates) = facts.rates.filter(|rates| rates.hugetlb_failed > 0.0) {
        evidence.push(format!(
            "{:.1} pages/s could not be made (htlb_buddy_alloc_fail)",
            rates.hugetlb_failed
        ));
    }
    if evidence.is_empty() {
        return None;
    }
    let free: u64 = facts.zones.iter().map(|zone| zone.free).sum();
    evidence.push(format!("{} MiB are free", facts.mib(free)));
    let order = facts.pageblock_order();
    evidence.extend(
        facts
            .unusable(order)
            .map(|share| format!("unusable for order {order}: {}", percent(share))),
    );
    let wanted = hugetlb.wanted.unwrap_or(0);
    let total = hugetlb.total.unwrap_or(0);
    let mut commands = vec![Command {
        run: "pageblock forecast (as root): how many blocks compaction could make".to_owned(),
        undo: None,
        risk: "none: it reads",
    }];
    commands.push(compact_once());
    if wanted > total {
        commands.push(Command {
            run: format!("sysctl vm.nr_hugepages={wanted}, again after that"),
            undo: Some(format!("sysctl vm.nr_hugepages={total}")),
            risk: "takes the memory from everything else",
        });
    }
    commands.push(Command {
        run: format!("hugepages={} on the kernel's command line", wanted.max(total)),
        undo: Some("remove it".to_owned()),
        risk: "the memory is reserved from boot on",
    });
    Some(Finding {
        name: "hugetlb_short",
        severity: Severity::Warning,
        confidence: Confidence::High,
        symptom: "fewer hugetlb pages than were asked for".to_owned(),
        evidence,
        cause: "too few free blocks of that size when they were asked for".to_owned(),
        commands,
        does_nothing: vec![nothing(
            "a larger vm.min_free_kbytes",
            "it keeps more memory free, not larger blocks",
        )],
    })
}

/// The share of faults without a huge page, in percent, from which coverage decays, and the rate of faults per second from
/// which that share is meaningful.
const FALLBACK: f64 = 20.0;
const FAULTS: f64 = 1.0;

/// Faults get no huge page or large folio although memory is free.
pub(super) fn coverage(facts: &Facts<'_>) -> Option<Finding> {
    let rates = facts.rates?;
    let share = |got: f64, not: f64| (got + not >= FAULTS).then(|| 100.0 * not / (got + not));
    let mut evidence = Vec::new();
    let mut sizes = Vec::new();
    let all = [
        ("huge pages", rates.thp_alloc, rates.thp_fallback),
        ("smaller large folios", rates.folio_alloc, rates.folio_fallback),
    ];
    for (what, got, not) in all {
        if let Some(share) = share(got, not).filter(|&share| share >= FALLBACK) {
            evidence.push(format!("{what}: {share:.0} % of {:.1} faults/s get none", got + not));
            sizes.push(what);
        }
    }
    // Without free memory it is a shortage.
    if evidence.is_empty() || !facts.has_free_memory() {
        return None;
    }
    let order = facts.pageblock_order();
    let unusable = facts.unusable(order);
    evidence.extend(unusable.map(|share| {
        format!("{} of free memory is in blocks below order {order}", percent(share))
    }));
    let mut commands = Vec::new();
    let risk = "kcompactd uses CPU time in the background";
    if facts.sample.sysctl("compaction_proactiveness").is_none_or(|now| now < 40) {
        commands.extend(facts.sysctl("compaction_proactiveness", 40, risk));
    }
    let risk = if facts.has_defrag_blocks() {
        "more reclaim before unmovable pages may go elsewhere"
    } else {
        "before 7.3 unmovable requests spin in reclaim, before 7.2 atomic ones fail"
    };
    commands.extend(facts.sysctl("defrag_mode", 1, risk));
    commands.push(compact_once());
    let sure = unusable.is_some_and(|share| share >= 500);
    Some(Finding {
        name: "huge_pages_decay",
        severity: Severity::Warning,
        confidence: if sure { Confidence::High } else { Confidence::Medium },
        symptom: format!("fewer and fewer {}, though memory is free", sizes.join(" and ")),
        evidence,
        cause: "unmovable pages are spread over many pageblocks: that happens in the first hour, and stays".to_owned(),
        commands,
        does_nothing: vec![
            nothing("echo 3 > /proc/sys/vm/drop_caches", "a pageblock that one unmovable page holds stays held"),
            nothing("a larger vm.min_free_kbytes", "it keeps more memory free, not larger blocks"),
        ],
    })
}
