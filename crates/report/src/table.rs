//! Plain tables: text on the left, numbers on the right, units in the headings.

use crate::text::cell;

/// The alignment of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// A table of formatted cells.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Table {
    headings: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Makes a table without columns.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a column of text.
    #[must_use]
    pub fn text(mut self, heading: &str) -> Self {
        self.headings.push((cell(heading).into_owned(), Align::Left));
        self
    }

    /// Adds a column of numbers; the heading names their unit.
    #[must_use]
    pub fn number(mut self, heading: &str) -> Self {
        self.headings.push((cell(heading).into_owned(), Align::Right));
        self
    }

    /// Adds a row. Cells beyond the last column are dropped, missing cells are empty.
    pub fn row<I>(&mut self, cells: I)
    where
        I: IntoIterator,
        I::Item: ToString,
    {
        let shown = |of: I::Item| cell(&of.to_string()).into_owned();
        let mut cells: Vec<String> = cells.into_iter().map(shown).collect();
        cells.resize(self.headings.len(), String::new());
        self.rows.push(cells);
    }

    /// Prints headings and rows; columns are two blanks apart, and lines have no trailing blanks.
    #[must_use]
    pub fn print(&self) -> String {
        let headings: Vec<String> = self.headings.iter().map(|(text, _)| text.clone()).collect();
        let lines = || std::iter::once(&headings).chain(&self.rows);
        let chars = |text: &String| text.chars().count();
        let widths: Vec<usize> = (0..headings.len())
            .map(|column| lines().map(|line| chars(&line[column])).max().unwrap_or(0))
            .collect();
        let mut text = String::new();
        for line in lines() {
            let mut printed = String::new();
            for ((cell, &width), (_, align)) in line.iter().zip(&widths).zip(&self.headings) {
                if !printed.is_empty() {
                    printed += "  ";
                }
                printed += &match align {
                    Align::Left => format!("{cell:<width$}"),
                    Align::Right => format!("{cell:>width$}"),
                };
            }
            text += printed.trim_end();
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    /// A width above 65,535 panics in the standard library.
    #[test]
    fn a_cell_of_any_length_is_printed() {
        let mut table = Table::new().text("command").number(&"h".repeat(70_000));
        table.row(["c".repeat(70_000), "7".to_owned()]);
        let text = table.print();
        assert!(text.lines().all(|line| line.len() == 2002), "{}", text.len());
        assert!(text.contains("ccc...  ") && text.contains("hhh..."));
    }

    #[test]
    fn text_left_numbers_right() {
        let mut table = Table::new().text("zone").number("free [pages]").text("note");
        table.row(["DMA", "7", ""]);
        table.row(["Normal", "1234567", "low"]);
        assert_eq!(
            table.print(),
            "zone    free [pages]  note\n\
             DMA                7\n\
             Normal       1234567  low\n"
        );
    }
}
