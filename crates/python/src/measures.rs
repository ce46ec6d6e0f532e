//! The catalogue of measures.

use pageblock_measure::catalogue::deciding;
use pageblock_measure::catalogue::objectives as known;
use pageblock_plan::sweep::columns::better;
use pyo3::prelude::*;

use crate::table::{Columns, Table};

/// Returns the measures that decide between kernels, a row each: `measure` (its name), `column_name` (its name in a table of runs),
/// `label` (what is printed), `unit`, `better` (`lower` or `higher`), `defined` (where it is, or its counters).
#[pyfunction]
pub(crate) fn measures() -> PyResult<Table> {
    let each = || deciding::measures().iter();
    Columns::of("measures")
        .text("measure", each().map(|measure| Some(&measure.id)))
        .text("column_name", each().map(|measure| Some(measure.column())))
        .text("label", each().map(|measure| Some(&measure.label)))
        .text("unit", each().map(|measure| Some(measure.unit.name())))
        .text("better", each().map(|measure| Some(better(measure.direction))))
        .text("defined", each().map(|measure| Some(&measure.defined)))
        .table()
}

/// What tuning can look for: name, text, the columns of a table of runs whose sum it is, whether more is better, what was counted for it
/// in words, and the columns of these counts.
type Objective = (&'static str, &'static str, Vec<String>, bool, &'static str, Vec<String>);

/// Returns what tuning can look for.
#[pyfunction]
pub(crate) fn objectives() -> Vec<Objective> {
    let columns = |of: &known::Objective| {
        of.measures().map(pageblock_measure::catalogue::Measure::column).collect()
    };
    let counted = |of: &known::Objective| match of.counters {
        [] if of.events.is_empty() => Vec::new(),
        [] => columns(of),
        counters => counters.iter().map(|name| (*name).to_owned()).collect(),
    };
    let one = |of: &known::Objective| {
        (of.id, of.label(), columns(of), of.more_is_better(), of.events, counted(of))
    };
    known::OBJECTIVES.iter().map(one).collect()
}
