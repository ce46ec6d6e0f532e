//! A comparison that adds seeds until its primary measures are decided.

use std::collections::BTreeMap;
use std::sync::Arc;

use pageblock_measure::Run;
use pageblock_measure::compare::common::Options;
use pageblock_measure::compare::summary::Summary;
use pageblock_measure::compare::verdict::{Looks, Stopped};

use crate::error::Result;
use crate::jobs::Jobs;
use crate::watch::Watch;

/// Runs the jobs, which are policy by policy within a seed, up to the first look at which every primary measure is decided.
/// Returns the runs and what ended it; `None` of a comparison that is looked at once.
///
/// # Errors
/// If a simulation fails, or its run cannot be saved.
pub fn run(
    jobs: &Arc<Jobs>,
    policies: usize,
    options: &Options,
    watch: &dyn Watch,
) -> Result<(BTreeMap<usize, Run>, Option<Stopped>)> {
    let Looks::At(looks) = &options.looks else { return Ok((jobs.run(watch)?, None)) };
    let mut runs = BTreeMap::new();
    for &look in looks {
        let end = look * policies;
        runs = jobs.go_on(runs, end, watch)?;
        if runs.len() < end {
            return Ok((runs, Some(Stopped::Interrupted)));
        }
        let so_far: Vec<Run> = runs.values().cloned().collect();
        if Summary::of_runs(&so_far, options)?.is_decided() {
            return Ok((runs, Some(Stopped::Decided)));
        }
    }
    Ok((runs, Some(Stopped::Budget)))
}
