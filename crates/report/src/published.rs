//! A published table beside ours, cell by cell.

use pageblock_measure::published::Beside;

use crate::table::Table;

/// Prints it: for each column the published value, ours, and their ratio; for each column but the
/// first the change from the first.
#[must_use]
pub fn print(beside: &Beside) -> String {
    let Beside { workload, machine, source, policies, seeds, rows } = beside;
    let mut text = format!(
        "{workload} beside what was published: {source}\nours: simulated on {machine}, means over {seeds} seeds; \
         ratio: ours to published; fitted: the model was adjusted by this row\n"
    );
    if machine.contains(" at ") {
        text += "counts and times of a smaller machine are not those of the whole one: compare changes\n";
    }
    for (letter, policy) in ('A'..).zip(policies) {
        text += &format!("{letter}: {policy}\n");
    }
    let mut table = Table::new().text("row").text("");
    for (letter, _) in ('A'..).zip(policies) {
        table = table.number(&format!("{letter} published")).number("ours").number("ratio");
    }
    for (letter, _) in ('A'..).zip(policies).skip(1) {
        table = table.number(&format!("{letter} to A published [%]")).number("ours [%]");
    }
    for row in rows {
        let mut cells = vec![row.label.clone(), row.kind.name().to_owned()];
        for cell in &row.cells {
            cells.extend([number(cell.published), number(cell.ours), ratio(cell.ratio())]);
        }
        for column in 1..row.cells.len() {
            let (published, ours) = row.changes(column);
            cells.extend([percent(published), percent(ours)]);
        }
        table.row(cells);
    }
    text + &table.print()
}

fn number(value: Option<f64>) -> String {
    let Some(value) = value else { return "-".to_owned() };
    if value.abs() >= 1000.0 || value == value.trunc() {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

fn ratio(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.2}"))
}

fn percent(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:+.1}"))
}

#[cfg(test)]
mod tests {
    use pageblock_measure::published::{BesideCell, BesideRow, Kind};

    use super::*;

    #[test]
    fn cells_changes_and_what_is_missing() {
        let cell = |published, ours| BesideCell { published, ours };
        let beside = Beside {
            workload: "w".into(),
            machine: "m at 1/8".into(),
            source: "somebody".into(),
            policies: vec!["old".into(), "new".into()],
            seeds: 3,
            rows: vec![BesideRow {
                label: "events".into(),
                kind: Kind::Predicted,
                cells: vec![cell(Some(4000.0), Some(2000.5)), cell(Some(1000.0), None)],
            }],
        };
        let text = print(&beside);
        assert!(text.contains("compare changes\nA: old\nB: new\n"), "{text}");
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        let row = ["events", "predicted", "4000", "2000", "0.50", "1000", "-", "-", "-75.0", "-"];
        assert_eq!(lines.last().unwrap()[..], row, "{text}");
    }
}
