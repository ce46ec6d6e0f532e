//! The runs of each policy, and what they have in common.

use std::ops::Deref;

use super::Run;
use super::tables::Tables;
use crate::value::error::Error;
use crate::value::event_unit::EventUnit;
use crate::value::origin::Origin;

/// Runs and, in the order in which policies first occur, those of each policy sorted by seed. A comparison groups its runs
/// once, and everything that it consists of reads them here.
#[derive(Clone, Debug)]
pub struct Policies<'r> {
    runs: &'r [Run],
    grouped: Vec<Vec<&'r Run>>,
}

impl<'r> Policies<'r> {
    /// Groups runs by their policy.
    #[must_use]
    pub fn of(runs: &'r [Run]) -> Self {
        let mut grouped: Vec<Vec<&Run>> = Vec::new();
        for run in runs {
            match grouped.iter_mut().find(|policy| policy[0].policy == run.policy) {
                Some(policy) => policy.push(run),
                None => grouped.push(vec![run]),
            }
        }
        for policy in &mut grouped {
            policy.sort_by_key(|run| run.seed);
        }
        Self { runs, grouped }
    }

    /// Returns all runs, in the order in which they were given.
    #[must_use]
    pub const fn runs(&self) -> &'r [Run] {
        self.runs
    }
}

impl<'r> Deref for Policies<'r> {
    type Target = [Vec<&'r Run>];

    fn deref(&self) -> &Self::Target {
        &self.grouped
    }
}

/// Checks that a baseline is one of the columns.
///
/// # Errors
/// [`Error::NoRuns`] and [`Error::Baseline`].
pub(crate) fn check_baseline(baseline: usize, columns: usize) -> Result<(), Error> {
    match columns {
        0 => Err(Error::NoRuns),
        _ if baseline >= columns => Err(Error::Baseline { baseline, columns }),
        _ => Ok(()),
    }
}

/// Returns the words for where the runs come from: `simulated and real`.
#[must_use]
pub fn origins<'r>(runs: impl IntoIterator<Item = &'r Run>) -> String {
    let mut origins: Vec<Origin> = runs.into_iter().map(|run| run.origin).collect();
    origins.sort_unstable();
    origins.dedup();
    origins.iter().map(|origin| origin.word()).collect::<Vec<_>>().join(" and ")
}

/// Reports whether counts of `mm_page_alloc_extfrag` events of two runs can be compared. A run without a unit, such as
/// one saved by an older version, is compared with every other.
#[must_use]
pub fn units_agree(a: &Run, b: &Run) -> bool {
    a.extfrag_unit.is_none() || b.extfrag_unit.is_none() || a.extfrag_unit == b.extfrag_unit
}

/// Reports whether some of the runs count blocks and others pages.
#[must_use]
pub fn units_differ(runs: &[Run]) -> bool {
    let some = |unit| runs.iter().any(|run| run.extfrag_unit == Some(unit));
    some(EventUnit::Block) && some(EventUnit::Page)
}

/// Returns the tables and measures of the runs' workloads, of each workload once; forms of a workload share them.
pub(crate) fn of_workloads(runs: &[Run]) -> impl Iterator<Item = &Tables> {
    let mut seen: Vec<(&str, &Tables)> = Vec::new();
    for run in runs {
        if let Some(tables) = &run.tables
            && !seen.iter().any(|&(name, known)| name == run.workload || known == tables)
        {
            seen.push((&run.workload, tables));
        }
    }
    seen.into_iter().map(|(_, tables)| tables)
}

/// What stands in a title for where the runs come from: `simulated`.
const ORIGIN: &str = "{origin}";

/// Returns a title that says where the runs come from.
pub(crate) fn titled(title: &str, runs: &[Run]) -> String {
    title.replace(ORIGIN, &origins(runs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_each_origin_once() {
        let of = |origin| Run { origin, ..Run::default() };
        let runs = [of(Origin::Real), of(Origin::Simulated), of(Origin::Real)];
        assert_eq!(origins(&runs), "simulated and real");
        assert_eq!(origins(&runs[..1]), "real");
    }
}
