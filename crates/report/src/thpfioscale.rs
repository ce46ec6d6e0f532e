//! The two tables of thpfioscale as seed 1 has them: fault latencies, and the share of huge faults.

use pageblock_measure::compare::Column;
use pageblock_measure::faults::Faults;
use pageblock_measure::multiops::StatRow;

use crate::mmtests::{Bracket, FIELD_2018, Row, Table};

/// Prints both tables.
#[must_use]
pub fn print(columns: &[Column], faults: &Faults) -> String {
    let table = |rows: &[StatRow]| Table {
        columns: columns.to_vec(),
        field: FIELD_2018,
        bracket: Bracket::Percent,
        rows: rows.iter().map(Row::from).collect(),
        significance: Vec::new(),
    };
    format!(
        "thpfioscale Fault Latencies (simulated, us)\n{}\nthpfioscale Percentage Faults Huge\n{}\n",
        table(&faults.latencies).print(),
        table(&faults.percentage_huge).print()
    )
}

#[cfg(test)]
mod tests {
    use pageblock_measure::Run;
    use pageblock_measure::multiops::StarRule;

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
        let columns: Vec<Column> = runs.iter().map(|run| Column::of_policy(&run.policy)).collect();
        let faults = Faults::of_runs(&runs, 0, StarRule::Classic).unwrap().unwrap();
        let text = print(&columns, &faults);
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
}
