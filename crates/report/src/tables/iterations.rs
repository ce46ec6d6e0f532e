//! A table of iterations in the layout of Johannes Weiner's cover letters; some rows follow one by one, with
//! their trends.

use pageblock_measure::compare::common::Column;
use pageblock_measure::statistics::trend::Trend;
use pageblock_measure::tables::iterations::{IterationRow, Iterations, Series};

use crate::weiner::{self, WeinerRow};

/// Prints the table.
#[must_use]
pub(super) fn print(columns: &[Column], iterations: &Iterations) -> String {
    let names: Vec<String> = columns.iter().map(name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let row = |row: &IterationRow| WeinerRow {
        label: row.label.clone(),
        cells: row.cells.iter().map(|&cell| Some(cell)).collect(),
    };
    let rows: Vec<WeinerRow> = iterations.rows.iter().map(row).collect();
    let mut text = format!("{}\n", iterations.title);
    text += &weiner::print(&names, &rows);
    let each = &iterations.each;
    for series in &iterations.series {
        text += &format!("\n{}, {each} by {each}\n", series.label);
        text += &weiner::print_series(&names, &series.values);
        text += &trends(&names, each, series);
    }
    text + "\n"
}

/// Returns a name that fits a column: the version, or the switches if there are any.
fn name(column: &Column) -> String {
    let (version, switches) = (column.kernel.as_str(), column.label.as_str());
    if switches == "vanilla" { version.to_owned() } else { switches.to_owned() }
}

fn trends(names: &[&str], each: &str, series: &Series) -> String {
    let line = |(name, trend): (&&str, &Option<Trend>)| {
        trend.map_or_else(String::new, |t| {
            format!(
                "trend of {name}: {:+.2} a {each} (Theil-Sen), p {:.3} (Mann-Kendall)\n",
                t.slope, t.p
            )
        })
    };
    names.iter().zip(&series.trends).map(line).collect()
}

#[cfg(test)]
mod tests {
    use pageblock_measure::statistics::trend::trend;

    use super::*;

    #[test]
    fn the_published_table_and_the_series() {
        let values = vec![vec![4.0, 5.0, 6.0], vec![1.0, 0.0, 1.0]];
        let trends = values.iter().map(|v| trend(v)).collect();
        let iterations = Iterations {
            title: "builds".into(),
            each: "build".into(),
            rows: vec![IterationRow {
                label: "Pagealloc fallback".into(),
                cells: vec![(1328.0, Some(0.0)), (1.0, Some(-99.85))],
            }],
            series: vec![Series { label: "Pagealloc fallback".into(), values, trends }],
        };
        let columns = ["linux-6.9", "linux-6.10"].map(Column::of_policy);
        let text = print(&columns, &iterations);
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "                                 linux-6.9              linux-6.10",
                "Pagealloc fallback    1328.00 (    +0.00%)       1.00 (   -99.85%)",
                "",
                "Pagealloc fallback, build by build",
                "  run               linux-6.9              linux-6.10",
                "    1                    4.00                    1.00",
                "    2                    5.00                    0.00",
                "    3                    6.00                    1.00",
                "trend of linux-6.9: +1.00 a build (Theil-Sen), p 0.296 (Mann-Kendall)",
                "trend of linux-6.10: +0.00 a build (Theil-Sen), p 1.000 (Mann-Kendall)",
                "",
            ]
        );
    }
}
