//! Tables with a row for each operation: statistics of its samples, their mean, or a share.
//!
//! As in mmtests, samples of all seeds are pooled.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::run::Run;
use crate::run::policies::check_baseline;
use crate::run::tables::{OperationSpec, OperationsSpec, SharesSpec, Style};
use crate::statistics::multiops::{
    self, Operation, Options, StarRule, StatCell, StatRow, Statistics,
};
use crate::statistics::stats::{self, Direction};
use crate::value::error::Error;

/// The placeholder for a number in the name of samples: `send-{n}`.
const NUMBER: &str = "{n}";

/// A table of operations with its values.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Operations {
    /// The measured quantity, with its unit.
    pub title: String,
    /// The layout.
    pub style: Style,
    /// The rows.
    pub rows: Vec<StatRow>,
}

/// Returns the numbers that replace `{n}` in the names of samples of the runs.
fn numbers(policies: &[Vec<&Run>], pattern: &str) -> BTreeSet<Option<u64>> {
    let names = policies.iter().flatten().flat_map(|run| run.samples.keys());
    match pattern.split_once(NUMBER) {
        Some((before, after)) => {
            let number = |name: &String| {
                name.strip_prefix(before)?.strip_suffix(after)?.parse().ok().map(Some)
            };
            names.filter_map(number).collect()
        }
        None => names.filter(|name| *name == pattern).map(|_| None).collect(),
    }
}

fn named(pattern: &str, number: Option<u64>) -> String {
    number.map_or_else(|| pattern.to_owned(), |n| pattern.replace(NUMBER, &n.to_string()))
}

impl OperationSpec {
    fn operations(
        &self,
        policies: &[Vec<&Run>],
        all: &BTreeSet<Option<u64>>,
    ) -> impl Iterator<Item = Operation> {
        let numbers =
            if self.always { all.clone() } else { numbers(policies, &self.samples) }.into_iter();
        numbers.map(move |number| {
            let name = named(&self.samples, number);
            let value = |&sample: &u64| match self.whole {
                true => (sample / self.divide) as f64,
                false => sample as f64 / self.divide as f64,
            };
            let of_policy = |runs: &Vec<&Run>| {
                let samples = runs.iter().filter_map(|run| run.samples.get(&name)).flatten();
                samples.map(value).collect()
            };
            Operation { samples: policies.iter().map(of_policy).collect(), name }
        })
    }
}

/// Computes the operations of a table, each with its better direction.
fn operations(specs: &[OperationSpec], policies: &[Vec<&Run>]) -> Vec<(Direction, Operation)> {
    let all = specs.iter().flat_map(|spec| numbers(policies, &spec.samples)).collect();
    let of_spec = |spec: &OperationSpec| {
        spec.operations(policies, &all).map(|op| (spec.better, op)).collect()
    };
    specs.iter().flat_map::<Vec<_>, _>(of_spec).collect()
}

/// Makes a row of values, one per policy, without stars.
fn row(
    statistic: &str,
    operation: String,
    better: Direction,
    (values, baseline): (&[f64], usize),
) -> StatRow {
    let cell = |&value: &f64| StatCell {
        value,
        delta: better.delta(values[baseline], value),
        star: false,
    };
    let cells = values.iter().map(cell).collect();
    StatRow { statistic: statistic.to_owned(), operation, cells }
}

impl Operations {
    /// Makes a table of rows; `None` without rows.
    fn of(title: &str, style: Style, rows: Vec<StatRow>) -> Option<Self> {
        (!rows.is_empty()).then(|| Self { title: title.to_owned(), style, rows })
    }
}

impl OperationsSpec {
    /// Reports whether the samples of an operation's row are counts.
    pub(super) fn is_count(&self, operation: &str) -> bool {
        let named = |spec: &&OperationSpec| match spec.samples.split_once(NUMBER) {
            Some((before, after)) => operation.starts_with(before) && operation.ends_with(after),
            None => operation == spec.samples,
        };
        self.operations.iter().find(named).is_some_and(|spec| spec.counts)
    }

    /// Makes the table of all statistics: for each statistic, every operation.
    pub(super) fn statistics(
        &self,
        policies: &[Vec<&Run>],
        baseline: usize,
        stars: StarRule,
    ) -> Result<Option<Operations>, Error> {
        let statistics = Statistics::Years2018To2025;
        let rows = operations(&self.operations, policies).into_iter().map(|(direction, op)| {
            multiops::rows(&[op], &Options { direction, statistics, stars, baseline })
        });
        let mut rows: Vec<_> = rows.collect::<Result<Vec<_>, _>>()?;
        let by_statistic = rows.iter().map(Vec::len).max().unwrap_or(0);
        let rows = (0..by_statistic).flat_map(|_| {
            rows.iter_mut().map(|of_operation| of_operation.remove(0)).collect::<Vec<_>>()
        });
        Ok(Operations::of(&self.title, self.style, rows.collect()))
    }

    /// Makes the table of means.
    pub(super) fn means(
        &self,
        policies: &[Vec<&Run>],
        baseline: usize,
    ) -> Result<Option<Operations>, Error> {
        check_baseline(baseline, policies.len())?;
        let rows = operations(&self.operations, policies).into_iter().map(|(better, operation)| {
            let means: Vec<f64> = operation.samples.iter().map(|s| stats::amean(s)).collect();
            row("Ops", operation.name, better, (&means, baseline))
        });
        Ok(Operations::of(&self.title, self.style, rows.collect()))
    }
}

impl SharesSpec {
    pub(super) fn table(
        &self,
        policies: &[Vec<&Run>],
        baseline: usize,
    ) -> Result<Option<Operations>, Error> {
        check_baseline(baseline, policies.len())?;
        let mut all = numbers(policies, &self.part);
        all.extend(numbers(policies, &self.rest));
        let rows = all.into_iter().map(|number| {
            let count = |runs: &[&Run], pattern: &str| {
                let name = named(pattern, number);
                runs.iter().filter_map(|run| run.samples.get(&name)).map(Vec::len).sum::<usize>()
            };
            let share = |runs: &Vec<&Run>| {
                let (part, rest) = (count(runs, &self.part), count(runs, &self.rest));
                if part == 0 { 0.0 } else { part as f64 * 100.0 / (part + rest) as f64 }
            };
            let shares: Vec<f64> = policies.iter().map(share).collect();
            row("Percentage", named(&self.name, number), self.better, (&shares, baseline))
        });
        Ok(Operations::of(&self.title, self.style, rows.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::policies::Policies;
    use crate::run::tables::{TableSpec, Tables};
    use crate::tables::{self, Table};

    fn run(policy: &str, seed: u64, samples: &[(&str, &[u64])], specs: &[TableSpec]) -> Run {
        let mut run = Run { policy: policy.into(), seed, ..Run::default() };
        run.tables = Some(Tables { tables: specs.to_vec(), ..Tables::default() });
        run.samples.extend(samples.iter().map(|&(name, values)| (name.into(), values.to_vec())));
        run
    }

    fn rows(runs: &[Run], stars: StarRule) -> Vec<Vec<StatRow>> {
        let tables = tables::of(&Policies::of(runs), 0, stars).unwrap();
        let rows = |table| match table {
            Table::Operations(operations) => operations.rows,
            other => panic!("{other:?}"),
        };
        tables.into_iter().map(rows).collect()
    }

    fn operation(samples: &str, divide: u64, better: Direction) -> OperationSpec {
        OperationSpec {
            samples: samples.into(),
            divide,
            whole: false,
            better,
            counts: false,
            always: false,
        }
    }

    fn faults() -> Vec<TableSpec> {
        let of = |kind: &str| OperationSpec {
            whole: true,
            always: true,
            ..operation(&format!("fault-{kind}-{{n}}"), 1000, Direction::Lower)
        };
        let style = Style::Mmtests2018;
        vec![
            TableSpec::Statistics(OperationsSpec {
                title: "latencies".into(),
                style,
                operations: vec![of("base"), of("huge")],
            }),
            TableSpec::Shares(SharesSpec {
                title: "shares".into(),
                style,
                name: "huge-{n}".into(),
                part: "fault-huge-{n}".into(),
                rest: "fault-base-{n}".into(),
                better: Direction::Higher,
            }),
        ]
    }

    #[test]
    fn samples_of_all_seeds_are_pooled() {
        let of = |policy, seed, base: &[u64], huge: &[u64]| {
            run(policy, seed, &[("fault-base-5", base), ("fault-huge-5", huge)], &faults())
        };
        let runs = [
            of("a", 1, &[600_000, 610_999], &[]),
            of("a", 2, &[620_000], &[]),
            of("b", 1, &[600_000], &[100_000]),
            of("b", 2, &[], &[130_000, 130_000]),
        ];
        let tables = rows(&runs, StarRule::Classic);
        let mean = &tables[0][2];
        assert_eq!((mean.statistic.as_str(), mean.operation.as_str()), ("Amean", "fault-base-5"));
        assert_eq!((mean.cells[0].value, mean.cells[1].value), (610.0, 600.0));
        let share = &tables[1][0];
        assert_eq!(share.operation, "huge-5");
        assert_eq!((share.cells[1].value, share.cells[1].delta), (75.0, 100.0));
    }

    #[test]
    fn the_rule_decides_the_stars() {
        let base: Vec<u64> = (0..30).map(|i| 600_000 + i * 1000).collect();
        let new: Vec<u64> = base.iter().map(|ns| ns - 20_000).collect();
        let runs = [
            run("a", 1, &[("fault-base-5", &base)], &faults()),
            run("b", 1, &[("fault-base-5", &new)], &faults()),
        ];
        let star = |rule| rows(&runs, rule)[0][2].cells[1].star;
        assert!(star(StarRule::Classic));
        // 20 us is less than 1.96 times the sum of the two deviations of 8.8 us.
        assert!(!star(StarRule::Modern));
        assert!(!star(StarRule::Off));
    }

    #[test]
    fn means_are_in_the_order_of_the_operations_and_their_numbers() {
        let specs = [TableSpec::Means(OperationsSpec {
            title: "parallelio".into(),
            style: Style::MmtestsBefore2017,
            operations: vec![
                operation("memcachetest-{n}M", 1, Direction::Higher),
                operation("io-duration-{n}M", 1000, Direction::Lower),
            ],
        })];
        let of = |policy, seed, rate, io| {
            let samples: &[(&str, &[u64])] = &[
                ("memcachetest-791M", &[rate]),
                ("memcachetest-2639M", &[100]),
                ("io-duration-791M", &[io]),
            ];
            run(policy, seed, samples, &specs)
        };
        let runs = [
            of("a", 1, 40, 50_000),
            of("a", 2, 60, 60_000),
            of("b", 1, 75, 11_000),
            of("b", 2, 75, 11_000),
        ];
        let rows = rows(&runs, StarRule::Classic).remove(0);
        let names: Vec<&str> = rows.iter().map(|row| row.operation.as_str()).collect();
        assert_eq!(names, ["memcachetest-791M", "memcachetest-2639M", "io-duration-791M"]);
        assert_eq!((rows[0].cells[0].value, rows[0].cells[1].delta), (50.0, 50.0));
        assert_eq!((rows[2].cells[1].value, rows[2].cells[1].delta), (11.0, 80.0));
        assert!(tables::of(&Policies::of(&runs), 2, StarRule::Classic).is_err());
    }

    #[test]
    fn runs_without_samples_have_no_table() {
        assert!(rows(&[run("a", 1, &[], &faults())], StarRule::Classic).is_empty());
        assert!(rows(&[Run::default()], StarRule::Classic).is_empty());
    }
}
