//! The tables of runs.

use pageblock_measure::Run;
use pageblock_measure::catalogue::deciding;
use pageblock_measure::compare::summary::Summary;
use pageblock_measure::compare::verdict::Judged;
use pyo3::prelude::*;

use crate::table::{Columns, Table};

/// A row a run: what it is, and the measures that decide.
pub(crate) fn wide(runs: &[Run]) -> PyResult<Table> {
    let text = |get: fn(&Run) -> &str| runs.iter().map(move |run| Some(get(run)));
    let mut columns = Columns::default()
        .text("kernel", text(|run| &run.policy))
        .text("workload", text(|run| &run.workload))
        .text("machine", text(|run| &run.machine))
        .counts("seed", runs.iter().map(|run| Some(run.seed)))
        .text("event_hash", text(|run| &run.event_hash))
        .text("ended", runs.iter().map(|run| run.ended.as_ref().map(ToString::to_string)));
    for measure in deciding::measures() {
        columns = columns.floats(&measure.label, runs.iter().map(|run| measure.number(run)));
    }
    columns.table()
}

/// A row for each run and counter.
pub(crate) fn counters(runs: &[Run]) -> PyResult<Table> {
    let rows: Vec<_> = runs
        .iter()
        .flat_map(|run| run.counters.iter().map(move |(name, count)| (run, name, count)))
        .collect();
    identified(rows.iter().map(|(run, ..)| *run))
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
    identified(rows.iter().map(|(run, ..)| *run))
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
    identified(rows.iter().map(|(run, ..)| *run))
        .text("zone", rows.iter().map(|(_, zone, ..)| Some(zone)))
        .numbers("order", rows.iter().map(|(_, _, order, ..)| Some(*order)))
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
    identified(each().map(|(run, ..)| *run))
        .text("requested", each().map(|(_, key, _)| Some(key.alloc_mt.name())))
        .text("taken_from", each().map(|(_, key, _)| Some(key.fallback_mt.name())))
        .numbers("requested_order", each().map(|(_, key, _)| Some(key.alloc_order.into())))
        .numbers("taken_order", each().map(|(_, key, _)| Some(key.fallback_order.into())))
        .flags("change_ownership", each().map(|(_, key, _)| Some(key.owned)))
        .counts("count", each().map(|(.., count)| Some(*count)))
        .table()
}

/// A row for each measure and kernel.
pub(crate) fn summary(of: &Summary) -> PyResult<Table> {
    let rows: Vec<_> = of
        .measures
        .iter()
        .flat_map(|measure| {
            measure
                .cells
                .iter()
                .zip(&of.policies)
                .map(move |(cell, kernel)| (measure, kernel, cell))
        })
        .collect();
    let each = || rows.iter();
    Columns::default()
        .text("measure", each().map(|(measure, ..)| Some(&measure.name)))
        .text("kernel", each().map(|(_, kernel, _)| Some(kernel)))
        .floats("mean", each().map(|(.., cell)| Some(cell.mean)))
        .floats("change", each().map(|(.., cell)| cell.change))
        .floats("low", each().map(|(.., cell)| Some(cell.interval?.0)))
        .floats("high", each().map(|(.., cell)| Some(cell.interval?.1)))
        .floats("p", each().map(|(.., cell)| cell.p))
        .floats("level", each().map(|(.., cell)| cell.level))
        .text("verdict", each().map(|(.., cell)| Some(verdict(cell.verdict))))
        .table()
}

/// The columns that say which run a row is of.
fn identified<'r>(runs: impl Iterator<Item = &'r Run> + Clone) -> Columns {
    Columns::default()
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
