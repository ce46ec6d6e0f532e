//! The table of netperf-udp as seed 2 has it.

use pageblock_measure::compare::Column;
use pageblock_measure::multiops::StatRow;

use crate::mmtests::{Bracket, FIELD_2018, Row, Table};

/// Prints it; nothing without rows.
#[must_use]
pub fn print(columns: &[Column], rows: &[StatRow]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let table = Table {
        columns: columns.to_vec(),
        field: FIELD_2018,
        bracket: Bracket::Percent,
        rows: rows.iter().map(Row::from).collect(),
        significance: Vec::new(),
    };
    format!("netperf-udp (simulated, Mbit/s)\n{}\n", table.print())
}

#[cfg(test)]
mod tests {
    use pageblock_measure::Run;
    use pageblock_measure::datagrams;
    use pageblock_measure::multiops::StarRule;

    use super::*;

    #[test]
    fn rows_are_those_of_the_seed() {
        let run = |policy: &str, rates: &[u64]| {
            let mut run = Run { policy: policy.into(), seed: 1, ..Run::default() };
            run.samples.insert("send-128".into(), rates.to_vec());
            run.samples.insert("send-64".into(), vec![250_000_000; 3]);
            run
        };
        let runs = [
            run("linux-5.13", &[500_000_000, 510_000_000, 520_000_000]),
            run("linux-5.13,pcp_orders=0-3+thp", &[530_000_000, 540_000_000, 550_000_000]),
        ];
        let columns: Vec<Column> = runs.iter().map(|run| Column::of_policy(&run.policy)).collect();
        let text = print(&columns, &datagrams::rows(&runs, 0, StarRule::Classic).unwrap());
        let means: Vec<&str> = text.lines().filter(|line| line.starts_with("Hmean")).collect();
        assert_eq!(
            means,
            [
                "Hmean     send-64       250.00 (   0.00%)      250.00 (   0.00%)",
                "Hmean     send-128      509.87 (   0.00%)      539.88 *   5.89%*",
            ]
        );
        assert_eq!(print(&columns, &[]), "");
    }
}
