//! The comparison of policies over seeds: mmtests' table, and the changes with their intervals below it.

use pageblock_measure::compare::seeds::{SeedComparison, SeedRow, SeedSection};
use pageblock_measure::statistics::rank_sum::Change;

use crate::mmtests::{Bracket, Cell, FIELD_2018, MmtestsRow, Table};
use crate::replay::{print_preamble, titled};
use crate::table;

/// Prints the notes, and for each section a titled table of means over the seeds in the layout
/// of mmtests. With more seeds than one, the changes of the same rows follow, with their intervals.
#[must_use]
pub fn print(comparison: &SeedComparison) -> String {
    let mut text = print_preamble(None, &comparison.notes);
    let seeds = comparison.seeds.len();
    let over = if seeds == 1 { String::new() } else { format!(": means over {seeds} seeds") };
    let sections = comparison.sections.iter().map(|section| {
        let title = format!("{}{over}", section.title);
        let mut text = titled(&title, section.note.as_deref());
        text += &mean_table(comparison, section).print();
        let changes = |row: &SeedRow| row.cells.iter().flatten().any(|cell| cell.change.is_some());
        // One draw of each has a ratio, and neither an interval nor a test.
        if seeds > 1 && section.rows.iter().any(changes) {
            text += &format!("\n{}: changes over {seeds} seeds\n", section.title);
            text += &change_table(comparison, section).print();
        }
        text
    });
    text += &sections.collect::<Vec<_>>().join("\n");
    text
}

/// Returns the table of means; stars follow the chosen rule, over the seeds.
#[must_use]
pub fn mean_table(comparison: &SeedComparison, section: &SeedSection) -> Table {
    let cells = |row: &SeedRow| {
        let cell = |cell: &Option<pageblock_measure::compare::seeds::SeedCell>| {
            cell.as_ref().map_or_else(Cell::default, |cell| Cell {
                value: Some(cell.mean),
                delta: cell.delta,
                star: cell.star,
            })
        };
        row.cells.iter().map(cell).collect()
    };
    let row = |row: &SeedRow| MmtestsRow {
        statistic: row.group.clone(),
        operation: row.label.clone(),
        cells: cells(row),
    };
    Table {
        columns: comparison.columns.clone(),
        field: FIELD_2018,
        bracket: Bracket::Percent,
        rows: section.rows.iter().map(row).collect(),
        significance: Vec::new(),
    }
}

/// Returns the changes: for each row and each policy but the baseline, the ratio with its interval, and the p of the rank-sum
/// test of this row alone.
#[must_use]
pub fn change_table(comparison: &SeedComparison, section: &SeedSection) -> table::Table {
    let mut table = table::Table::new()
        .text("measure")
        .text("policy")
        .number("ratio")
        .number("95 % from")
        .number("to")
        .number("p of one test");
    for row in &section.rows {
        for (cell, column) in row.cells.iter().zip(&comparison.columns) {
            let Some(Change { ratio, interval, p, .. }) =
                cell.as_ref().and_then(|cell| cell.change)
            else {
                continue;
            };
            let [low, high] = match interval {
                Some((low, high)) => [low, high].map(|ratio| format!("{ratio:.4}")),
                None => ["-", "-"].map(str::to_owned),
            };
            table.row([
                format!("{} {}", row.group, row.label),
                format!("{} {}", column.kernel, column.label),
                format!("{ratio:.4}"),
                low,
                high,
                format!("{p:.4}"),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use pageblock_measure::Run;
    use pageblock_measure::compare::common::Options;

    use super::*;

    fn run(policy: &str, seed: u64, probes: u64) -> Run {
        let mut run = Run { policy: policy.into(), seed, ..Run::default() };
        run.counters.set("list_probes", probes);
        run
    }

    #[test]
    fn means_and_changes() {
        let runs: Vec<Run> = (1..=6)
            .flat_map(|seed| {
                [run("linux-6.1", seed, 100 + seed), run("linux-6.1,probe=low", seed, 50)]
            })
            .collect();
        let comparison = SeedComparison::of_runs(&runs, &Options::default()).unwrap();
        let section = comparison.sections.iter().find(|s| s.rows[0].group == "Work").unwrap();
        assert_eq!(
            mean_table(&comparison, section).print(),
            concat!(
                "                              linux-6.1              linux-6.1\n",
                "                                vanilla              probe=low\n",
                "Work list-probes      103.50 (   0.00%)       50.00 *  51.69%*\n"
            )
        );
        assert_eq!(
            change_table(&comparison, section).print(),
            concat!(
                "measure           policy                ratio  95 % from      to  p of one test\n",
                "Work list-probes  linux-6.1 probe=low  0.4831     0.4717  0.4950         0.0022\n"
            )
        );
        assert!(print(&comparison).contains("(operations): changes over 6 seeds\nmeasure "));
        let two = SeedComparison::of_runs(&runs[..4], &Options::default()).unwrap();
        assert!(print(&two).contains("(operations): means over 2 seeds\n"));
        let one = SeedComparison::of_runs(&runs[..2], &Options::default()).unwrap();
        assert!(print(&one).contains("\nWork of the allocator (operations)\n  "));
        assert!(!print(&one).contains("changes over"));
    }
}
