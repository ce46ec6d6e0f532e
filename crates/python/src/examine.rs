//! What operators ask: why an allocation failed, how a machine is, what compaction could give; and the page of pictures.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pageblock_doctor::Explanation;
use pageblock_doctor::checkup::checkup;
use pageblock_doctor::flight::When;
use pageblock_doctor::group::grouped;
use pageblock_picture::page::Page;
use pageblock_plan::doctor::{DoctorRequest, interval as parse_interval, samples};
use pageblock_plan::subjects::{self, Sources};
use pageblock_plan::watch::Watch;
use pageblock_plan::{log, recording};
use pageblock_report::json::to_json;
use pageblock_report::{
    checkup as print_checkup, explain as print_explain, forecast as print_forecast,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use serde_json::Value;

use crate::arguments;
use crate::error::{Failure, asked, failed};
use crate::kernel::KernelArguments;
use crate::report::Report;
use crate::table::Columns;
use crate::work::{watcher, work};

/// Explains the reports in a kernel's log: failed allocations, stalls, OOM kills, as `pageblock explain` does.
///
/// `log` is the path of a file; or the log itself: bytes, or text with a line feed. The table has a row for each report:
/// `line` of the log, `kind`, `task`, `page_order`, `class` (why it failed; docs/explain.md), `confidence`, `helps` (the first
/// advice). It is empty where the log has no report.
#[pyfunction]
#[pyo3(signature = (log, /))]
pub(crate) fn explain(py: Python<'_>, log: &Bound<'_, PyAny>) -> PyResult<Report> {
    let text = log.cast::<PyString>().ok().map(ToString::to_string);
    let given = match (text, log.cast::<PyBytes>()) {
        (Some(text), _) if text.contains('\n') => Ok(text.into_bytes()),
        (_, Ok(bytes)) => Ok(bytes.as_bytes().to_vec()),
        _ => Err(arguments::log(log)?),
    };
    let (found, lines) = work(py, move |_| {
        let explained = match given {
            Ok(bytes) => log::explain_bytes(&bytes)?,
            Err(path) => log::explain(&path)?,
        };
        Ok((explained.found, explained.lines))
    })?;
    explained(py, &found, lines)
}

fn explained(py: Python<'_>, found: &[Explanation], lines: usize) -> PyResult<Report> {
    let rows = rows(&to_json(found))?;
    let text = |path: &'static str| rows.iter().map(move |row| words(row, path));
    let number = |path: &'static str| rows.iter().map(move |row| row.pointer(path)?.as_i64());
    let table = Columns::of("explanations")
        .numbers("line", number("/report/line"))
        .text("kind", text("/report/kind"))
        .text("task", text("/report/task"))
        .numbers("page_order", number("/report/order"))
        .text("class", text("/class"))
        .text("confidence", text("/confidence"))
        .text("helps", text("/helps/0/what"))
        .table()?;
    Report::new(py, print_explain::print(found, lines), to_json(&grouped(found)), table)
}

/// Examines a machine from its /proc and /sys, as `pageblock doctor` does; nothing is changed.
///
/// `root` is a copied tree instead of this machine, and `later` the same tree copied later, for rates; `interval` is the time
/// between two samples of this machine in seconds (5; 0 takes one sample and gives no rates); `flight` is a flight file, which
/// is examined between `start` and `end` (`"2026-11-23T18:40:00Z"`, `"-10m"`). The table has a row for each finding, the worst
/// first: `name`, `severity` (`notice`, `warning`, `critical`), `confidence`, `symptom`, `cause`, `command`.
#[pyfunction]
#[pyo3(signature = (root = None, *, later = None, interval = 5.0, flight = None, start = None, end = None,
                    details = false))]
#[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
pub(crate) fn doctor(
    py: Python<'_>,
    #[pyo3(from_py_with = arguments::root)] root: Option<PathBuf>,
    #[pyo3(from_py_with = arguments::later)] later: Option<PathBuf>,
    #[pyo3(from_py_with = arguments::interval)] interval: f64,
    #[pyo3(from_py_with = arguments::flight)] flight: Option<PathBuf>,
    #[pyo3(from_py_with = arguments::start)] start: Option<String>,
    #[pyo3(from_py_with = arguments::end)] end: Option<String>,
    #[pyo3(from_py_with = arguments::details)] details: bool,
) -> PyResult<Report> {
    let when = |text: Option<&str>| text.map(When::new).transpose().map_err(asked);
    let request = DoctorRequest {
        root,
        later,
        interval: parse_interval(&interval.to_string()).map_err(asked)?,
        flight,
        from: when(start.as_deref())?,
        to: when(end.as_deref())?,
    };
    let found = work(py, move |quiet| {
        let taken = samples(&request, &|time| wait(quiet.as_ref(), time))?;
        let Some((first, second)) = taken else {
            return Err(Failure::Python(asked("stopped")));
        };
        Ok(checkup(&first, second.as_ref()))
    })?;
    let json = to_json(&found);
    let findings = rows(&json)?;
    let text = |path: &'static str| findings.iter().map(move |row| words(row, path));
    let table = Columns::of("findings")
        .text("name", text("/name"))
        .text("severity", text("/severity"))
        .text("confidence", text("/confidence"))
        .text("symptom", text("/symptom"))
        .text("cause", text("/cause"))
        .text("command", text("/commands/0/run"))
        .table()?;
    Report::new(py, print_checkup::print(&found, details), json, table)
}

/// Waits; returns whether it was stopped.
#[expect(clippy::disallowed_methods, reason = "two samples of a machine are some time apart")]
fn wait(watch: &dyn Watch, time: Duration) -> bool {
    let end = Instant::now() + time;
    while !watch.stopped() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        std::thread::sleep(left.min(Duration::from_millis(20)));
    }
    true
}

/// Says how many large blocks compaction could make, as `pageblock forecast` does: of this machine (which needs root), or of
/// a copied tree.
///
/// The table has a row for each order, of all zones: `page_order`, `blocks` (aligned and without a hole), `free`, `at_least` and
/// `at_most` (blocks after compaction), `held` (those with a page that does not move).
#[pyfunction]
#[pyo3(signature = (root = None))]
pub(crate) fn forecast(
    py: Python<'_>,
    #[pyo3(from_py_with = arguments::root)] root: Option<PathBuf>,
) -> PyResult<Report> {
    let root = root.unwrap_or_else(|| PathBuf::from("/"));
    let made = work(py, move |quiet| {
        let quiet = Arc::clone(quiet);
        Ok(pageblock_doctor::forecast::forecast(&root, &|_| {}, &move |_| quiet.stopped())?)
    })?;
    let json = to_json(&made);
    let of: Value = serde_json::from_str(&json).map_err(|error| asked(error.to_string()))?;
    let orders = of["orders"].as_array().cloned().unwrap_or_default();
    let count = |key: &'static str| orders.iter().map(move |row| row[key].as_u64());
    let table = Columns::of("forecast")
        .counts("page_order", count("order"))
        .counts("blocks", count("blocks"))
        .counts("free", count("free"))
        .counts("at_least", count("at_least"))
        .counts("at_most", count("at_most"))
        .counts("held", count("held"))
        .table()?;
    Report::new(py, print_forecast::print(&made), json, table)
}

/// Draws runs and recordings on one page, as `pageblock report` does, and returns the path of the page.
///
/// `sources` are files of saved runs (made with `pictures=True`) and recordings, which are replayed under `kernels` too; of
/// runs with several seeds `seed` is drawn, by default the first.
#[pyfunction]
#[pyo3(signature = (sources, out, *, kernels = None, seed = None, kernel = None, proc = None))]
pub(crate) fn report(
    py: Python<'_>,
    #[pyo3(from_py_with = arguments::sources)] sources: Vec<PathBuf>,
    #[pyo3(from_py_with = arguments::page)] out: PathBuf,
    #[pyo3(from_py_with = arguments::some_kernels)] kernels: Option<KernelArguments<'_>>,
    #[pyo3(from_py_with = arguments::seed)] seed: Option<u64>,
    #[pyo3(from_py_with = arguments::version)] kernel: Option<String>,
    #[pyo3(from_py_with = arguments::proc)] proc: Option<PathBuf>,
) -> PyResult<PathBuf> {
    let policies = kernels.map(|kernels| kernels.policies()).transpose()?.unwrap_or_default();
    let sources = Sources {
        sources,
        policies,
        seed,
        capture: recording::capture(kernel.as_deref(), proc).map_err(failed)?,
    };
    work(py, move |quiet| {
        pageblock_measure::value::file::can_save(&out)?;
        let pictured = subjects::load(&sources, true, &watcher(quiet))?;
        if quiet.stopped() {
            return Err(Failure::Python(asked("stopped")));
        }
        let page = Page {
            title: pictured.title,
            command: command(&sources.sources, &out),
            subjects: pictured.subjects,
            comparisons: pictured.comparisons,
            holders: pictured.holders,
            bisections: Vec::new(),
        };
        pageblock_measure::value::file::save_bytes(&out, page.html().as_bytes())?;
        Ok(out)
    })
}

/// Returns the program's command for a page.
fn command(sources: &[PathBuf], out: &Path) -> String {
    let quoted = |path: &Path| subjects::quoted(&path.display().to_string());
    let sources: Vec<String> = sources.iter().map(|path| quoted(path)).collect();
    format!("pageblock report {} -o {}", sources.join(" "), quoted(out))
}

/// Returns the rows of a JSON list, or of the list `findings` of an object.
fn rows(json: &str) -> PyResult<Vec<Value>> {
    let value: Value = serde_json::from_str(json).map_err(|error| asked(error.to_string()))?;
    let list = value.get("findings").unwrap_or(&value);
    Ok(list.as_array().cloned().unwrap_or_default())
}

fn words(row: &Value, path: &str) -> Option<String> {
    match row.pointer(path)? {
        Value::String(text) => Some(text.clone()),
        Value::Null => None,
        other => Some(other.to_string()),
    }
}
