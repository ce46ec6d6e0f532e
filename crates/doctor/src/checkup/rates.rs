//! The rates of events between two samples.

use std::collections::BTreeMap;

use serde::Serialize;

use super::sample::Sample;

/// Events per second between two samples.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Rates {
    /// The seconds between the samples.
    pub seconds: f64,
    /// Requests that did direct reclaim.
    pub direct_reclaim: f64,
    /// Requests that did direct compaction.
    pub compact_stall: f64,
    /// Direct compactions after which the request still failed.
    pub compact_fail: f64,
    /// Pages that kswapd scanned.
    pub kswapd_scanned: f64,
    /// Pages that kswapd freed.
    pub kswapd_freed: f64,
    /// Pages that direct reclaim scanned.
    pub direct_scanned: f64,
    /// Pages that kcompactd scanned.
    pub kcompactd_scanned: f64,
    /// Faults that got a huge page.
    pub thp_alloc: f64,
    /// Faults that wanted a huge page and did not get one.
    pub thp_fallback: f64,
    /// Faults that got a large folio below a huge page.
    pub folio_alloc: f64,
    /// Faults that wanted a large folio and did not get one.
    pub folio_fallback: f64,
    /// Pages that were swapped out.
    pub swapped_out: f64,
    /// Huge pages that khugepaged allocated.
    pub collapse_alloc: f64,
    /// Huge pages that khugepaged failed to allocate.
    pub collapse_failed: f64,
    /// hugetlb pages that were allocated.
    pub hugetlb_made: f64,
    /// hugetlb pages that could not be allocated.
    pub hugetlb_failed: f64,
    /// Writes to `drop_caches`.
    pub dropped_caches: f64,
    /// Tasks that the OOM killer killed.
    pub oom_kills: f64,
    /// The percentage of time with a task waiting for memory.
    pub pressure_some: Option<f64>,
    /// The percentage of a CPU that each of the kernel's threads for memory used.
    pub daemons: BTreeMap<String, f64>,
}

impl Rates {
    /// Returns the rates between two samples. An error says why they are unknown.
    ///
    /// # Errors
    /// If no time passed, or the machine was rebooted in between.
    pub fn between(first: &Sample, second: &Sample) -> Result<Self, &'static str> {
        let (Some(from), Some(to)) = (first.uptime, second.uptime) else {
            return Err("no /proc/uptime: the time between the samples is not known");
        };
        let seconds = to - from;
        if seconds < 0.0 {
            return Err(
                "the second sample has a smaller uptime: the machine was started in between, or the two are \
                        exchanged",
            );
        }
        if seconds < 0.5 {
            return Err("the samples are less than half a second apart");
        }
        let sum = |sample: &Sample, prefix: &str, except: &str| -> u64 {
            let named = sample
                .counters(prefix)
                .filter(|(name, _)| except.is_empty() || !name.contains(except));
            named.map(|(_, value)| value).sum()
        };
        let rate = |from: u64, to: u64| to.saturating_sub(from) as f64 / seconds;
        let all = |prefix: &str| rate(sum(first, prefix, ""), sum(second, prefix, ""));
        let direct =
            rate(sum(first, "pgscan_direct", "throttle"), sum(second, "pgscan_direct", "throttle"));
        let one = |name: &str| rate(first.counter(name), second.counter(name));
        let folio = |name: &str| {
            let of = |sample: &Sample| -> u64 {
                let sizes = sample.huge.sizes.iter().filter(|size| size.kb < HUGE_KB);
                sizes.filter_map(|size| size.stats.get(name)).sum()
            };
            rate(of(first), of(second))
        };
        let used = second.daemons.iter().filter_map(|(name, &now)| {
            let before = first.daemons.get(name)?;
            Some((name.clone(), (now - before).max(0.0) * 100.0 / seconds))
        });
        let waited = first.pressure.zip(second.pressure);
        Ok(Self {
            seconds,
            direct_reclaim: all("allocstall"),
            compact_stall: one("compact_stall"),
            compact_fail: one("compact_fail"),
            kswapd_scanned: all("pgscan_kswapd"),
            kswapd_freed: all("pgsteal_kswapd"),
            direct_scanned: direct,
            kcompactd_scanned: one("compact_daemon_migrate_scanned")
                + one("compact_daemon_free_scanned"),
            thp_alloc: one("thp_fault_alloc"),
            thp_fallback: one("thp_fault_fallback"),
            folio_alloc: folio("anon_fault_alloc"),
            folio_fallback: folio("anon_fault_fallback"),
            swapped_out: one("pswpout"),
            collapse_alloc: one("thp_collapse_alloc"),
            collapse_failed: one("thp_collapse_alloc_failed"),
            hugetlb_made: one("htlb_buddy_alloc_success"),
            hugetlb_failed: one("htlb_buddy_alloc_fail"),
            dropped_caches: one("drop_pagecache") + one("drop_slab"),
            oom_kills: one("oom_kill"),
            pressure_some: waited.map(|(from, to)| {
                to.some_us.saturating_sub(from.some_us) as f64 / seconds / 10_000.0
            }),
            daemons: used.collect(),
        })
    }
}

/// The size of a huge page; `/proc/vmstat` counts faults for this size only.
const HUGE_KB: u64 = 2048;
