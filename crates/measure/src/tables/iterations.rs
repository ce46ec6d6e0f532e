//! A table of consecutive iterations, such as builds: each row summarises all of them, and some rows
//! also print every iteration and the trend.

use serde::Serialize;

use crate::run::Run;
use crate::run::policies::{check_baseline, units_agree};
use crate::run::tables::{Combine, IterationsSpec, RowSpec, Summary};
use crate::statistics::stats::{self, weiner_diff};
use crate::statistics::trend::{Trend, trend};
use crate::value::error::Error;

/// The table with its values.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Iterations {
    /// The measured quantity, with its units.
    pub title: String,
    /// The name of an iteration.
    pub each: String,
    /// The rows.
    pub rows: Vec<IterationRow>,
    /// Values of single iterations.
    pub series: Vec<Series>,
}

/// A row.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct IterationRow {
    /// Its label.
    pub label: String,
    /// For each policy the value, and its change from the baseline in percent; `None` if the two count
    /// in different units.
    pub cells: Vec<(f64, Option<f64>)>,
}

/// The values of one row by iteration.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Series {
    /// The row's label.
    pub label: String,
    /// The values of each policy, each the mean over the seeds.
    pub values: Vec<Vec<f64>>,
    /// The trend of each policy; `None` with a single iteration.
    pub trends: Vec<Option<Trend>>,
}

impl IterationsSpec {
    pub(super) fn table(
        &self,
        policies: &[Vec<&Run>],
        baseline: usize,
    ) -> Result<Option<Iterations>, Error> {
        let mut runs = policies.iter().flatten();
        if policies.is_empty() || !runs.all(|run| run.samples.contains_key(&self.samples)) {
            return Ok(None);
        }
        check_baseline(baseline, policies.len())?;
        let (mut rows, mut series) = (Vec::new(), Vec::new());
        for spec in &self.rows {
            let of_policy = |runs: &Vec<&Run>| -> Vec<Vec<f64>> {
                runs.iter().map(|run| spec.values(run)).collect()
            };
            let values: Vec<Vec<Vec<f64>>> = policies.iter().map(of_policy).collect();
            rows.push(spec.row(&values, policies, baseline));
            if spec.series {
                let values: Vec<Vec<f64>> = values.iter().map(|seeds| over_seeds(seeds)).collect();
                let trends = values.iter().map(|values| trend(values)).collect();
                series.push(Series { label: spec.label.clone(), values, trends });
            }
        }
        Ok(Some(Iterations { title: self.title.clone(), each: self.each.clone(), rows, series }))
    }
}

impl RowSpec {
    /// Computes the row from values by policy and seed.
    fn row(
        &self,
        values: &[Vec<Vec<f64>>],
        policies: &[Vec<&Run>],
        baseline: usize,
    ) -> IterationRow {
        let values: Vec<f64> =
            values.iter().map(|seeds| self.statistic.of(&seeds.concat())).collect();
        let comparable =
            |runs: &Vec<&Run>| !self.counts_events || units_agree(policies[baseline][0], runs[0]);
        let cell = |(&value, runs)| {
            let change = weiner_diff(values[baseline], value);
            (value, Some(change).filter(|_| comparable(runs)))
        };
        IterationRow {
            label: self.label.clone(),
            cells: values.iter().zip(policies).map(cell).collect(),
        }
    }

    /// Returns the values of a run's iterations.
    fn values(&self, run: &Run) -> Vec<f64> {
        let samples = |at: usize| {
            self.of.get(at).and_then(|name| run.samples.get(name)).map_or(&[][..], Vec::as_slice)
        };
        let divided = |value: f64| value / self.divide as f64;
        if self.combine == Combine::Value {
            return samples(0).iter().map(|&value| divided(value as f64)).collect();
        }
        let both = samples(0).iter().zip(samples(1));
        both.map(|(&a, &b)| divided(self.combine.of(a as f64, b as f64))).collect()
    }
}

/// Returns for each iteration the mean over the seeds.
fn over_seeds(seeds: &[Vec<f64>]) -> Vec<f64> {
    let iterations = seeds.iter().map(Vec::len).min().unwrap_or(0);
    let mean = |at| seeds.iter().map(|seed| seed[at]).sum::<f64>() / seeds.len() as f64;
    (0..iterations).map(mean).collect()
}

impl Combine {
    fn of(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Value => a,
            Self::Sum => a + b,
            Self::Rest => a - b,
            Self::Part => percent(a, b),
            Self::Share => percent(a, a + b),
        }
    }
}

impl Summary {
    fn of(self, values: &[f64]) -> f64 {
        match self {
            _ if values.is_empty() => 0.0,
            Self::Mean => stats::amean(values),
            Self::Median => stats::median(values),
            Self::Stddev => stats::stddev(values),
        }
    }
}

fn percent(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { 100.0 * part / whole }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::event_unit::EventUnit;

    const FALLBACKS: &str = "build-mm_page_alloc_extfrag";

    fn spec() -> IterationsSpec {
        let row = |label: &str, of: &[&str]| RowSpec {
            label: label.into(),
            of: of.iter().map(|&name| name.to_owned()).collect(),
            combine: Combine::Value,
            divide: 1,
            statistic: Summary::Mean,
            counts_events: false,
            series: false,
        };
        IterationsSpec {
            title: "builds".into(),
            each: "build".into(),
            samples: FALLBACKS.into(),
            rows: vec![
                RowSpec { divide: 1000, ..row("time", &["time"]) },
                RowSpec { combine: Combine::Share, ..row("fail %", &["failed", "huge"]) },
                RowSpec {
                    statistic: Summary::Median,
                    counts_events: true,
                    series: true,
                    ..row("fallback", &[FALLBACKS])
                },
                RowSpec { combine: Combine::Rest, ..row("rest", &["huge", "failed"]) },
            ],
        }
    }

    fn run(policy: &str, fallbacks: &[u64], huge: u64) -> Run {
        let mut run = Run { policy: policy.into(), seed: 1, ..Run::default() };
        run.samples.insert(FALLBACKS.into(), fallbacks.to_vec());
        run.samples.insert("huge".into(), vec![huge; fallbacks.len()]);
        run.samples.insert("failed".into(), vec![100 - huge; fallbacks.len()]);
        run.samples.insert("time".into(), vec![3000, 5000]);
        run
    }

    #[test]
    fn rows_are_means_of_iterations_and_fallbacks_their_median() {
        let mut runs = [run("a", &[10, 1328, 9000], 50), run("b", &[1, 1, 40], 75)];
        let table = |runs: &[Run]| {
            let policies: Vec<Vec<&Run>> = runs.iter().map(|run| vec![run]).collect();
            spec().table(&policies, 0).unwrap().unwrap()
        };
        let Iterations { rows, series, .. } = table(&runs);
        assert_eq!((rows[0].cells[0].0, rows[1].cells[1].0, rows[3].cells[1].0), (4.0, 25.0, 50.0));
        assert_eq!(rows[2].cells[0], (1328.0, Some(0.0)));
        let (value, change) = rows[2].cells[1];
        assert_eq!((value, change.map(|c| (c * 100.0).round())), (1.0, Some(-9985.0)));
        assert_eq!(series[0].values, [[10.0, 1328.0, 9000.0], [1.0, 1.0, 40.0]]);
        assert_eq!(series[0].trends[0].map(|trend| trend.s), Some(3));
        runs[0].extfrag_unit = Some(EventUnit::Block);
        runs[1].extfrag_unit = Some(EventUnit::Page);
        for row in table(&runs).rows {
            assert_eq!(row.cells[1].1.is_none(), row.label == "fallback", "{}", row.label);
        }
    }

    #[test]
    fn runs_without_iterations_have_no_table() {
        assert_eq!(spec().table(&[vec![&Run::default()]], 0).unwrap(), None);
        assert_eq!(spec().table(&[], 0).unwrap(), None);
    }
}
