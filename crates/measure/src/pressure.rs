//! What apppressure reports: latencies, pressure, refaults, stalls, and what the allocator did.

use crate::metrics::{Metric, Value};
use crate::names;
use crate::run::Run;
use crate::stats;

/// The samples of launches and switches, nanoseconds: all, of apps that were built up anew, of known ones.
pub const LATENCY: &str = "latency";
/// Of apps that were built up anew.
pub const LATENCY_COLD: &str = "latency-cold";
/// Of apps that were in memory or in swap.
pub const LATENCY_WARM: &str = "latency-warm";

/// Launches of apps that were built up anew.
pub const COLD: &str = "launches_cold";
/// Launches of apps that were in memory or in swap.
pub const WARM: &str = "launches_warm";
/// Apps killed for others.
pub const KILLED: &str = "apps_killed";
/// Apps that ended for want of memory.
pub const OUT_OF_MEMORY: &str = "apps_out_of_memory";
/// Requests of background tasks that failed.
pub const FAILED: &str = "background_failures";
/// Packets for which there was no memory.
pub const DROPPED: &str = "packets_dropped";
/// Pages that zsmalloc has at the end.
pub const ZSMALLOC: &str = "zsmalloc_pages";

/// Nanoseconds of a millisecond.
const MS: f64 = 1e6;

/// The measures of launches and of pressure; of runs that have none of it they have no value.
pub(crate) fn metrics() -> Vec<Metric> {
    let mut metrics = vec![
        latency("mean", LATENCY, stats::amean),
        latency("p50", LATENCY, |ms| quantile(ms, 50)),
        latency("p95", LATENCY, |ms| quantile(ms, 95)),
        latency("p99", LATENCY, |ms| quantile(ms, 99)),
        latency("cold-mean", LATENCY_COLD, stats::amean),
        latency("warm-mean", LATENCY_WARM, stats::amean),
        pressure("some", names::PSI_SOME_US),
        pressure("full", names::PSI_FULL_US),
        counted("Refaults", "file", "workingset_refault"),
        counted("Refaults", "anon", "workingset_refault_anon"),
        counted("Refaults", "activated", "workingset_activate"),
    ];
    for order in 0..=3 {
        metrics.push(counted(
            "Stalls",
            &format!("order-{order}"),
            &format!("allocstall_order_{order}"),
        ));
    }
    metrics.push(counted("Stalls", "compaction", "compact_stall"));
    for order in 0..=3 {
        metrics.push(stall_time(order));
    }
    for (group, label, counter) in [
        ("Fallback", "events", names::MM_PAGE_ALLOC_EXTFRAG),
        ("Fallback", "list-mismatch", names::LIST_MISMATCH_PAGES),
        ("Fallback", "block-looks", names::BLOCK_LOOKS),
        ("Fallback", "block-looks-most", names::BLOCK_LOOKS_MOST),
        ("Fallback", "lock-wait-us", names::LOCK_WAIT_US),
        ("Reclaim", "kswapd-scanned", "pgscan_kswapd"),
        ("Reclaim", "kswapd-reclaimed", "pgsteal_kswapd"),
        ("Reclaim", "direct-scanned", "pgscan_direct"),
        ("Reclaim", "direct-reclaimed", "pgsteal_direct"),
        ("Reclaim", "madvised", "pgmadvise_pageout"),
        ("Reclaim", "rounds", "pageoutrun"),
        ("Reclaim", "rounds-boosted", "pageoutrun_boosted"),
        ("Reclaim", "reclaimed-boosted", "pgsteal_boosted"),
        ("Swap", "in", "pswpin"),
        ("Swap", "out", "pswpout"),
        ("Apps", "cold", COLD),
        ("Apps", "killed", KILLED),
        ("Apps", "out-of-memory", OUT_OF_MEMORY),
        ("Apps", "packets-dropped", DROPPED),
    ] {
        metrics.push(counted(group, label, counter));
    }
    metrics
}

fn is_of_workload(run: &Run) -> bool {
    run.samples.contains_key(LATENCY)
}

/// The value at or below which so many percent of the samples are; 0 of none.
fn quantile(samples: &[f64], percent: usize) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

fn latency(label: &str, samples: &'static str, of: fn(&[f64]) -> f64) -> Metric {
    Metric::lower(("Latency", &format!("{label}-ms")), move |run| {
        let samples = run.samples.get(samples)?;
        let ms: Vec<f64> = samples.iter().map(|&ns| ns as f64 / MS).collect();
        Some(Value::Real(of(&ms)))
    })
}

/// In percent of the time.
fn pressure(label: &str, counter: &'static str) -> Metric {
    Metric::lower(("PSI%", label), move |run| {
        let elapsed = run.counters.get(names::SIMULATED_ELAPSED_MS)?;
        let us = run.counters.get(counter)?;
        Some(Value::Real(us as f64 / (10.0 * elapsed as f64)))
    })
}

fn counted(group: &'static str, label: &str, counter: &str) -> Metric {
    let counter = counter.to_owned();
    Metric::lower((group, label), move |run| {
        is_of_workload(run).then(|| Value::Count(run.counters.get(&counter).unwrap_or(0)))
    })
}

fn stall_time(order: u32) -> Metric {
    Metric::lower(("StallTime", &format!("order-{order}-ms")), move |run| {
        let samples = run.samples.get(&format!("stall-order-{order}"));
        let ns: u64 = samples.map_or(0, |samples| samples.iter().sum());
        is_of_workload(run).then_some(Value::Real(ns as f64 / MS))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Options;
    use crate::seeds::SeedComparison;

    #[test]
    fn latencies_and_pressure_are_rows_over_seeds() {
        let run = |policy: &str, factor: u64| {
            let mut run = Run { policy: policy.into(), seed: 1, ..Run::default() };
            let launches = (1..=100).map(|ms| ms * 1_000_000 * factor).collect();
            run.samples.insert(LATENCY.to_owned(), launches);
            run.samples.insert("stall-order-2".to_owned(), vec![500_000, 250_000 * factor]);
            run.counters.set(names::SIMULATED_ELAPSED_MS, 10_000);
            run.counters.set(names::PSI_SOME_US, 100_000 * factor);
            run
        };
        let runs = [run("a", 1), run("b", 2)];
        let comparison = SeedComparison::of_runs(&runs, &Options::default()).unwrap();
        let means = |group: &str, label: &str| {
            let row = comparison.row(group, label).unwrap();
            row.cells.iter().map(|cell| cell.as_ref().unwrap().mean).collect::<Vec<_>>()
        };
        assert_eq!(means("Latency", "mean-ms"), [50.5, 101.0]);
        assert_eq!(means("Latency", "p50-ms"), [50.0, 100.0]);
        assert_eq!(means("Latency", "p99-ms"), [99.0, 198.0]);
        assert_eq!(means("PSI%", "some"), [1.0, 2.0]);
        assert_eq!(means("StallTime", "order-2-ms"), [0.75, 1.0]);
        assert_eq!(means("Refaults", "file"), [0.0, 0.0]);
        assert!(comparison.row("PSI%", "full").is_none());
    }

    #[test]
    fn other_runs_have_no_such_rows() {
        let runs = [Run { policy: "a".into(), ..Run::default() }];
        assert!(metrics().iter().all(|metric| metric.value(&runs[0]).is_none()));
    }
}
