//! Tests of changes over seeds.

use pageblock_measure::statistics::paired as tests;
use pyo3::prelude::*;

use crate::error::asked;

/// Compares the values of the same seeds under two kernels: the median of the ratios, its 95 % interval, and the p of
/// Wilcoxon's exact test.
#[pyfunction]
pub(crate) fn paired(base: Vec<f64>, new: Vec<f64>) -> PyResult<(f64, f64, f64, f64)> {
    let result = tests::compare(&base, &new).map_err(|error| asked(error.to_string()))?;
    let (low, high) = result.interval;
    Ok((result.median_ratio, low, high, result.wilcoxon_p))
}

/// Returns the p of several tests after Holm's correction, in the same order.
#[pyfunction]
pub(crate) fn holm(p: Vec<f64>) -> Vec<f64> {
    tests::holm(&p)
}
