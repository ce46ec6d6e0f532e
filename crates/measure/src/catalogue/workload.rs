//! Measures that only the runs of one workload have, as rows over seeds.

use super::{Measure, Value};
use crate::run::Run;
use crate::run::formula::Formula;
use crate::run::tables::{MeasureRow, MeasuresSpec};

impl MeasuresSpec {
    pub(crate) fn measures(&self) -> Vec<Measure> {
        let measure = |row: &MeasureRow| {
            let (formula, samples) = (row.clone(), self.samples.clone());
            Measure::row((&row.group, &row.label), row.better, move |run| {
                run.samples.contains_key(&samples).then(|| formula.value(run)).flatten()
            })
            .defined_as(row.value.to_string())
        };
        self.rows.iter().map(measure).collect()
    }
}

impl MeasureRow {
    fn value(&self, run: &Run) -> Option<Value> {
        match &self.value {
            Formula::Counter(name) if self.divide == 1 => {
                Some(Value::Count(run.counters.get(name).unwrap_or(0)))
            }
            formula => formula.divided(run, self.divide).map(Value::Real),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::common::Options;
    use crate::compare::seeds::SeedComparison;
    use crate::run::tables::Tables;
    use crate::statistics::stats::Direction;
    use crate::value::names;

    fn spec() -> MeasuresSpec {
        let row = |group: &str, label: &str, value: &str, divide| MeasureRow {
            group: group.into(),
            label: label.into(),
            value: value.to_owned().try_into().unwrap(),
            divide,
            better: Direction::Lower,
        };
        MeasuresSpec {
            title: "Launches ({origin})".into(),
            samples: "latency".into(),
            rows: vec![
                row("Latency", "mean-ms", "amean:latency", 1_000_000),
                row("Latency", "p50-ms", "p50:latency", 1_000_000),
                row("Latency", "p99-ms", "p99:latency", 1_000_000),
                row("Latency", "cold-ms", "amean:latency-cold", 1_000_000),
                row("PSI%", "some", "ratio:psi_memory_some_us,simulated_elapsed_ms", 10),
                row("PSI%", "full", "ratio:psi_memory_full_us,simulated_elapsed_ms", 10),
                row("StallTime", "order-2-ms", "sum:stall-order-2", 1_000_000),
                row("Refaults", "file", "counter:workingset_refault", 1),
            ],
        }
    }

    #[test]
    fn measures_of_a_workload_are_rows_over_seeds() {
        let run = |policy: &str, factor: u64| {
            let mut run = Run { policy: policy.into(), seed: 1, ..Run::default() };
            run.tables = Some(Tables { measures: vec![spec()], ..Tables::default() });
            let launches = (1..=100).map(|ms| ms * 1_000_000 * factor).collect();
            run.samples.insert("latency".to_owned(), launches);
            run.samples.insert("stall-order-2".to_owned(), vec![500_000, 250_000 * factor]);
            run.counters.set(names::SIMULATED_ELAPSED_MS, 10_000);
            run.counters.set(names::PSI_SOME_US, 100_000 * factor);
            run
        };
        let runs = [run("a", 1), run("b", 2)];
        let comparison = SeedComparison::of_runs(&runs, &Options::default()).unwrap();
        assert!(comparison.sections.iter().any(|s| s.title == "Launches (simulated)"));
        let means = |group: &str, label: &str| {
            let row = comparison.row(group, label).unwrap();
            row.cells.iter().map(|cell| cell.as_ref().unwrap().mean).collect::<Vec<_>>()
        };
        assert_eq!(means("Latency", "mean-ms"), [50.5, 101.0]);
        assert_eq!(means("Latency", "p50-ms"), [50.0, 100.0]);
        assert_eq!(means("Latency", "p99-ms"), [99.0, 198.0]);
        assert_eq!(means("PSI%", "some"), [1.0, 2.0]);
        assert_eq!(means("StallTime", "order-2-ms"), [0.75, 1.0]);
        assert_eq!(means("Refaults", "file"), [0.0, 0.0]);
        assert!(comparison.row("PSI%", "full").is_none());
        assert!(comparison.row("Latency", "cold-ms").is_none());
    }

    #[test]
    fn other_runs_have_no_such_rows() {
        let other = Run { policy: "a".into(), ..Run::default() };
        assert!(spec().measures().iter().all(|measure| measure.value(&other).is_none()));
    }
}
