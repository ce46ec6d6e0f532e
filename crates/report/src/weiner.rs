//! The layout of the tables of the freelist hygiene series (2023 to 2025).
//!
//! A label, then for each column the value and its change with its natural sign; the baseline has
//! `(    +0.00%)`. The change is computed by [`weiner_diff`](pageblock_measure::statistics::stats::weiner_diff).

use pageblock_measure::compare::runs::{Comparison, Section};

use crate::mmtests::widest;
use crate::text::cell;

/// The width of a column in characters.
const COLUMN: usize = 24;

/// A row: a label, and for each column a value and its change in percent.
#[derive(Clone, PartialEq, Debug)]
pub struct WeinerRow {
    /// The measured quantity.
    pub label: String,
    /// The value and its change from the baseline in percent; `None` prints as a dash.
    pub cells: Vec<Option<(f64, Option<f64>)>>,
}

/// Returns the rows of a section, labelled by group and label.
#[must_use]
pub fn rows(comparison: &Comparison, section: &Section) -> Vec<WeinerRow> {
    let row = |row: &pageblock_measure::compare::runs::ComparisonRow| WeinerRow {
        label: format!("{} {}", row.group, row.label),
        cells: (row.cells.iter().zip(comparison.weiner_changes(row)))
            .map(|(cell, change)| Some((cell.value?.as_f64(), change)))
            .collect(),
    };
    section.rows.iter().map(row).collect()
}

/// Prints a table with column headings.
#[must_use]
pub fn print(columns: &[&str], rows: &[WeinerRow]) -> String {
    let label = widest(rows.iter().map(|row| row.label.as_str()));
    let mut text = " ".repeat(label);
    for column in columns {
        text += &format!("{column:>COLUMN$}");
    }
    text.push('\n');
    for row in rows {
        text += &format!("{:label$}", cell(&row.label));
        for of in &row.cells {
            let shown = match *of {
                Some((value, Some(change))) => format!("{value:10.2} ({change:+9.2}%)"),
                Some((value, None)) => format!("{value:10.2} ({:>9} )", "-"),
                None => "-".to_owned(),
            };
            text += &format!("{shown:>COLUMN$}");
        }
        text.push('\n');
    }
    text
}

/// Prints the values of consecutive runs, one line per run, which shows whether fragmentation grows with age. A
/// column with fewer runs ends early.
#[must_use]
pub fn print_series(columns: &[&str], series: &[Vec<f64>]) -> String {
    let mut text = format!("{:>5}", "run");
    for column in columns {
        text += &format!("{column:>COLUMN$}");
    }
    text.push('\n');
    let runs = series.iter().map(Vec::len).max().unwrap_or(0);
    for run in 0..runs {
        text += &format!("{:>5}", run + 1);
        for values in series {
            let value = values.get(run).map(|value| format!("{value:.2}"));
            text += &format!("{:>COLUMN$}", value.unwrap_or_default());
        }
        text = text.trim_end().to_owned() + "\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use pageblock_measure::Run;
    use pageblock_measure::compare::common::Options;
    use pageblock_measure::statistics::stats::weiner_diff;

    use super::*;

    fn row(label: &str, base: f64, new: f64) -> WeinerRow {
        WeinerRow {
            label: label.into(),
            cells: vec![Some((base, Some(0.0))), Some((new, Some(weiner_diff(base, new))))],
        }
    }

    /// Rows of the series of March 2024. The archive's copy collapsed repeated blanks.
    #[test]
    fn rows_as_posted() {
        let rows = [
            row("Hugealloc Time mean", 165_843.93, 113_025.88),
            row("Pagealloc fallback", 1328.0, 1.0),
            row("Alloc stall", 872.04, 5156.12),
        ];
        let text = print(&["VANILLA", "PATCHED"], &rows);
        assert_eq!(
            text,
            "                                    VANILLA                 PATCHED\n\
             Hugealloc Time mean  165843.93 (    +0.00%)  113025.88 (   -31.85%)\n\
             Pagealloc fallback     1328.00 (    +0.00%)       1.00 (   -99.85%)\n\
             Alloc stall             872.04 (    +0.00%)    5156.12 (  +490.71%)\n"
        );
    }

    #[test]
    fn rows_of_a_comparison() {
        let mut runs = [Run { policy: "a".into(), ..Run::default() }, Run::default()];
        runs[0].counters.set("zone_lock_acquired", 20);
        runs[1].counters.set("zone_lock_acquired", 304);
        runs[0].counters.set("list_probes", 7);
        let comparison = Comparison::of_runs(&runs, &Options::default()).unwrap();
        let work = comparison.sections.iter().find(|s| s.rows[0].group == "Work").unwrap();
        assert_eq!(
            print(&["A", "B"], &rows(&comparison, work)),
            concat!(
                "                                              A                       B\n",
                "Work zone-lock-acquired      20.00 (    +0.00%)     304.00 ( +1352.38%)\n",
                "Work list-probes              7.00 (    +0.00%)                       -\n"
            )
        );
    }

    #[test]
    fn series_may_differ_in_length() {
        let text = print_series(&["A", "B"], &[vec![10211.0, 3.0], vec![227.0]]);
        assert_eq!(
            text,
            "  run                       A                       B\n\
             \x20   1                10211.00                  227.00\n\
             \x20   2                    3.00\n"
        );
    }
}
