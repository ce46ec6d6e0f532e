//! What netperf-udp reports: the rates at which datagrams are sent and received.

use std::collections::BTreeSet;

use crate::error::Error;
use crate::multiops::{self, Operation, Options, StarRule, StatRow, Statistics};
use crate::run::Run;
use crate::seeds::by_policy;
use crate::stats::Direction;

const BITS_PER_MBIT: f64 = 1e6;

/// Each statistic of `send-N` and `recv-N`, N bytes, in Mbit/s; samples of all seeds are pooled. Empty
/// where no run has samples of datagrams.
///
/// # Errors
/// [`Error::Baseline`] (of the policies).
pub fn rows(runs: &[Run], baseline: usize, stars: StarRule) -> Result<Vec<StatRow>, Error> {
    let policies = by_policy(runs);
    let mut operations = Vec::new();
    for kind in ["send-", "recv-"] {
        let names = runs.iter().flat_map(|run| run.samples.keys());
        let sizes: BTreeSet<u64> =
            names.filter_map(|name| name.strip_prefix(kind)?.parse().ok()).collect();
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
        return Ok(Vec::new());
    }
    let options = Options {
        direction: Direction::Higher,
        statistics: Statistics::Years2018To2025,
        stars,
        baseline,
    };
    multiops::rows(&operations, &options)
}
