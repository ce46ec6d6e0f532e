//! Tests of changes over seeds.

use pageblock_measure::compare::verdict::LEVEL;
use pageblock_measure::statistics::{multiple, rank_sum};
use pyo3::prelude::*;

use crate::error::asked;

/// Compares the values of seeds under two kernels, which are not paired: the median of the ratios of all pairs, its 95 %
/// interval (0 to infinity where so few seeds have none), and the p of the rank-sum test.
#[pyfunction]
pub(crate) fn unpaired(base: Vec<f64>, new: Vec<f64>) -> PyResult<(f64, f64, f64, f64)> {
    let change = rank_sum::compare(&base, &new, LEVEL);
    let change = change.ok_or_else(|| asked("no values: each side needs one seed or more"))?;
    let (low, high) = change.interval.unwrap_or((0.0, f64::INFINITY));
    Ok((change.ratio, low, high, change.p))
}

/// Returns the p of several tests after Holm's correction, in the same order.
#[pyfunction]
pub(crate) fn holm(p: Vec<f64>) -> Vec<f64> {
    multiple::holm(&p)
}
