//! The tables of runs.

use pageblock_measure::Run;
use pageblock_measure::certificate::Support;
use pageblock_measure::compare::comparable::parts;
use pageblock_measure::compare::summary::Summary;
use pageblock_measure::compare::verdict::Judged;
use pageblock_plan::sweep::columns::{better, measures_of};
use pyo3::prelude::*;

use crate::table::{Columns, Table};

/// A row a run: what it is, and the measures that decide.
pub(crate) fn wide(runs: &[Run]) -> PyResult<Table> {
    let text = |get: fn(&Run) -> &str| runs.iter().map(move |run| Some(get(run)));
    let mut columns = Columns::of("runs")
        .text("workload", text(|run| &run.workload))
        .text("kernel", text(|run| &run.policy))
        .text("machine", text(|run| parts(&run.machine).0))
        .text("scale", text(|run| parts(&run.machine).1))
        .text("origin", text(|run| run.origin.word()))
        .counts("seed", runs.iter().map(|run| Some(run.seed)))
        .text("event_hash", text(|run| &run.event_hash))
        .text("ended", runs.iter().map(|run| run.ended.as_ref().map(ToString::to_string)));
    for measure in measures_of(runs.iter().filter_map(|run| run.tables.as_ref())) {
        columns = columns.measure(&measure, runs.iter().map(|run| measure.number(run)));
    }
    columns.table()
}

/// A row for each run and counter.
pub(crate) fn counters(runs: &[Run]) -> PyResult<Table> {
    let rows: Vec<_> = runs
        .iter()
        .flat_map(|run| run.counters.iter().map(move |(name, count)| (run, name, count)))
        .collect();
    identified("counters", rows.iter().map(|(run, ..)| *run))
        .text("counter", rows.iter().map(|(_, name, _)| Some(name)))
        .counts("count", rows.iter().map(|(.., count)| Some(*count)))
        .table()
}

/// A row for each sample.
pub(crate) fn samples(runs: &[Run]) -> PyResult<Table> {
    let mut rows = Vec::new();
    for run in runs {
        for (operation, values) in &run.samples {
            let numbered = (0_u64..).zip(values);
            rows.extend(numbered.map(|(number, value)| (run, operation, number, *value)));
        }
    }
    identified("samples", rows.iter().map(|(run, ..)| *run))
        .text("operation", rows.iter().map(|(_, operation, ..)| Some(operation)))
        .counts("number", rows.iter().map(|(_, _, number, _)| Some(*number)))
        .counts("value", rows.iter().map(|(.., value)| Some(*value)))
        .table()
}

/// A row for each run, zone and order.
pub(crate) fn free_blocks(runs: &[Run]) -> PyResult<Table> {
    let mut rows = Vec::new();
    for run in runs {
        for (zone, blocks) in &run.free_blocks {
            let unusable = run.unusable_free_index.get(zone);
            for (order, blocks) in blocks.iter().enumerate() {
                let unusable = unusable.and_then(|by_order| by_order.get(order)).copied();
                rows.push((run, zone, order as i64, *blocks, unusable));
            }
        }
    }
    identified("free_blocks", rows.iter().map(|(run, ..)| *run))
        .text("zone", rows.iter().map(|(_, zone, ..)| Some(zone)))
        .numbers("page_order", rows.iter().map(|(_, _, order, ..)| Some(*order)))
        .counts("blocks", rows.iter().map(|(.., blocks, _)| Some(*blocks)))
        .counts("unusable", rows.iter().map(|(.., unusable)| *unusable))
        .table()
}

/// A row for each run and kind of fallback.
pub(crate) fn fallbacks(runs: &[Run]) -> PyResult<Table> {
    let rows: Vec<_> = runs
        .iter()
        .flat_map(|run| run.extfrag.iter().map(move |(key, count)| (run, key, count)))
        .collect();
    let each = || rows.iter();
    identified("fallbacks", each().map(|(run, ..)| *run))
        .text("requested", each().map(|(_, key, _)| Some(key.alloc_mt.name())))
        .text("taken_from", each().map(|(_, key, _)| Some(key.fallback_mt.name())))
        .numbers("requested_order", each().map(|(_, key, _)| Some(key.alloc_order.into())))
        .numbers("taken_order", each().map(|(_, key, _)| Some(key.fallback_order.into())))
        .flags("change_ownership", each().map(|(_, key, _)| Some(key.owned)))
        .counts("count", each().map(|(.., count)| Some(*count)))
        .table()
}

/// A row for each comparison, measure and kernel; a comparison is of a workload on a machine.
pub(crate) fn summaries(of: &[((String, String), Summary)]) -> PyResult<Table> {
    let mut rows = Vec::new();
    for (place, summary) in of {
        for measure in &summary.measures {
            let each = measure.cells.iter().zip(&summary.policies).zip(&summary.runs);
            rows.extend(
                each.map(|((cell, kernel), runs)| (place, summary, measure, kernel, *runs, cell)),
            );
        }
    }
    let each = || rows.iter();
    let cells = || rows.iter().map(|(.., cell)| *cell);
    let measures = || rows.iter().map(|(_, _, measure, ..)| *measure);
    let margin = |support: Support| Some(support.margin_permyriad()? as f64 / 1e4);
    let grade = |of: &Summary| of.certificate.as_ref()?.grade();
    Columns::of("comparison")
        .text("workload", each().map(|(place, ..)| Some(&place.0)))
        .text("machine", each().map(|(place, ..)| Some(parts(&place.1).0)))
        .text("scale", each().map(|(place, ..)| Some(parts(&place.1).1)))
        .text("measure", measures().map(|measure| Some(&measure.id)))
        .text("column_name", measures().map(|measure| Some(&measure.column)))
        .text("label", measures().map(|measure| Some(&measure.name)))
        .text("unit", measures().map(|measure| Some(measure.unit)))
        .text("direction", measures().map(|measure| Some(better(measure.direction))))
        .flags("is_primary", measures().map(|measure| Some(measure.primary)))
        .text("kernel", each().map(|(_, _, _, kernel, ..)| Some(kernel)))
        .text("baseline", each().map(|(_, of, ..)| Some(&of.policies[of.baseline])))
        .counts("runs", each().map(|(.., runs, _)| Some(*runs as u64)))
        .floats("mean", cells().map(|cell| Some(cell.mean)))
        .floats("least", cells().map(|cell| Some(cell.range.0)))
        .floats("most", cells().map(|cell| Some(cell.range.1)))
        .floats("change", cells().map(|cell| cell.change))
        .floats("low", cells().map(|cell| Some(cell.interval?.0)))
        .floats("high", cells().map(|cell| Some(cell.interval?.1)))
        .floats("p", cells().map(|cell| cell.p))
        .floats("level", cells().map(|cell| cell.level))
        .text("verdict", cells().map(|cell| Some(verdict(cell.verdict))))
        .text("supported", measures().map(|measure| measure.support.map(Support::word)))
        .floats("margin", measures().map(|measure| margin(measure.support?)))
        .floats("least_ratio", cells().map(|cell| cell.least_ratio))
        .text("grade", each().map(|(_, of, ..)| Some(format!("{:?}", grade(of)?))))
        .table()
}

/// Begins a table with the columns that say which run a row is of.
pub(crate) fn identified<'r>(
    table: &'static str,
    runs: impl Iterator<Item = &'r Run> + Clone,
) -> Columns {
    Columns::of(table)
        .text("kernel", runs.clone().map(|run| Some(&run.policy)))
        .counts("seed", runs.map(|run| Some(run.seed)))
}

fn verdict(of: Judged) -> &'static str {
    match of {
        Judged::Open => "open",
        Judged::Identical => "identical",
        Judged::Undecided => "undecided",
        Judged::Unchanged => "unchanged",
        Judged::Better => "better",
        Judged::Worse => "worse",
    }
}
