//! Curves over time that several pictures show.

use crate::opened::Opened;

/// A curve with a value for each sample.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// What it shows, with its unit in brackets.
    pub title: &'static str,
    /// By sample.
    pub values: Vec<f64>,
}

/// The shortest time that a rate is of, as a share of the run: samples may be much nearer.
const RATE_SPAN: f64 = 1.0 / 150.0;

/// The counters of a timeline by second, each with the names that are added up.
const RATES: [(&str, &[&str]); 5] = [
    ("reclaimed [pages/s]", &["pgsteal_kswapd", "pgsteal_direct"]),
    ("scanned by compaction [pages/s]", &["compact_migrate_scanned", "compact_free_scanned"]),
    ("stalls: direct reclaim and compaction [1/s]", &["allocstall", "compact_stall"]),
    ("huge pages on fault [1/s]", &["thp_fault_alloc"]),
    ("faults that got small pages instead [1/s]", &["thp_fault_fallback"]),
];

/// Returns the curves of a timeline; counters that never changed are left out.
#[must_use]
pub fn timeline(run: &Opened) -> Vec<Series> {
    let samples = 0..run.cells.len();
    let order = run.history.pageblock_order;
    let pages = |sample| {
        let free = run.free_blocks(sample);
        free.iter().enumerate().map(|(order, blocks)| (blocks << order) as f64).sum::<f64>()
    };
    let mib = |sample| pages(sample) * 4.0 / 1024.0;
    let mut curves = vec![
        Series { title: "free memory [MiB]", values: samples.clone().map(mib).collect() },
        Series {
            title: "free memory in blocks below a pageblock [%]",
            values: samples.clone().map(|at| run.unusable(at, order).unwrap_or(0.0)).collect(),
        },
        Series {
            title: "pageblocks held by pages that cannot be moved",
            values: samples.map(|at| run.held(at) as f64).collect(),
        },
    ];
    for (title, names) in RATES {
        let values = rates(run, names);
        if values.iter().any(|&rate| rate > 0.0) {
            curves.push(Series { title, values });
        }
    }
    curves
}

fn rates(run: &Opened, names: &[&str]) -> Vec<f64> {
    let counts = |at: usize| {
        let counters = names.iter().filter_map(|name| run.history.counters.get(*name));
        counters.map(|counts| counts[at]).sum::<u64>()
    };
    let times = &run.history.times_us;
    let all = times.last().zip(times.first()).map_or(0, |(last, first)| last - first);
    let shortest = (all as f64 * RATE_SPAN) as u64;
    let mut from = 0;
    let rate = |at: usize| {
        while from + 1 < at && times[at] - times[from + 1] >= shortest {
            from += 1;
        }
        let span = times[at].saturating_sub(times[from]) as f64 / 1e6;
        let more = counts(at).saturating_sub(counts(from)) as f64;
        if span > 0.0 { more / span } else { 0.0 }
    };
    (0..times.len()).map(rate).collect()
}

/// Returns a number in few letters.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 1e9 => format!("{:.1}G", value / 1e9),
        size if size >= 1e6 => format!("{:.1}M", value / 1e6),
        size if size >= 1e4 => format!("{:.0}k", value / 1e3),
        size if size >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        _ => format!("{value:.1}"),
    }
}
