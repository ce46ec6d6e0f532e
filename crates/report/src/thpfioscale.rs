//! The two tables of thpfioscale as seed 1 has them: fault latencies, and the share of huge faults.
//!
//! As mmtests does, samples are single faults; those of all seeds are pooled.

use std::collections::BTreeMap;

use pageblock_measure::Run;
use pageblock_measure::compare::Column;
use pageblock_measure::multiops::{self, Operation, Options, StarRule, Statistics};
use pageblock_measure::seeds::by_policy;
use pageblock_measure::stats::Direction;

use crate::mmtests::{Bracket, Cell, FIELD_2018, Row, Table};

const NANOS_PER_MICRO: u64 = 1000;

/// Prints both tables; nothing where no run has the samples of faults.
///
/// # Errors
/// Where the statistics cannot be computed.
pub fn print(runs: &[Run]) -> Result<String, pageblock_measure::Error> {
    let policies = by_policy(runs);
    let names: Vec<&String> = {
        let all: BTreeMap<&String, ()> = runs
            .iter()
            .flat_map(|run| run.samples.keys().map(|name| (name, ())))
            .filter(|(name, ())| name.starts_with("fault-"))
            .collect();
        all.into_keys().collect()
    };
    let Some(threads) = names.first().and_then(|name| name.rsplit_once('-')).map(|(_, t)| t) else {
        return Ok(String::new());
    };
    let columns: Vec<Column> =
        policies.iter().map(|runs| Column::of_policy(&runs[0].policy)).collect();
    let samples = |kind: &str| -> Vec<Vec<f64>> {
        let name = format!("fault-{kind}-{threads}");
        let of_policy = |runs: &Vec<&Run>| {
            let samples = runs.iter().filter_map(|run| run.samples.get(&name)).flatten();
            samples.map(|&ns| (ns / NANOS_PER_MICRO) as f64).collect()
        };
        policies.iter().map(of_policy).collect()
    };
    let (base, huge) = (samples("base"), samples("huge"));
    let shares: Vec<f64> = base.iter().zip(&huge).map(|(b, h)| percent_huge(b, h)).collect();
    let operations = [
        Operation { name: format!("fault-base-{threads}"), samples: base },
        Operation { name: format!("fault-huge-{threads}"), samples: huge },
    ];
    let options = Options {
        direction: Direction::Lower,
        statistics: Statistics::Years2018To2025,
        stars: StarRule::Classic,
        baseline: 0,
    };
    let latencies = Table {
        columns: columns.clone(),
        field: FIELD_2018,
        bracket: Bracket::Percent,
        rows: multiops::rows(&operations, &options)?.iter().map(Row::from).collect(),
        significance: Vec::new(),
    };
    Ok(format!(
        "thpfioscale Fault Latencies (simulated, us)\n{}\nthpfioscale Percentage Faults Huge\n{}\n",
        latencies.print(),
        share_table(columns, threads, &shares).print()
    ))
}

fn percent_huge(base: &[f64], huge: &[f64]) -> f64 {
    let all = base.len() + huge.len();
    if all == 0 { 0.0 } else { huge.len() as f64 * 100.0 / all as f64 }
}

fn share_table(columns: Vec<Column>, threads: &str, shares: &[f64]) -> Table {
    let cell = |&share: &f64| Cell {
        value: Some(share),
        delta: Some(Direction::Higher.delta(shares[0], share)),
        star: false,
    };
    Table {
        columns,
        field: FIELD_2018,
        bracket: Bracket::Percent,
        rows: vec![Row {
            statistic: "Percentage".to_owned(),
            operation: format!("huge-{threads}"),
            cells: shares.iter().map(cell).collect(),
        }],
        significance: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(policy: &str, base: &[u64], huge: &[u64]) -> Run {
        let mut run = Run { policy: policy.into(), seed: 1, ..Run::default() };
        for (name, samples) in [("fault-base-1", base), ("fault-huge-1", huge)] {
            if !samples.is_empty() {
                run.samples.insert(name.into(), samples.to_vec());
            }
        }
        run
    }

    #[test]
    fn rows_are_those_of_the_seed() {
        let runs = [
            run("linux-4.20", &[600_000, 700_000, 800_000], &[]),
            run("linux-4.20,nofragment=on", &[600_000, 640_999], &[150_000, 150_000]),
        ];
        let text = print(&runs).unwrap();
        let line = |start: &str| text.lines().find(|l| l.starts_with(start)).unwrap().to_owned();
        assert_eq!(
            line("Amean     fault-base-1"),
            "Amean     fault-base-1      700.00 (   0.00%)      620.00 (  11.43%)"
        );
        assert_eq!(
            line("Amean     fault-huge-1"),
            "Amean     fault-huge-1        0.00 (   0.00%)      150.00 * -99.00%*"
        );
        assert_eq!(
            line("Percentage huge-1"),
            "Percentage huge-1        0.00 (   0.00%)       50.00 ( 100.00%)"
        );
    }

    #[test]
    fn runs_without_faults_print_nothing() {
        assert_eq!(print(&[Run::default()]).unwrap(), "");
    }
}
