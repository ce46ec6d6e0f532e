//! Bisections, in parts: the kernels, which of them stand for themselves, and the answer. `pageblock.bisect` runs them.

use std::path::PathBuf;

use pageblock_measure::catalogue::deciding;
use pageblock_measure::compare::bisect::{Answer, Bisection, StepEffect};
use pageblock_plan::NamedPolicy;
use pageblock_plan::bisect::{Asked, Draw, Kernels, Measured, answer, of_recording, same_as};
use pageblock_report::bisect::print;
use pageblock_report::json::to_json;
use pyo3::prelude::*;

use crate::arguments;
use crate::error::{asked, failed};
use crate::report::Report;
use crate::sweep::loads;
use crate::table::{Columns, Table};
use crate::work::{Look, watcher, work_watched};
use crate::workload::Workload;

/// The kernels of a bisection as JSON, their texts, and the label and the column of each measure.
type Plan = (String, Vec<String>, Vec<(String, String)>);

/// Returns the kernels of a bisection as JSON, their texts, and the label and the column of each measure.
#[pyfunction]
pub(crate) fn bisect_kernels(
    py: Python<'_>,
    workload: (String, Option<Bound<'_, Workload>>),
    kernels: (Bound<'_, PyAny>, Bound<'_, PyAny>),
    machine: Option<String>,
    scale: String,
    measures: Vec<String>,
) -> PyResult<Plan> {
    let (workload, own) = workload;
    let (loads, _) = loads(py, own.as_slice())?;
    let of =
        Asked { workload, loads, machine, scale, seeds: 2, first_seed: 1, jobs: None, measures };
    let (from, to) = (kernel("a", &kernels.0)?, kernel("b", &kernels.1)?);
    let kernels = of.kernels(&from, &to).map_err(failed)?;
    let measures = of.measures(&kernels).map_err(failed)?;
    let named = measures.iter().map(|of| (of.label.clone().into_owned(), of.column())).collect();
    Ok((to_json(&kernels), kernels.texts, named))
}

/// Returns the kernels that stand for themselves, by the draws of all.
#[pyfunction]
pub(crate) fn bisect_left(kernels: &str, draws: &str) -> PyResult<Vec<usize>> {
    let same = same_as(&parse_kernels(kernels)?, &parse_draws(draws)?);
    Ok((0..same.len()).filter(|&kernel| same[kernel] == kernel).collect())
}

/// Returns the answer of a bisection of simulations. The first `draws` are those of all kernels, the second ones further draws
/// of the kernels that stand for themselves.
#[pyfunction]
pub(crate) fn bisect_answer(
    py: Python<'_>,
    subject: String,
    kernels: &str,
    draws: (String, String),
    labels: Vec<String>,
    seeds: usize,
) -> PyResult<Report> {
    let kernels = parse_kernels(kernels)?;
    let (mut draws, further): (Vec<Draw>, Vec<Draw>) =
        (parse_draws(&draws.0)?, parse_draws(&draws.1)?);
    let measured: Vec<Measured> =
        labels.into_iter().map(|name| Measured { name, limit: None }).collect();
    let same = same_as(&kernels, &draws);
    draws.extend(further);
    let made = (draws.len(), (seeds, "seed"));
    reported(py, &answer(subject, &kernels, &same, &draws, &measured, made))
}

/// Returns how many kernels there are between two, with both, where nothing sets them up.
#[pyfunction]
pub(crate) fn bisect_count(kernels: (Bound<'_, PyAny>, Bound<'_, PyAny>)) -> PyResult<usize> {
    let (from, to) = (kernel("a", &kernels.0)?, kernel("b", &kernels.1)?);
    let between = Kernels::between(&from.kernel, &to.kernel, |named| Ok(named.kernel));
    Ok(between.map_err(failed)?.texts.len())
}

/// Replays a recording under the kernels between two; tells the bar of each replay, and looks at the event.
#[pyfunction]
#[pyo3(signature = (path, kernels, measures, seeds, look = (None, None)))]
pub(crate) fn bisect_recording<'py>(
    py: Python<'py>,
    path: PathBuf,
    kernels: (Bound<'py, PyAny>, Bound<'py, PyAny>),
    measures: Vec<String>,
    seeds: u64,
    look: (Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>),
) -> PyResult<Report> {
    let (from, to) = (kernel("a", &kernels.0)?, kernel("b", &kernels.1)?);
    let answer = work_watched(py, &Look::part(look.0, look.1), move |quiet| {
        Ok(of_recording(&path, (&from, &to), &measures, seeds, &watcher(quiet))?)
    })?;
    reported(py, &answer.ok_or_else(|| asked("stopped"))?)
}

fn kernel(name: &str, given: &Bound<'_, PyAny>) -> PyResult<NamedPolicy> {
    Ok(arguments::kernel_of(name, given)?.get()?.policy)
}

fn parse_kernels(json: &str) -> PyResult<Kernels> {
    serde_json::from_str(json).map_err(|error| asked(error.to_string()))
}

fn parse_draws(json: &str) -> PyResult<Vec<Draw>> {
    serde_json::from_str(json).map_err(|error| asked(error.to_string()))
}

fn reported(py: Python<'_>, answer: &Answer) -> PyResult<Report> {
    Report::new(py, print(answer), to_json(answer), table(&answer.measures)?)
}

/// Returns the name of a measure in `measures()`.
fn name_of(label: &str) -> String {
    let found = deciding::measures().iter().find(|of| of.full_label() == label);
    found.map_or(label, |of| of.id.as_ref()).to_owned()
}

/// Returns a row for each measure and switch.
fn table(measures: &[Bisection]) -> PyResult<Table> {
    let rows: Vec<(&Bisection, &StepEffect)> =
        measures.iter().flat_map(|of| of.steps.iter().map(move |step| (of, step))).collect();
    let each = || rows.iter().copied();
    let interval = |step: &StepEffect| step.added.interval;
    Columns::of("bisection")
        .text("measure", each().map(|(of, _)| Some(name_of(&of.measure))))
        .text("label", each().map(|(of, _)| Some(&of.measure)))
        .text("switch", each().map(|(_, step)| Some(&step.step.change)))
        .text("since", each().map(|(_, step)| step.step.since.as_ref()))
        .floats("base", each().map(|(of, _)| Some(of.means.0)))
        .floats("added", each().map(|(_, step)| Some(step.added.difference)))
        .floats("low", each().map(|(_, step)| Some(interval(step)?.0)))
        .floats("high", each().map(|(_, step)| Some(interval(step)?.1)))
        .floats("p", each().map(|(_, step)| step.added.p))
        .floats("alone", each().map(|(_, step)| Some(step.alone?.difference)))
        .floats("lost_without", each().map(|(_, step)| Some(step.lost_without?.difference)))
        .flags("decided", each().map(|(_, step)| Some(step.is_decided)))
        .flags("inert", each().map(|(_, step)| Some(step.is_inert)))
        .flags("interacts", each().map(|(_, step)| Some(step.interacts)))
        .table()
}
