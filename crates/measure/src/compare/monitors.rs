//! The output of mmtests' monitors below a benchmark: durations, and the kernel's counters.
//!
//! A cell is the mean over the seeds of a policy; in mmtests it is from a single run.

use serde::Serialize;

use crate::catalogue::{Measure, vmstat};
use crate::run::Run;
use crate::run::policies::Policies;
use crate::statistics::stats;
use crate::value::counters::Counters;
use crate::value::names;

/// A row of a monitor.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MonitorRow {
    /// The row's name: `User`, `Minor Faults`.
    pub label: String,
    /// The mean over the runs of each policy; `None` if some run does not have it.
    pub values: Vec<Option<f64>>,
}

/// Returns the times of mmtests' Duration block, in seconds. Empty if no run has them.
#[must_use]
pub fn duration(policies: &Policies<'_>) -> Vec<MonitorRow> {
    type Time = fn(&Counters) -> Option<u64>;
    let times: [(&str, Time); 3] =
        [("User", names::user_ms), ("System", names::system_ms), ("Elapsed", names::elapsed_ms)];
    let seconds = |time: Time, run: &Run| Some(time(&run.counters)? as f64 / 1000.0);
    let row = |(label, time)| row(policies, label, &|run| seconds(time, run));
    times.into_iter().filter_map(row).collect()
}

/// Returns the rows of mmtests' vmstat block that some run has, in mmtests' order.
#[must_use]
pub fn vmstat(policies: &Policies<'_>) -> Vec<MonitorRow> {
    let row = |measure: &Measure| row(policies, &measure.label, &|run| measure.number(run));
    vmstat::rows().iter().filter_map(row).collect()
}

fn row(
    policies: &Policies<'_>,
    label: &str,
    read: &dyn Fn(&Run) -> Option<f64>,
) -> Option<MonitorRow> {
    let mean = |runs: &Vec<&Run>| {
        let values: Option<Vec<f64>> = runs.iter().map(|run| read(run)).collect();
        values.map(|values| stats::amean(&values))
    };
    let values: Vec<Option<f64>> = policies.iter().map(mean).collect();
    let known = values.iter().any(Option::is_some);
    known.then(|| MonitorRow { label: label.to_owned(), values })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(policy: &str, seed: u64, counters: &[(&str, u64)]) -> Run {
        let counters = counters.iter().copied().collect();
        Run { policy: policy.into(), seed, counters, ..Run::default() }
    }

    #[test]
    fn cells_are_means_over_seeds() {
        let runs = [
            run("a", 1, &[("pgscan_kswapd", 100), ("simulated_elapsed_ms", 2000)]),
            run("a", 2, &[("pgscan_kswapd", 300), ("simulated_elapsed_ms", 3000)]),
            run("b", 1, &[("pgscan_kswapd", 7)]),
            run("b", 2, &[]),
        ];
        let policies = Policies::of(&runs);
        let duration = duration(&policies);
        assert_eq!(duration.len(), 1);
        assert_eq!(duration[0].values, [Some(2.5), None]);
        let rows = vmstat(&policies);
        let labels: Vec<&str> = rows.iter().map(|row| row.label.as_str()).collect();
        assert_eq!(labels, ["Kswapd pages scanned", "Kswapd velocity"]);
        assert_eq!(rows[0].values, [Some(200.0), None]);
        assert_eq!(rows[1].values, [Some(75.0), None]);
    }
}
