//! Prints a published table beside ours, cell by cell.

use pageblock_measure::compare::published::{PublishedComparison, PublishedComparisonRow};

use crate::table::Table;

/// Prints for each column the published value, ours, and their ratio; for each column but the first also the
/// change from the first. Rows whose values are not comparable, as the machine is smaller than the published
/// one, have only their changes.
#[must_use]
pub fn print(beside: &PublishedComparison) -> String {
    let PublishedComparison { workload, machine, source, policies, seeds, rows } = beside;
    let means = if *seeds == 1 { "1 seed".to_owned() } else { format!("means over {seeds} seeds") };
    let mut text = format!(
        "{workload} beside what was published: {source}\nours: simulated on {machine}, {means}; fitted: an input of the model, no result\n"
    );
    for (letter, policy) in ('A'..).zip(policies) {
        text += &format!("{letter}: {policy}\n");
    }
    let (values, totals): (Vec<&PublishedComparisonRow>, Vec<_>) =
        rows.iter().partition(|row| row.values_compare);
    if !values.is_empty() {
        text += "ratio: ours to published\n";
        text += &table(policies, &values, true).print();
    }
    if !totals.is_empty() {
        text += "Counts and times of a whole run depend on the size of the machine, which is smaller than the published \
                 one: only their changes are comparable\n";
        text += &table(policies, &totals, false).print();
    }
    text
}

fn table(policies: &[String], rows: &[&PublishedComparisonRow], values: bool) -> Table {
    let mut table = Table::new().text("row").text("");
    for (letter, _) in ('A'..).zip(policies).filter(|_| values) {
        table = table.number(&format!("{letter} published")).number("ours").number("ratio");
    }
    for (letter, _) in ('A'..).zip(policies).skip(1) {
        table = table.number(&format!("{letter} to A published [%]")).number("ours [%]");
    }
    for row in rows {
        let mut cells = vec![row.label.clone(), row.kind.name().to_owned()];
        for cell in row.cells.iter().filter(|_| values) {
            cells.extend([number(cell.published), number(cell.ours), ratio(cell.ratio())]);
        }
        for change in row.changes.iter().skip(1) {
            cells.extend([percent(change.published), percent(change.ours)]);
        }
        table.row(cells);
    }
    table
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
    // Values that round to 0 have no sign.
    value.map_or("-".to_owned(), |value| match format!("{value:+.1}") {
        zero if zero == "-0.0" => "+0.0".to_owned(),
        text => text,
    })
}

#[cfg(test)]
mod tests {
    use pageblock_measure::compare::published::{Kind, PublishedComparisonCell};

    use super::*;

    #[test]
    fn values_that_round_to_zero_have_no_sign() {
        let texts = [-0.04, 0.04, -10.0, -0.06].map(|change| percent(Some(change)));
        assert_eq!(texts, ["+0.0", "+0.0", "-10.0", "-0.1"]);
    }

    #[test]
    fn cells_changes_and_what_is_missing() {
        let cell = |published, ours| PublishedComparisonCell { published, ours };
        let beside = PublishedComparison {
            workload: "w".into(),
            machine: "m at 1/8".into(),
            source: "somebody".into(),
            policies: vec!["old".into(), "new".into()],
            seeds: 3,
            rows: vec![
                PublishedComparisonRow::new(
                    "events".into(),
                    Kind::Predicted,
                    true,
                    vec![cell(Some(4000.0), Some(2000.5)), cell(Some(1000.0), None)],
                ),
                PublishedComparisonRow::new(
                    "stalls".into(),
                    Kind::Fitted,
                    false,
                    vec![cell(Some(4000.0), Some(2.0)), cell(Some(1000.0), Some(1.0))],
                ),
            ],
        };
        let text = print(&beside);
        assert!(text.contains("\nA: old\nB: new\nratio: ours to published\nrow "), "{text}");
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        let row = ["events", "predicted", "4000", "2000", "0.50", "1000", "-", "-", "-75.0", "-"];
        assert!(lines.iter().any(|line| line[..] == row), "{text}");
        assert!(text.contains("only their changes are comparable\nrow "), "{text}");
        assert_eq!(lines.last().unwrap()[..], ["stalls", "fitted", "-75.0", "-50.0"], "{text}");
    }
}
