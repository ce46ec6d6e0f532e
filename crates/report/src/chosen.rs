//! A summary, and the tables that were chosen to stand below it.

use pageblock_measure::certificate::note::{Known, Note};
use pageblock_measure::compare::full::FullComparison;
use pageblock_measure::compare::summary::Summary;

use crate::summary::{legend, print};
use crate::{full, note, published};

/// Which tables follow a summary.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Tables {
    /// All of them.
    All,
    /// None.
    None,
    /// Those with this text in their title.
    Titled(String),
}

impl Tables {
    /// Returns the choice that a user names: `all`, `summary`, or a part of a title.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text {
            "all" => Self::All,
            "summary" => Self::None,
            title => Self::Titled(title.to_owned()),
        }
    }

    /// Checks that there is a table with the text in its title.
    ///
    /// # Errors
    /// Names the titles that there are.
    pub fn check(&self, comparison: &FullComparison) -> Result<(), String> {
        let Self::Titled(wanted) = self else { return Ok(()) };
        let tables = full::print(comparison);
        let titles: Vec<&str> =
            tables.split("\n\n").filter(|table| is_table(table)).map(title).collect();
        if titles.iter().any(|title| fits(title, wanted)) {
            return Ok(());
        }
        // What is in brackets, and what follows a colon, says of how many seeds it is.
        let brief =
            |title: &&str| title.split([':', '(']).next().unwrap_or(title).trim().to_owned();
        let mut titles: Vec<String> = titles.iter().map(brief).collect();
        titles.dedup();
        let titles = titles.join("; ");
        Err(format!("tables '{wanted}': allowed: summary, all, a part of a title: {titles}"))
    }

    /// Prints a comparison: its summary, and the chosen tables. Who asks for the published table has it, whatever else is printed.
    #[must_use]
    pub fn print(&self, comparison: &FullComparison) -> String {
        let tables = if *self == Self::None { String::new() } else { full::print(comparison) };
        let text = self.below(&comparison.summary, &tables);
        match (&comparison.published, self) {
            (Some(published), Self::None) => format!("{text}\n{}", published::print(published)),
            _ => text,
        }
    }

    /// Prints a summary, with its notes, and the chosen ones of the printed tables below it; all of these have the notes
    /// themselves.
    #[must_use]
    pub fn below(&self, summary: &Summary, tables: &str) -> String {
        let above = print(summary) + &legend(summary);
        match self {
            Self::All => format!("{above}\n{tables}"),
            Self::None => above + &notes(summary),
            Self::Titled(title) => {
                format!("{above}{}\n{}", notes(summary), titled(tables, title))
            }
        }
    }
}

/// Returns the notes but those that a certificate says.
fn notes(summary: &Summary) -> String {
    let said =
        |note: &&Note| !matches!(note, Note::Of(Known::Replayed { .. } | Known::UnitsDiffer));
    let notes = summary.notes.iter().filter(said);
    notes.map(|note| format!("Note: {}\n", note::words(note))).collect()
}

/// Returns the tables with a text in their title, or the titles that there are.
fn titled(tables: &str, wanted: &str) -> String {
    // What has one line is a note.
    let all = || tables.split("\n\n").filter(|table| is_table(table));
    let found: Vec<&str> =
        all().filter(|table| fits(title(table), wanted)).map(str::trim_end).collect();
    if !found.is_empty() {
        return found.join("\n\n") + "\n";
    }
    let titles: Vec<String> = all().map(|table| format!("  {}\n", title(table))).collect();
    format!("No table has '{wanted}' in its title. The titles:\n{}", titles.concat())
}

fn title(table: &str) -> &str {
    table.lines().next().unwrap_or_default()
}

fn fits(title: &str, wanted: &str) -> bool {
    title.to_lowercase().contains(&wanted.to_lowercase())
}

fn is_table(text: &str) -> bool {
    let is_note = |line: &str| {
        ["Note: ", "Certificate: ", "Calibration: ", "Kernels: ", "Percentages: "]
            .iter()
            .any(|start| line.starts_with(start))
    };
    text.lines().count() > 2 && !text.lines().next().is_some_and(is_note)
}

#[cfg(test)]
mod tests {
    use pageblock_measure::Run;
    use pageblock_measure::compare::common::Options;

    use super::*;

    #[test]
    fn tables_are_chosen_by_title() {
        let tables = "Note: a\n\nUnusable free space (%)\nhead\nrow 1\n\nBlocks\nhead\nrow 2\n";
        let run = Run { policy: "a".into(), ..Run::default() };
        let summary = Summary::of_runs(&[run], &Options::default()).unwrap();
        let chosen = |name: &str| Tables::parse(name).below(&summary, tables);
        assert!(chosen("all").ends_with(tables));
        assert!(chosen("unusable").ends_with("\nUnusable free space (%)\nhead\nrow 1\n"));
        assert!(!chosen("summary").contains("row 1"));
        let none = chosen("pictures");
        assert!(none.ends_with("The titles:\n  Unusable free space (%)\n  Blocks\n"), "{none}");
    }
}
