//! The tables of benchmarks with a row for each operation, as the seeds have them.

use pageblock_measure::compare::Column;
use pageblock_measure::multiops::StatRow;

use crate::mmtests::{Bracket, FIELD_2018, FIELD_DEFAULT, Row, Table};

/// How such a table is printed.
#[derive(Clone, Copy, Debug)]
pub struct Multiops {
    title: &'static str,
    field: usize,
    bracket: Bracket,
}

/// netperf-udp, as seed 2 has it.
pub const NETPERF: Multiops = Multiops {
    title: "netperf-udp (simulated, Mbit/s)",
    field: FIELD_2018,
    bracket: Bracket::Percent,
};

/// parallelio, as seed 3 has it.
pub const PARALLELIO: Multiops = Multiops {
    title: "parallelio (simulated; operations a second, seconds, counts)",
    field: FIELD_DEFAULT,
    bracket: Bracket::PercentBefore2017,
};

impl Multiops {
    /// Prints the table; nothing without rows.
    #[must_use]
    pub fn print(self, columns: &[Column], rows: &[StatRow]) -> String {
        if rows.is_empty() {
            return String::new();
        }
        let Self { title, field, bracket } = self;
        let table = Table {
            columns: columns.to_vec(),
            field,
            bracket,
            rows: rows.iter().map(Row::from).collect(),
            significance: Vec::new(),
        };
        format!("{title}\n{}\n", table.print())
    }
}

#[cfg(test)]
mod tests {
    use pageblock_measure::multiops::StarRule;
    use pageblock_measure::{Run, datagrams, parallel};

    use super::*;

    fn run(policy: &str, samples: &[(&str, &[u64])]) -> Run {
        let mut run = Run { policy: policy.into(), seed: 1, ..Run::default() };
        run.samples.extend(samples.iter().map(|&(name, values)| (name.into(), values.to_vec())));
        run
    }

    /// The lines of a table that begin with a word.
    fn lines(layout: Multiops, runs: &[Run], rows: &[StatRow], word: &str) -> Vec<String> {
        let columns: Vec<Column> = runs.iter().map(|run| Column::of_policy(&run.policy)).collect();
        assert_eq!(layout.print(&columns, &[]), "");
        let text = layout.print(&columns, rows);
        text.lines().filter(|line| line.starts_with(word)).map(str::to_owned).collect()
    }

    #[test]
    fn rows_of_netperf_are_those_of_the_seed() {
        let run = |policy, rates: &[u64]| {
            run(policy, &[("send-128", rates), ("send-64", &[250_000_000; 3])])
        };
        let runs = [
            run("linux-5.13", &[500_000_000, 510_000_000, 520_000_000]),
            run("linux-5.13,pcp_orders=0-3+thp", &[530_000_000, 540_000_000, 550_000_000]),
        ];
        let rows = datagrams::rows(&runs, 0, StarRule::Classic).unwrap();
        assert_eq!(
            lines(NETPERF, &runs, &rows, "Hmean"),
            [
                "Hmean     send-64       250.00 (   0.00%)      250.00 (   0.00%)",
                "Hmean     send-128      509.87 (   0.00%)      539.88 *   5.89%*",
            ]
        );
    }

    #[test]
    fn rows_of_parallelio_are_those_of_the_seed() {
        let run = |policy, rate, io| {
            run(policy, &[("memcachetest-4487M", &[rate]), ("io-duration-4487M", &[io])])
        };
        let runs = [run("linux-3.10", 2606, 278_000), run("linux-3.12", 3922, 173_000)];
        let rows = parallel::rows(&runs, 0).unwrap();
        assert_eq!(
            lines(PARALLELIO, &runs, &rows, "Ops"),
            [
                "Ops memcachetest-4487M           2606.00 (  0.00%)           3922.00 ( 50.50%)",
                "Ops io-duration-4487M             278.00 (  0.00%)            173.00 ( 37.77%)",
            ]
        );
    }
}
