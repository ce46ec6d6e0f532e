//! The table of netperf-udp as seed 2 has it.

use pageblock_measure::Run;
use pageblock_measure::compare::Column;
use pageblock_measure::multiops::{self, Operation, Options, StarRule, Statistics};
use pageblock_measure::seeds::by_policy;
use pageblock_measure::stats::Direction;

use crate::mmtests::{Bracket, FIELD_2018, Row, Table};

const BITS_PER_MBIT: f64 = 1e6;

/// Prints it, in Mbit/s; nothing where no run has samples of datagrams.
///
/// # Errors
/// Where the statistics cannot be computed.
pub fn print(runs: &[Run], stars: StarRule) -> Result<String, pageblock_measure::Error> {
    let policies = by_policy(runs);
    let mut operations = Vec::new();
    for kind in ["send-", "recv-"] {
        let mut sizes: Vec<u64> = runs
            .iter()
            .flat_map(|run| run.samples.keys())
            .filter_map(|name| name.strip_prefix(kind)?.parse().ok())
            .collect();
        sizes.sort_unstable();
        sizes.dedup();
        for size in sizes {
            let name = format!("{kind}{size}");
            let of_policy = |runs: &Vec<&Run>| {
                let samples = runs.iter().filter_map(|run| run.samples.get(&name)).flatten();
                samples.map(|&bits| bits as f64 / BITS_PER_MBIT).collect()
            };
            let samples = policies.iter().map(of_policy).collect();
            operations.push(Operation { name, samples });
        }
    }
    if operations.is_empty() {
        return Ok(String::new());
    }
    let options = Options {
        direction: Direction::Higher,
        statistics: Statistics::Years2018To2025,
        stars,
        baseline: 0,
    };
    let table = Table {
        columns: policies.iter().map(|runs| Column::of_policy(&runs[0].policy)).collect(),
        field: FIELD_2018,
        bracket: Bracket::Percent,
        rows: multiops::rows(&operations, &options)?.iter().map(Row::from).collect(),
        significance: Vec::new(),
    };
    Ok(format!("netperf-udp (simulated, Mbit/s)\n{}\n", table.print()))
}

#[cfg(test)]
mod tests {
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
        let text = print(&runs, StarRule::Classic).unwrap();
        let means: Vec<&str> = text.lines().filter(|line| line.starts_with("Hmean")).collect();
        assert_eq!(
            means,
            [
                "Hmean     send-64       250.00 (   0.00%)      250.00 (   0.00%)",
                "Hmean     send-128      509.87 (   0.00%)      539.88 *   5.89%*",
            ]
        );
    }
}
