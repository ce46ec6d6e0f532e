//! The layout of mmtests' `--print-ratio`.

use pageblock_measure::compare::common::Column;

use crate::mmtests::{print_header, print_value, widest};
use crate::text::cell;

/// A value relative to the baseline.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RatioCell {
    /// The new value divided by the baseline's.
    pub ratio: f64,
    /// The difference in percent.
    pub delta: f64,
    /// The difference in units of the interval halves between the means, negative if it is worse.
    pub distance: f64,
}

/// The table of `--print-ratio`.
#[derive(Clone, PartialEq, Debug)]
pub struct RatioTable {
    /// The heading of each test.
    pub columns: Vec<Column>,
    /// The width of a ratio in characters.
    pub field: usize,
    /// Each operation and its cells.
    pub rows: Vec<(String, Vec<RatioCell>)>,
    /// The summary: statistic (`Dmean`), direction (`Higher`), and one value per test.
    pub summary: Vec<(String, String, Vec<f64>)>,
}

const STATISTIC: &str = "Ratio";
/// The header's width for the brackets, which are wider.
const HEADER_BRACKET: usize = 11;
/// The width of ` (0.00%) (+0.00s)`, which the summary leaves empty.
const EMPTY_BRACKETS: usize = 17;

impl RatioTable {
    /// Prints the table. As in mmtests, the header is narrower than the rows, and the summary has
    /// trailing blanks.
    #[must_use]
    pub fn print(&self) -> String {
        let operations = self.rows.iter().map(|(operation, _)| operation.as_str());
        let operation = widest(operations);
        let label = STATISTIC.len() + 1 + operation;
        let (mut text, _) = print_header(&self.columns, label, self.field + HEADER_BRACKET);
        for (name, cells) in &self.rows {
            text += &format!("{STATISTIC} {:operation$}", cell(name));
            for RatioCell { ratio, delta, distance } in cells {
                text += &print_value(Some(*ratio), self.field);
                text += &format!(" ({delta:.2}%) ({distance:+.2}s)");
            }
            text.push('\n');
        }
        for (statistic, direction, values) in &self.summary {
            text += &format!("{statistic:0$} {direction:operation$}", STATISTIC.len());
            for value in values {
                text += &print_value(Some(*value), self.field);
                text += &" ".repeat(EMPTY_BRACKETS);
            }
            text.push('\n');
        }
        text
    }
}
