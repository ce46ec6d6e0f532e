//! What hugealloc reports: the rows of seed 4, each over consecutive builds, and their trends.

use serde::Serialize;

use crate::event_unit::EventUnit;
use crate::names;
use crate::run::Run;
use crate::seeds::by_policy;
use crate::stats::{self, weiner_diff};
use crate::trend::{Trend, trend};

/// The samples of the times of batches of huge pages, nanoseconds.
pub const BATCH_TIME: &str = "hugealloc-time";

/// The counters that a run samples for each build, beside how long it took.
pub const COUNTERS: &[&str] = &[
    names::SIMULATED_USER_MS,
    names::SIMULATED_SYSTEM_MS,
    "thp_fault_alloc",
    "thp_fault_fallback",
    names::MM_PAGE_ALLOC_EXTFRAG,
    names::LIST_MISMATCH_PAGES,
    "compact_stall",
    "compact_fail",
    "compact_success",
    "compact_migrate_scanned",
    "compact_free_scanned",
    "compact_daemon_migrate_scanned",
    "compact_daemon_free_scanned",
    "allocstall",
    "pgscan_kswapd",
    "pgsteal_kswapd",
    "pgscan_direct",
    "pgsteal_direct",
    "pswpout",
    "pswpin",
    "workingset_refault",
];

/// The name of a counter's samples, one for each build.
#[must_use]
pub fn sample_name(counter: &str) -> String {
    format!("build-{counter}")
}

/// How the value of a build is found from its samples.
#[derive(Clone, Copy, Debug)]
enum Value {
    Of(&'static str),
    Milliseconds(&'static str),
    Sum(&'static str, &'static str),
    /// The first less the second.
    Rest(&'static str, &'static str),
    /// The first in percent of the second.
    Part(&'static str, &'static str),
    /// The first in percent of both.
    Share(&'static str, &'static str),
}

/// How a row summarises its builds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Summary {
    Mean,
    Median,
}

/// The rows after Hugealloc Time, in the seed's order.
const ROWS: &[(&str, Value, Summary)] = {
    use Summary::{Mean, Median};
    use Value::{Milliseconds, Of, Part, Rest, Share, Sum};
    const MIGRATE: (&str, &str) = ("compact_daemon_migrate_scanned", "compact_migrate_scanned");
    const FREE: (&str, &str) = ("compact_daemon_free_scanned", "compact_free_scanned");
    &[
        ("Kbuild Real time", Milliseconds(names::SIMULATED_ELAPSED_MS), Mean),
        ("Kbuild User time", Milliseconds(names::SIMULATED_USER_MS), Mean),
        ("Kbuild System time", Milliseconds(names::SIMULATED_SYSTEM_MS), Mean),
        ("THP fault alloc", Of("thp_fault_alloc"), Mean),
        ("THP fault fallback", Of("thp_fault_fallback"), Mean),
        ("THP fault fail rate %", Share("thp_fault_fallback", "thp_fault_alloc"), Mean),
        ("Pagealloc fallback", Of(names::MM_PAGE_ALLOC_EXTFRAG), Median),
        ("Pagealloc type mismatch", Of(names::LIST_MISMATCH_PAGES), Mean),
        ("Direct compact stall", Of("compact_stall"), Mean),
        ("Direct compact fail", Of("compact_fail"), Mean),
        ("Direct compact success", Of("compact_success"), Mean),
        ("Direct compact success rate %", Part("compact_success", "compact_stall"), Mean),
        ("Compact daemon scanned migrate", Of(MIGRATE.0), Mean),
        ("Compact daemon scanned free", Of(FREE.0), Mean),
        ("Compact direct scanned migrate", Rest(MIGRATE.1, MIGRATE.0), Mean),
        ("Compact direct scanned free", Rest(FREE.1, FREE.0), Mean),
        ("Compact migrate scanned daemon %", Part(MIGRATE.0, MIGRATE.1), Mean),
        ("Compact free scanned daemon %", Part(FREE.0, FREE.1), Mean),
        ("Compact total migrate scanned", Of(MIGRATE.1), Mean),
        ("Compact total free scanned", Of(FREE.1), Mean),
        ("Alloc stall", Of("allocstall"), Mean),
        ("Pages kswapd scanned", Of("pgscan_kswapd"), Mean),
        ("Pages kswapd reclaimed", Of("pgsteal_kswapd"), Mean),
        ("Pages direct scanned", Of("pgscan_direct"), Mean),
        ("Pages direct reclaimed", Of("pgsteal_direct"), Mean),
        ("Pages total scanned", Sum("pgscan_kswapd", "pgscan_direct"), Mean),
        ("Pages scanned kswapd %", Share("pgscan_kswapd", "pgscan_direct"), Mean),
        ("Swap out", Of("pswpout"), Mean),
        ("Swap in", Of("pswpin"), Mean),
        ("File refaults", Of("workingset_refault"), Mean),
    ]
};

/// The rows whose builds are printed one by one.
const SERIES: &[&str] = &["Pagealloc fallback", "Pagealloc type mismatch", "THP fault alloc"];

/// hugealloc's table.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Builds {
    /// The rows, in the seed's order.
    pub rows: Vec<BuildRow>,
    /// Values of single builds.
    pub series: Vec<Series>,
}

/// A row.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct BuildRow {
    /// Its label, as the seed has it.
    pub label: String,
    /// For each policy the value, and its change from the baseline in percent; `None` where the two
    /// count different things.
    pub cells: Vec<(f64, Option<f64>)>,
}

/// The values of one row by build.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Series {
    /// The row's label.
    pub label: String,
    /// For each policy the values, each the mean over the seeds.
    pub values: Vec<Vec<f64>>,
    /// For each policy the trend; none where there is one build.
    pub trends: Vec<Option<Trend>>,
}

impl Builds {
    /// The table of the runs; `None` where one has no sample of a build.
    #[must_use]
    pub fn of_runs(runs: &[Run], baseline: usize) -> Option<Self> {
        let sampled = sample_name(names::LIST_MISMATCH_PAGES);
        if runs.is_empty() || !runs.iter().all(|run| run.samples.contains_key(&sampled)) {
            return None;
        }
        let policies = by_policy(runs);
        let mut rows = times(&policies, baseline);
        let mut series = Vec::new();
        for &(label, value, summary) in ROWS {
            let of_policy = |runs: &Vec<&Run>| -> Vec<Vec<f64>> {
                runs.iter().map(|run| value.of_builds(run)).collect()
            };
            let values: Vec<Vec<Vec<f64>>> = policies.iter().map(of_policy).collect();
            let cell = |seeds: &Vec<Vec<f64>>| summary.of(&seeds.concat());
            let mut row = row(label, &values.iter().map(cell).collect::<Vec<_>>(), baseline);
            if value.counts_events() {
                for ((_, change), runs) in row.cells.iter_mut().zip(&policies) {
                    *change =
                        change.filter(|_| EventUnit::comparable(policies[baseline][0], runs[0]));
                }
            }
            rows.push(row);
            if SERIES.contains(&label) {
                let values: Vec<Vec<f64>> = values.iter().map(|seeds| over_seeds(seeds)).collect();
                let trends = values.iter().map(|values| trend(values)).collect();
                series.push(Series { label: label.to_owned(), values, trends });
            }
        }
        Some(Self { rows, series })
    }
}

fn row(label: &str, values: &[f64], baseline: usize) -> BuildRow {
    let cell = |&value| (value, Some(weiner_diff(values[baseline], value)));
    BuildRow { label: label.to_owned(), cells: values.iter().map(cell).collect() }
}

/// The time of a batch in microseconds: the seed does not name its unit.
fn times(policies: &[Vec<&Run>], baseline: usize) -> Vec<BuildRow> {
    let samples = |runs: &Vec<&Run>| -> Vec<f64> {
        let all = runs.iter().filter_map(|run| run.samples.get(BATCH_TIME)).flatten();
        all.map(|&ns| ns as f64 / 1000.0).collect()
    };
    let batches: Vec<Vec<f64>> = policies.iter().map(samples).collect();
    let of = |statistic: fn(&[f64]) -> f64| -> Vec<f64> {
        batches.iter().map(|b| if b.is_empty() { 0.0 } else { statistic(b) }).collect()
    };
    vec![
        row("Hugealloc Time mean", &of(stats::amean), baseline),
        row("Hugealloc Time stddev", &of(stats::stddev), baseline),
    ]
}

/// Build by build, the mean over the seeds.
fn over_seeds(seeds: &[Vec<f64>]) -> Vec<f64> {
    let builds = seeds.iter().map(Vec::len).min().unwrap_or(0);
    let mean = |at| seeds.iter().map(|seed| seed[at]).sum::<f64>() / seeds.len() as f64;
    (0..builds).map(mean).collect()
}

impl Summary {
    fn of(self, values: &[f64]) -> f64 {
        match self {
            _ if values.is_empty() => 0.0,
            Self::Mean => stats::amean(values),
            Self::Median => stats::median(values),
        }
    }
}

impl Value {
    /// Tells whether it counts events of `mm_page_alloc_extfrag`.
    fn counts_events(self) -> bool {
        matches!(self, Self::Of(names::MM_PAGE_ALLOC_EXTFRAG))
    }

    fn of_builds(self, run: &Run) -> Vec<f64> {
        let samples = |name| run.samples.get(&sample_name(name)).map_or(&[][..], Vec::as_slice);
        let one = |name, f: fn(f64) -> f64| samples(name).iter().map(|&v| f(v as f64)).collect();
        let two = |a, b, f: fn(f64, f64) -> f64| {
            samples(a).iter().zip(samples(b)).map(|(&a, &b)| f(a as f64, b as f64)).collect()
        };
        match self {
            Self::Of(name) => one(name, |v| v),
            Self::Milliseconds(name) => one(name, |v| v / 1000.0),
            Self::Sum(a, b) => two(a, b, |a, b| a + b),
            Self::Rest(a, b) => two(a, b, |a, b| a - b),
            Self::Part(a, b) => two(a, b, percent),
            Self::Share(a, b) => two(a, b, |a, b| percent(a, a + b)),
        }
    }
}

fn percent(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { 100.0 * part / whole }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(policy: &str, fallbacks: &[u64], huge: u64) -> Run {
        let mut run = Run { policy: policy.into(), seed: 1, ..Run::default() };
        for &name in COUNTERS.iter().chain(&[names::SIMULATED_ELAPSED_MS]) {
            run.samples.insert(sample_name(name), vec![0; fallbacks.len()]);
        }
        run.samples.insert(sample_name(names::MM_PAGE_ALLOC_EXTFRAG), fallbacks.to_vec());
        run.samples.insert(sample_name("thp_fault_alloc"), vec![huge; fallbacks.len()]);
        run.samples.insert(sample_name("thp_fault_fallback"), vec![100 - huge; fallbacks.len()]);
        run.samples.insert(BATCH_TIME.into(), vec![3000, 5000]);
        run
    }

    #[test]
    fn rows_are_means_of_builds_and_fallbacks_their_median() {
        let runs = [run("a", &[10, 1328, 9000], 50), run("b", &[1, 1, 40], 75)];
        let table = Builds::of_runs(&runs, 0).unwrap();
        let cells =
            |label: &str| table.rows.iter().find(|row| row.label == label).unwrap().cells.clone();
        assert_eq!(table.rows.len(), 32);
        assert_eq!(cells("Pagealloc fallback")[0], (1328.0, Some(0.0)));
        let (value, change) = cells("Pagealloc fallback")[1];
        assert_eq!((value, change.map(|c| (c * 100.0).round())), (1.0, Some(-9985.0)));
        let mut across = runs.clone();
        across[0].extfrag_unit = Some(EventUnit::Block);
        across[1].extfrag_unit = Some(EventUnit::Page);
        let rows = Builds::of_runs(&across, 0).unwrap().rows;
        for row in rows.iter().filter(|row| row.label.starts_with("Pagealloc")) {
            let counts_events = row.label == "Pagealloc fallback";
            assert_eq!(row.cells[1].1.is_none(), counts_events, "{}", row.label);
        }
        assert_eq!(cells("THP fault fail rate %")[1].0, 25.0);
        assert_eq!(cells("Hugealloc Time mean")[0].0, 4.0);
        let series = table.series.iter().find(|s| s.label == "Pagealloc fallback").unwrap();
        assert_eq!(series.values, [[10.0, 1328.0, 9000.0], [1.0, 1.0, 40.0]]);
        assert_eq!(series.trends[0].map(|trend| trend.s), Some(3));
    }

    #[test]
    fn runs_without_builds_have_no_table() {
        assert_eq!(Builds::of_runs(&[Run::default()], 0), None);
        assert_eq!(Builds::of_runs(&[], 0), None);
    }
}
