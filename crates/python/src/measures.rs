//! The catalogue of measures.

use pageblock_measure::catalogue::deciding;
use pageblock_measure::catalogue::objectives::OBJECTIVES;
use pageblock_measure::statistics::stats::Direction;
use pyo3::prelude::*;

use crate::table::{Columns, Table};

/// Returns the measures that decide between kernels, a row each: `measure` (its name), `label` (the column of a table of
/// runs), `unit`, `better` (`lower` or `higher`), `defined` (where, or of which counters).
#[pyfunction]
pub(crate) fn measures() -> PyResult<Table> {
    let each = || deciding::measures().iter();
    Columns::default()
        .text("measure", each().map(|measure| Some(&measure.id)))
        .text("label", each().map(|measure| Some(&measure.label)))
        .text("unit", each().map(|measure| Some(measure.unit.name())))
        .text("better", each().map(|measure| Some(better(measure.direction))))
        .text("defined", each().map(|measure| Some(&measure.defined)))
        .table()
}

/// Returns what tuning can look for: name, text, the columns of a table of runs whose sum it is, and whether more is
/// better.
#[pyfunction]
pub(crate) fn objectives() -> Vec<(&'static str, &'static str, Vec<&'static str>, bool)> {
    let columns = |of: &pageblock_measure::catalogue::objectives::Objective| {
        of.measures().map(|measure| &*measure.label).collect()
    };
    OBJECTIVES.iter().map(|of| (of.id, of.label(), columns(of), of.more_is_better())).collect()
}

const fn better(direction: Direction) -> &'static str {
    match direction {
        Direction::Lower => "lower",
        Direction::Higher => "higher",
        Direction::Neither => "neither",
    }
}
