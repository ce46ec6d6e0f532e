//! What parallelio reports: the foreground's rate beside what the background and swap did.

use std::collections::BTreeSet;

use crate::compare;
use crate::error::Error;
use crate::multiops::{StatCell, StatRow};
use crate::run::Run;
use crate::seeds::by_policy;
use crate::stats::{self, Direction};

/// The operations in mmtests' order, which way is better, and what a sample is divided by.
const OPERATIONS: [(&str, Direction, f64); 6] = [
    ("memcachetest", Direction::Higher, 1.0),
    ("io-duration", Direction::Lower, 1000.0),
    ("swaptotal", Direction::Lower, 1.0),
    ("swapin", Direction::Lower, 1.0),
    ("minorfaults", Direction::Lower, 1.0),
    ("majorfaults", Direction::Lower, 1.0),
];

/// Each operation at each size of the file: operations a second, seconds, counts; means over the seeds.
/// Empty where no run has samples of parallelio.
///
/// # Errors
/// [`Error::Baseline`] (of the policies).
pub fn rows(runs: &[Run], baseline: usize) -> Result<Vec<StatRow>, Error> {
    let policies = by_policy(runs);
    compare::check_baseline(baseline, policies.len())?;
    let mut rows = Vec::new();
    for (name, direction, unit) in OPERATIONS {
        let size = |sample: &str| -> Option<u64> {
            sample.strip_prefix(name)?.strip_prefix('-')?.strip_suffix('M')?.parse().ok()
        };
        let samples = runs.iter().flat_map(|run| run.samples.keys());
        let sizes: BTreeSet<u64> = samples.filter_map(|sample| size(sample)).collect();
        for size in sizes {
            let operation = format!("{name}-{size}M");
            let mean = |runs: &Vec<&Run>| {
                let samples = runs.iter().filter_map(|run| run.samples.get(&operation)).flatten();
                stats::amean(&samples.map(|&sample| sample as f64 / unit).collect::<Vec<_>>())
            };
            let means: Vec<f64> = policies.iter().map(mean).collect();
            let cell = |&value: &f64| {
                let delta = direction.delta(means[baseline], value);
                StatCell { value, delta, star: false }
            };
            let cells = means.iter().map(cell).collect();
            rows.push(StatRow { statistic: "Ops".to_owned(), operation, cells });
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_the_order_of_mmtests() {
        let run = |policy: &str, seed, rate, io| {
            let mut run = Run { policy: policy.into(), seed, ..Run::default() };
            run.samples.insert("memcachetest-791M".into(), vec![rate]);
            run.samples.insert("memcachetest-2639M".into(), vec![100]);
            run.samples.insert("io-duration-791M".into(), vec![io]);
            run
        };
        let runs = [
            run("a", 1, 40, 50_000),
            run("a", 2, 60, 60_000),
            run("b", 1, 75, 11_000),
            run("b", 2, 75, 11_000),
        ];
        let rows = rows(&runs, 0).unwrap();
        let names: Vec<&str> = rows.iter().map(|row| row.operation.as_str()).collect();
        assert_eq!(names, ["memcachetest-791M", "memcachetest-2639M", "io-duration-791M"]);
        assert_eq!((rows[0].cells[0].value, rows[0].cells[1].delta), (50.0, 50.0));
        assert_eq!((rows[2].cells[1].value, rows[2].cells[1].delta), (11.0, 80.0));
        assert!(super::rows(&runs, 2).is_err());
        assert!(super::rows(&[Run::default()], 0).unwrap().is_empty());
    }
}
