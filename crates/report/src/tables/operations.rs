//! Tables with a row for each operation, in the layout of mmtests.

use pageblock_measure::compare::common::Column;
use pageblock_measure::run::tables::Style;
use pageblock_measure::tables::operations::Operations;

use crate::mmtests::{Bracket, FIELD_2018, FIELD_DEFAULT, MmtestsRow, Table};

/// Prints the table below its title.
#[must_use]
pub(super) fn print(columns: &[Column], operations: &Operations) -> String {
    let (field, bracket) = match operations.style {
        Style::Mmtests2018 => (FIELD_2018, Bracket::Percent),
        Style::MmtestsBefore2017 => (FIELD_DEFAULT, Bracket::PercentBefore2017),
    };
    let table = Table {
        columns: columns.to_vec(),
        field,
        bracket,
        rows: operations.rows.iter().map(MmtestsRow::from).collect(),
        significance: Vec::new(),
    };
    format!("{}\n{}\n", operations.title, table.print())
}

#[cfg(test)]
mod tests {
    use pageblock_measure::statistics::multiops::{StatCell, StatRow};

    use super::*;

    /// Returns the line of an operation's statistic in a table with another row, which may be wider.
    fn line(
        style: Style,
        (statistic, operation): (&str, &str),
        other: (&str, &str),
        cells: [(f64, f64, bool); 2],
    ) -> String {
        let columns = ["linux-5.13", "linux-5.13,pcp_orders=0-3+thp"].map(Column::of_policy);
        let cell = |(value, delta, star)| StatCell { value, delta, star };
        let row = StatRow {
            statistic: statistic.into(),
            operation: operation.into(),
            cells: cells.map(cell).to_vec(),
        };
        let other = StatRow { statistic: other.0.into(), operation: other.1.into(), ..row.clone() };
        let table = Operations { title: "table".into(), style, rows: vec![row, other] };
        let text = print(&columns, &table);
        assert!(text.starts_with("table\n") && text.ends_with("\n\n"), "{text}");
        text.lines().find(|line| line.starts_with(statistic)).unwrap().to_owned()
    }

    #[test]
    fn rows_are_laid_out_as_they_were_published() {
        assert_eq!(
            line(
                Style::Mmtests2018,
                ("Hmean", "send-128"),
                ("BHmean-50", "send-128"),
                [(509.87, 0.0, false), (539.88, 5.89, true)]
            ),
            "Hmean     send-128      509.87 (   0.00%)      539.88 *   5.89%*",
        );
        assert_eq!(
            line(
                Style::MmtestsBefore2017,
                ("Ops", "io-duration-4487M"),
                ("Ops", "memcachetest-4487M"),
                [(278.0, 0.0, false), (173.0, 37.77, false)]
            ),
            "Ops io-duration-4487M             278.00 (  0.00%)            173.00 ( 37.77%)",
        );
        assert_eq!(
            line(
                Style::Mmtests2018,
                ("Percentage", "huge-1"),
                ("Percentage", "huge-1"),
                [(0.0, 0.0, false), (50.0, 100.0, false)]
            ),
            "Percentage huge-1        0.00 (   0.00%)       50.00 ( 100.00%)"
        );
    }
}
