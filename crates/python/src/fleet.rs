//! Fleets: the machines that were found, one examination, and the table, for whoever runs them.

use std::path::PathBuf;

use pageblock_doctor::fleet::Row;
use pageblock_plan::fleet::{self, Host};
use pageblock_report::fleet::print;
use pageblock_report::json::to_json;
use pyo3::prelude::*;

use crate::error::{asked, failed};
use crate::report::Report;
use crate::table::Table;
use crate::work::work;

/// Returns the machines below paths, each as JSON.
#[pyfunction]
pub(crate) fn fleet_hosts(py: Python<'_>, paths: Vec<PathBuf>) -> PyResult<Vec<String>> {
    let hosts = work(py, move |_| Ok(fleet::hosts(&paths)?))?;
    let text = |host: &Host| serde_json::to_string(host).map_err(|error| asked(error.to_string()));
    hosts.iter().map(text).collect()
}

/// Examines one machine, from JSON to JSON: what a worker calls.
#[pyfunction]
pub(crate) fn fleet_run(py: Python<'_>, host: &str) -> PyResult<String> {
    let host: Host = serde_json::from_str(host).map_err(|error| asked(error.to_string()))?;
    let row = work(py, move |_| Ok(host.examine()))?;
    serde_json::to_string(&row).map_err(|error| asked(error.to_string()))
}

/// Returns the summary of rows on one screen, with their table.
#[pyfunction]
pub(crate) fn fleet_report(py: Python<'_>, rows: Vec<String>) -> PyResult<Report> {
    let row = |text: &String| serde_json::from_str(text).map_err(|error| asked(error.to_string()));
    let rows: Vec<Row> = rows.iter().map(row).collect::<PyResult<_>>()?;
    let table = Table::of(fleet::batch(&rows).map_err(failed)?);
    Report::new(py, print(&rows), to_json(&rows), table)
}
