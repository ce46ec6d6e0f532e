//! The layout of mmtests' comparison tables, byte for byte.
//!
//! A header of two lines, kernel above label; then rows with a statistic, an operation, and for each test a
//! value and, in brackets, its difference from the baseline. Stars instead of brackets mark a significant
//! difference. The width of the value's field differs between benchmarks.

use pageblock_measure::compare::common::Column;
use pageblock_measure::statistics::multiops::StatRow;

use crate::text::cell;

/// The field width of thpfioscale and netperf, in the tables of 2018 and 2021.
pub const FIELD_2018: usize = 12;
/// The field width of the vmstat monitor.
pub const FIELD_VMSTAT: usize = 15;
/// The field width of modules that set none: the duration table, and most benchmarks in 2026.
pub const FIELD_DEFAULT: usize = 18;

/// The format of the difference that follows a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bracket {
    /// ` (%7.2f%%)`, since 2017-06.
    Percent,
    /// ` (%6.2f%%)`, before 2017-06.
    PercentBefore2017,
    /// None: monitors, which are not compared.
    None,
}

impl Bracket {
    /// Returns the bracket's width in characters, including the space before it.
    #[must_use]
    pub const fn width(self) -> usize {
        match self {
            Self::Percent => 11,
            Self::PercentBefore2017 => 10,
            Self::None => 0,
        }
    }

    fn text(self, cell: &Cell) -> String {
        let digits = match self {
            Self::Percent => 7,
            Self::PercentBefore2017 => 6,
            Self::None => return String::new(),
        };
        let (open, close) = if cell.star { ('*', '*') } else { ('(', ')') };
        match cell.delta {
            Some(delta) => format!(" {open}{:digits$.2}%{close}", no_minus_zero(delta)),
            None => format!(" ({:>digits$} )", "-"),
        }
    }
}

/// A value, its difference in percent, and whether that is significant.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Cell {
    /// The value: NaN and -1 print as 0.00, as in mmtests; `None`, which mmtests does not have, prints as a
    /// dash.
    pub value: Option<f64>,
    /// The difference from the baseline in percent; `None` prints as a dash.
    pub delta: Option<f64>,
    /// Whether stars replace the brackets.
    pub star: bool,
}

/// A row of the table.
#[derive(Clone, PartialEq, Debug)]
pub struct MmtestsRow {
    /// The statistic (`Amean`), or the common name of all operations (`Ops`).
    pub statistic: String,
    /// The operation.
    pub operation: String,
    /// The cells, one per test.
    pub cells: Vec<Cell>,
}

impl From<&StatRow> for MmtestsRow {
    fn from(row: &StatRow) -> Self {
        let cells = row.cells.iter();
        Self {
            statistic: row.statistic.clone(),
            operation: row.operation.clone(),
            cells: cells
                .map(|c| {
                    // mmtests prints "NaN%" if the baseline has no such statistic.
                    let delta = Some(c.delta).filter(|delta| delta.is_finite());
                    Cell {
                        value: Some(c.value).filter(|value| !value.is_nan()),
                        delta,
                        star: c.star && delta.is_some(),
                    }
                })
                .collect(),
        }
    }
}

/// A table.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    /// The heading of each test.
    pub columns: Vec<Column>,
    /// The width of a value in characters: [`FIELD_2018`], [`FIELD_VMSTAT`], [`FIELD_DEFAULT`].
    pub field: usize,
    /// The format of the differences.
    pub bracket: Bracket,
    /// The rows.
    pub rows: Vec<MmtestsRow>,
    /// The rows of `--print-significance`, which are ignored for the widths: their value is 0 or 1, their
    /// difference is p (or the distance) as mmtests prints it.
    pub significance: Vec<MmtestsRow>,
}

impl Table {
    /// Prints the table.
    #[must_use]
    pub fn print(&self) -> String {
        let statistic = widest(self.rows.iter().map(|row| row.statistic.as_str()));
        let operation = widest(self.rows.iter().map(|row| row.operation.as_str()));
        let (header, width) = print_header(
            &self.columns,
            statistic + 1 + operation,
            self.field + self.bracket.width(),
        );
        let cells = |row: &MmtestsRow| -> String {
            row.cells.iter().map(|of| format!("{:>width$}", self.cell(of))).collect()
        };
        let label = |row: &MmtestsRow| {
            format!("{:statistic$} {:operation$}", cell(&row.statistic), cell(&row.operation))
        };
        let mut text = header;
        for row in &self.rows {
            text += &format!("{}{}\n", label(row), cells(row));
        }
        for row in &self.significance {
            // mmtests ends these rows with an empty value field.
            text += &format!("{}{}{}\n", label(row), cells(row), " ".repeat(self.field));
        }
        text
    }

    fn cell(&self, cell: &Cell) -> String {
        print_value(cell.value, self.field) + &self.bracket.text(cell)
    }
}

/// Prints the lines of a header, and returns the width of a column: `least`, unless a word is wider. The first
/// line has the kernels, the second the labels. A label that is too wide continues on further lines after its
/// commas, which mmtests never does.
pub(crate) fn print_header(columns: &[Column], label: usize, least: usize) -> (String, usize) {
    let pieces = |column: &Column| -> Vec<String> {
        let parts = column.label.split_inclusive(',');
        std::iter::once(column.kernel.as_str())
            .chain(parts)
            .map(|part| cell(part).into_owned())
            .collect()
    };
    let longest = columns.iter().flat_map(pieces).map(|piece| piece.chars().count()).max();
    let width = least.max(longest.unwrap_or(0) + 1);
    let wrapped: Vec<Vec<String>> = columns.iter().map(|column| wrap(column, width)).collect();
    let lines = wrapped.iter().map(Vec::len).max().unwrap_or(0);
    let mut text = String::new();
    for line in 0..lines {
        text += &" ".repeat(label);
        for column in &wrapped {
            text += &format!("{:>width$}", column.get(line).map_or("", String::as_str));
        }
        text = text.trim_end().to_owned() + "\n";
    }
    (text, width)
}

fn wrap(column: &Column, width: usize) -> Vec<String> {
    let mut lines = vec![cell(&column.kernel).into_owned()];
    let mut line = String::new();
    for part in column.label.split_inclusive(',').map(cell) {
        if !line.is_empty() && line.chars().count() + part.chars().count() >= width {
            lines.push(std::mem::take(&mut line));
        }
        line += &part;
    }
    lines.push(line);
    lines
}

/// Returns the characters of the longest text, as a [`cell`].
pub(crate) fn widest<'a>(texts: impl Iterator<Item = &'a str>) -> usize {
    texts.map(|text| cell(text).chars().count()).max().unwrap_or(0)
}

pub(crate) fn print_value(value: Option<f64>, field: usize) -> String {
    match value {
        None => format!("{:>field$}", "-"),
        // mmtests stores -1 for unknown values. A measured -1 does not occur.
        #[allow(clippy::float_cmp)]
        Some(value) if value.is_nan() || value == -1.0 => format!("{:field$.2}", 0.0),
        Some(value) => format!("{value:field$.2}"),
    }
}

/// Removes the sign of a zero, which is meaningless.
fn no_minus_zero(delta: f64) -> f64 {
    if delta == 0.0 { 0.0 } else { delta }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(labels: &[&str], cells: &[Cell]) -> String {
        let column = |label: &&str| Column { kernel: "linux-6.1".into(), label: (*label).into() };
        Table {
            columns: labels.iter().map(column).collect(),
            field: FIELD_2018,
            bracket: Bracket::Percent,
            rows: vec![MmtestsRow {
                statistic: "Extfrag".into(),
                operation: "total".into(),
                cells: cells.to_vec(),
            }],
            significance: Vec::new(),
        }
        .print()
    }

    #[test]
    fn unknown_values_are_a_dash_or_zero_as_in_mmtests() {
        let known = Cell { value: Some(f64::NAN), delta: Some(-0.0), star: false };
        assert_eq!(
            table(&["vanilla", "a"], &[known, Cell::default()]),
            concat!(
                "                           linux-6.1              linux-6.1\n",
                "                             vanilla                      a\n",
                "Extfrag total        0.00 (   0.00%)           - (      - )\n"
            )
        );
    }

    /// A width above 65,535 panics in the standard library.
    #[test]
    fn a_name_of_any_length_is_printed() {
        let long = "x".repeat(70_000);
        let labels = [format!("{long},{long}")];
        let text = table(&[labels[0].as_str()], &[Cell::default()]);
        assert_eq!(text.lines().count(), 4);
        assert_eq!(text.matches("xxx...").count(), 2);
        assert_eq!(widest(std::iter::once(long.as_str())), 1000);
    }

    #[test]
    fn long_labels_wrap_within_their_column() {
        let cell = Cell { value: Some(7.0), delta: Some(12.5), star: true };
        assert_eq!(
            table(&["nofragment=on,watermark_boost=15000,x=1"], &[cell]),
            concat!(
                "                           linux-6.1\n",
                "                      nofragment=on,\n",
                "              watermark_boost=15000,\n",
                "                                 x=1\n",
                "Extfrag total        7.00 *  12.50%*\n"
            )
        );
    }
}
