//! The table of parallelio as seed 3 has it.

use pageblock_measure::compare::Column;
use pageblock_measure::multiops::StatRow;

use crate::mmtests::{Bracket, FIELD_DEFAULT, Row, Table};

/// Prints it; nothing without rows.
#[must_use]
pub fn print(columns: &[Column], rows: &[StatRow]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let table = Table {
        columns: columns.to_vec(),
        field: FIELD_DEFAULT,
        bracket: Bracket::PercentBefore2017,
        rows: rows.iter().map(Row::from).collect(),
        significance: Vec::new(),
    };
    format!("parallelio (simulated; operations a second, seconds, counts)\n{}\n", table.print())
}

#[cfg(test)]
mod tests {
    use pageblock_measure::{Run, parallel};

    use super::*;

    /// Cells of the seed.
    #[test]
    fn rows_are_those_of_the_seed() {
        let run = |policy: &str, rate, io| {
            let mut run = Run { policy: policy.into(), seed: 1, ..Run::default() };
            run.samples.insert("memcachetest-4487M".into(), vec![rate]);
            run.samples.insert("io-duration-4487M".into(), vec![io]);
            run
        };
        let runs = [run("linux-3.10", 2606, 278_000), run("linux-3.12", 3922, 173_000)];
        let columns: Vec<Column> = runs.iter().map(|run| Column::of_policy(&run.policy)).collect();
        let text = print(&columns, &parallel::rows(&runs, 0).unwrap());
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("Ops")).collect();
        assert_eq!(
            rows,
            [
                "Ops memcachetest-4487M           2606.00 (  0.00%)           3922.00 ( 50.50%)",
                "Ops io-duration-4487M             278.00 (  0.00%)            173.00 ( 37.77%)",
            ]
        );
        assert_eq!(print(&columns, &[]), "");
    }
}
