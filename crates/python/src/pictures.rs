//! Pictures of runs, and their histories as tables.

use std::path::PathBuf;
use std::sync::Arc;

use pageblock_measure::Run;
use pageblock_picture::plot::{Format, PlotKind, Point, draw, points};
use pageblock_picture::{Opened, timeline};
use pageblock_plan::subjects;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arguments;
use crate::error::{Failure, asked};
use crate::run_tables::identified;
use crate::table::Table;
use crate::work::work;

/// A picture, which notebooks show: `svg` is its text, `png()` its pixels, and `save` writes it to a file.
#[pyclass(frozen, module = "pageblock")]
pub(crate) struct Picture {
    kind: PlotKind,
    at: f64,
    of: Arc<(Vec<Opened>, Vec<Point>)>,
    #[pyo3(get)]
    svg: String,
}

impl Picture {
    fn draw(&self, format: Format) -> PyResult<Vec<u8>> {
        let (opened, points) = self.of.as_ref();
        draw(self.kind, format, opened, points, self.at).map_err(|error| asked(error.to_string()))
    }
}

#[pymethods]
impl Picture {
    /// Returns it as PNG.
    fn png<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.draw(Format::Png)?))
    }

    /// Writes it to a file whose name ends with .svg or .png.
    fn save(&self, #[pyo3(from_py_with = arguments::path)] path: PathBuf) -> PyResult<()> {
        let bytes = match path.extension().and_then(|ending| ending.to_str()) {
            Some("svg") => self.svg.clone().into_bytes(),
            Some("png") => self.draw(Format::Png)?,
            _ => {
                return Err(asked(format!(
                    "path {}: allowed: a name that ends with .svg or .png",
                    path.display()
                )));
            }
        };
        pageblock_measure::value::file::save_bytes(&path, &bytes).map_err(crate::error::failed)
    }

    fn _repr_svg_(&self) -> &str {
        &self.svg
    }

    fn __repr__(&self) -> String {
        format!(
            "<pageblock.Picture of {} runs, {} bytes of SVG>",
            self.of.0.len().max(1),
            self.svg.len()
        )
    }
}

/// Returns the histories of runs, and the name of their runs.
fn opened(runs: &[Run]) -> PyResult<Vec<Opened>> {
    let all: Result<Vec<Option<Opened>>, _> =
        runs.iter().map(|run| Opened::of(&subjects::saved(run))).collect();
    let all = all.map_err(|error| asked(error.to_string()))?;
    Ok(all.into_iter().flatten().collect())
}

/// Draws runs: those of one seed, as many kernels as there are.
pub(crate) fn plot(
    py: Python<'_>,
    runs: &Arc<Vec<Run>>,
    kind: &str,
    seed: Option<u64>,
    at: f64,
) -> PyResult<Picture> {
    let kind = match kind {
        "map" => PlotKind::Map,
        "series" => PlotKind::Timeline,
        "orders" => PlotKind::Orders,
        "matrix" => PlotKind::Matrix,
        "frontier" => PlotKind::Frontier,
        _ => {
            return Err(asked(format!(
                "kind '{kind}': allowed: map, series, orders, matrix, frontier"
            )));
        }
    };
    if !(0.0..=1.0).contains(&at) {
        return Err(asked(format!("at {at}: allowed: a share of the run from 0 to 1")));
    }
    let runs = Arc::clone(runs);
    work(py, move |_| {
        let with = runs.iter().find(|run| run.history.is_some()).or(runs.first());
        let seed = seed.or(with.map(|run| run.seed));
        let own = |run: &&Run| kind == PlotKind::Frontier || Some(run.seed) == seed;
        let chosen: Vec<Run> = runs.iter().filter(own).cloned().collect();
        if chosen.is_empty() {
            let words = seed.map_or("there are no runs".to_owned(), |seed| {
                format!("seed {seed}: no run has it")
            });
            return Err(Failure::Python(asked(words)));
        }
        let of = match kind {
            PlotKind::Frontier => (Vec::new(), points(&chosen)),
            _ => (opened(&chosen).map_err(Failure::Python)?, Vec::new()),
        };
        if kind != PlotKind::Frontier && of.0.is_empty() {
            return Err(Failure::Python(asked("no run has its history: run(..., pictures=True)")));
        }
        let bytes = draw(kind, Format::Svg, &of.0, &of.1, at)
            .map_err(|error| Failure::Python(asked(error.to_string())))?;
        let svg = String::from_utf8_lossy(&bytes).into_owned();
        Ok(Picture { kind, at, of: Arc::new(of), svg })
    })
}

/// A row for each run with a history, moment and curve.
pub(crate) fn series_table(runs: &[Run]) -> PyResult<Table> {
    let mut rows = Vec::new();
    for run in runs.iter().filter(|run| run.history.is_some()) {
        for of in opened(std::slice::from_ref(run))? {
            for curve in timeline(&of) {
                let times = of.history.times_us.iter().zip(&curve.values);
                rows.extend(times.map(|(time, value)| (run, curve.title, *time, *value)));
            }
        }
    }
    identified("series", rows.iter().map(|(run, ..)| *run))
        .text("series", rows.iter().map(|(_, title, ..)| Some(title)))
        .counts("time_us", rows.iter().map(|(_, _, time, _)| Some(*time)))
        .floats("value", rows.iter().map(|(.., value)| Some(*value)))
        .table()
}

/// A row for each run with a history, moment, zone and order.
pub(crate) fn history_table(runs: &[Run]) -> PyResult<Table> {
    let mut rows = Vec::new();
    for run in runs {
        let Some(history) = &run.history else { continue };
        history.check().map_err(asked)?;
        for zone in &history.zones {
            let name = format!("{}-{}", zone.node, zone.zone);
            for (order, blocks) in zone.free.iter().enumerate() {
                let times = history.times_us.iter().zip(blocks);
                rows.extend(times.map(|(time, blocks)| (run, name.clone(), order, *time, *blocks)));
            }
        }
    }
    identified("history", rows.iter().map(|(run, ..)| *run))
        .counts("time_us", rows.iter().map(|(.., time, _)| Some(*time)))
        .text("zone", rows.iter().map(|(_, zone, ..)| Some(zone)))
        .numbers("page_order", rows.iter().map(|(_, _, order, ..)| Some(*order as i64)))
        .counts("blocks", rows.iter().map(|(.., blocks)| Some(*blocks)))
        .table()
}
