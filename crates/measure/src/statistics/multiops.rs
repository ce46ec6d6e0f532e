//! A benchmark's samples as the rows of an mmtests table: one row per statistic and operation.

use serde::Serialize;

use crate::statistics::stats::{self, Direction};
use crate::value::error::Error;

/// One operation: its samples under each test, in the order of the columns.
#[derive(Clone, PartialEq, Debug)]
pub struct Operation {
    /// The operation's name: `fault-base-1`.
    pub name: String,
    /// The samples of each column.
    pub samples: Vec<Vec<f64>>,
}

/// The statistics that are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Statistics {
    /// From 2018 to 2025: Min, mean, Stddev, CoeffVar, Max, and the best 50, 95 and 99 %.
    Years2018To2025,
    /// In 2026: Min, mean, (H)Stddev, (H)CoeffVar, Max, and the best 95 %.
    Year2026,
}

/// The rule that puts the stars.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StarRule {
    /// Student's t at 10 % ([`stats::classic_p`]), mmtests' rule from 2018-10 to 2024-11 and that
    /// of every published table here. No star if both sides have a single sample.
    #[default]
    Classic,
    /// Overlapping intervals ([`stats::modern_distance`]), mmtests' rule since.
    Modern,
    /// No stars.
    Off,
}

/// The options of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// The better direction: [`Direction::Higher`] selects harmonic means.
    pub direction: Direction,
    /// The statistics.
    pub statistics: Statistics,
    /// The rule that puts the stars.
    pub stars: StarRule,
    /// The column that the others are compared with, from 0.
    pub baseline: usize,
}

/// A row: one statistic of one operation.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct StatRow {
    /// The statistic: `Amean`.
    pub statistic: String,
    /// The operation.
    pub operation: String,
    /// The values, one per column.
    pub cells: Vec<StatCell>,
}

/// A value and its difference from the baseline.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct StatCell {
    /// The value; NaN if the statistic does not exist.
    pub value: f64,
    /// The difference from the baseline in percent: positive is better.
    pub delta: f64,
    /// Whether the difference is significant under the chosen rule.
    pub star: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Statistic {
    Min,
    Mean,
    Deviation,
    Variation,
    Max,
    Best(usize),
}

/// Computes the rows: for each statistic, every operation. An operation without samples gets one sample
/// of 0, as in mmtests.
///
/// # Errors
/// [`Error::Baseline`] if an operation has no such column.
pub fn rows(operations: &[Operation], options: &Options) -> Result<Vec<StatRow>, Error> {
    for operation in operations {
        let columns = operation.samples.len();
        if options.baseline >= columns {
            return Err(Error::Baseline { baseline: options.baseline, columns });
        }
    }
    let statistics: &[Statistic] = match options.statistics {
        Statistics::Years2018To2025 => &[
            Statistic::Min,
            Statistic::Mean,
            Statistic::Deviation,
            Statistic::Variation,
            Statistic::Max,
            Statistic::Best(50),
            Statistic::Best(95),
            Statistic::Best(99),
        ],
        Statistics::Year2026 => &[
            Statistic::Min,
            Statistic::Mean,
            Statistic::Deviation,
            Statistic::Variation,
            Statistic::Max,
            Statistic::Best(95),
        ],
    };
    let row = |statistic: &Statistic, operation| statistic.row(operation, options);
    Ok(statistics.iter().flat_map(|s| operations.iter().map(move |op| row(s, op))).collect())
}

impl Options {
    fn harmonic(&self) -> bool {
        self.direction == Direction::Higher
    }

    fn mean(&self, samples: &[f64]) -> f64 {
        if self.harmonic() { stats::hmean(samples) } else { stats::amean(samples) }
    }

    fn harmonic_deviation(&self) -> bool {
        self.harmonic() && self.statistics == Statistics::Year2026
    }

    fn deviation(&self, samples: &[f64]) -> f64 {
        if self.harmonic_deviation() { stats::hstddev(samples) } else { stats::stddev(samples) }
    }

    fn star(&self, base: &[f64], new: &[f64]) -> bool {
        let means = (self.mean(base), self.mean(new));
        match self.stars {
            StarRule::Off => false,
            StarRule::Classic => stats::classic_star(base, new, means),
            StarRule::Modern => {
                stats::modern_star(means, (self.deviation(base), self.deviation(new)))
            }
        }
    }
}

impl Statistic {
    fn name(self, options: &Options) -> String {
        let mean = if options.harmonic() { "Hmean" } else { "Amean" };
        let kind = if options.harmonic_deviation() { "H" } else { "" };
        match (self, options.statistics) {
            (Self::Min, _) => "Min".to_owned(),
            (Self::Mean, _) => mean.to_owned(),
            (Self::Deviation, _) => format!("{kind}Stddev"),
            (Self::Variation, _) => format!("{kind}CoeffVar"),
            (Self::Max, _) => "Max".to_owned(),
            (Self::Best(n), Statistics::Years2018To2025) => format!("B{mean}-{n}"),
            (Self::Best(n), Statistics::Year2026) => format!("B{mean}.{n}"),
        }
    }

    fn value(self, samples: &[f64], options: &Options) -> f64 {
        match self {
            Self::Min => stats::min(samples),
            Self::Mean => options.mean(samples),
            Self::Deviation => options.deviation(samples),
            Self::Variation => stats::coeffvar(options.deviation(samples), options.mean(samples)),
            Self::Max => stats::max(samples),
            Self::Best(n) => options.mean(&stats::best(samples, n, options.direction)),
        }
    }

    fn row(self, operation: &Operation, options: &Options) -> StatRow {
        let columns: Vec<&[f64]> = operation.samples.iter().map(|s| or_zero(s)).collect();
        let base = columns[options.baseline];
        let direction = match self {
            Self::Deviation | Self::Variation => Direction::Lower,
            _ => options.direction,
        };
        let base_value = self.value(base, options);
        let cell = |(column, samples): (usize, &&[f64])| {
            let value = self.value(samples, options);
            StatCell {
                value,
                delta: direction.delta(base_value, value),
                star: self == Self::Mean
                    && column != options.baseline
                    && options.star(base, samples),
            }
        };
        StatRow {
            statistic: self.name(options),
            operation: operation.name.clone(),
            cells: columns.iter().enumerate().map(cell).collect(),
        }
    }
}

fn or_zero(samples: &[f64]) -> &[f64] {
    if samples.is_empty() { &[0.0] } else { samples }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCY: Options = Options {
        direction: Direction::Lower,
        statistics: Statistics::Years2018To2025,
        stars: StarRule::Classic,
        baseline: 0,
    };

    fn operation(name: &str, samples: &[&[f64]]) -> Operation {
        let samples = samples.iter().map(|s| s.to_vec()).collect();
        Operation { name: name.to_owned(), samples }
    }

    fn names(rows: &[StatRow]) -> Vec<String> {
        rows.iter().map(|row| format!("{} {}", row.statistic, row.operation)).collect()
    }

    #[test]
    fn every_statistic_of_every_operation_in_the_order_of_mmtests() {
        let ops = [operation("a", &[&[1.0]]), operation("b", &[&[1.0]])];
        let old = rows(&ops, &LATENCY).unwrap();
        assert_eq!(
            names(&old).join(","),
            "Min a,Min b,Amean a,Amean b,Stddev a,Stddev b,CoeffVar a,CoeffVar b,Max a,Max b,\
             BAmean-50 a,BAmean-50 b,BAmean-95 a,BAmean-95 b,BAmean-99 a,BAmean-99 b"
        );
        let direction = Direction::Higher;
        let new = Options { direction, statistics: Statistics::Year2026, ..LATENCY };
        assert_eq!(
            names(&rows(&ops[..1], &new).unwrap()).join(","),
            "Min a,Hmean a,HStddev a,HCoeffVar a,Max a,BHmean.95 a"
        );
    }

    /// The golden table of 2018 has a row of huge-page faults that only the last kernel had.
    #[test]
    fn a_class_without_a_sample_prints_as_mmtests_prints_it() {
        let ops = [operation("fault-huge-1", &[&[], &[], &[127.0, 178.0, 266.0]])];
        let rows = rows(&ops, &LATENCY).unwrap();
        let row = |name: &str| rows.iter().find(|row| row.statistic == name).unwrap();
        assert_eq!(row("Amean").cells[1], StatCell { value: 0.0, delta: 0.0, star: false });
        let mean = row("Amean").cells[2];
        assert_eq!((mean.delta, mean.star), (-99.0, true));
        assert_eq!((row("Stddev").cells[1].delta, row("Stddev").cells[1].star), (0.0, false));
        assert!(row("Stddev").cells[2].delta.is_nan());
        assert_eq!(row("CoeffVar").cells[2].delta, -99.0);
        assert_eq!(row("BAmean-50").cells[2].value, 127.0);
    }

    #[test]
    fn more_is_better_but_not_of_deviations() {
        let ops = [operation("send", &[&[100.0, 102.0], &[200.0, 208.0]])];
        let options = Options { direction: Direction::Higher, ..LATENCY };
        let rows = rows(&ops, &options).unwrap();
        assert_eq!(rows[0].cells[1].delta, 100.0);
        assert_eq!(rows[2].statistic, "Stddev");
        assert!((rows[2].cells[1].delta - -300.0).abs() < 1e-9);
        assert_eq!(rows[5].cells.iter().map(|c| c.value).collect::<Vec<_>>(), [102.0, 208.0]);
    }

    #[test]
    fn the_baseline_can_be_any_column_and_only_a_column() {
        let ops = [operation("a", &[&[2.0], &[1.0]])];
        let options = Options { baseline: 1, ..LATENCY };
        let cells = &rows(&ops, &options).unwrap()[0].cells;
        assert_eq!((cells[0].delta, cells[1].delta), (-100.0, 0.0));
        let error = rows(&ops, &Options { baseline: 2, ..LATENCY }).unwrap_err();
        assert_eq!(error.to_string(), "baseline 2 of 2 columns (the first is 0)");
    }
}
