//! Huge pages against the work for them: policies that give more for less lie up and to the left.

use std::collections::BTreeMap;

use pageblock_measure::Run;
use pageblock_report::text::in_line;
use plotters::prelude::*;

use super::colors::{FAINT, GRID, INK, line};
use super::{Area, Error, FONT, failed, fitted, write};
use crate::series::short;

/// One run.
#[derive(Clone, PartialEq, Debug)]
pub struct Point {
    /// The policy, as it may be shown.
    pub name: String,
    /// The letter that stands for it.
    pub letter: char,
    /// What `huge` is.
    pub huge_name: &'static str,
    /// The share of faults for a huge page that got one, or of free memory in blocks of a pageblock or more, in
    /// percent.
    pub huge: f64,
    /// The pages reclaimed, scanned by compaction, and moved.
    pub work: f64,
}

const ON_FAULT: &str = "huge pages on fault";
const FREE: &str = "free memory in pageblocks or more";

/// The counters of the work for memory.
const WORK: [&str; 5] = [
    "pgsteal_kswapd",
    "pgsteal_direct",
    "compact_migrate_scanned",
    "compact_free_scanned",
    "pgmigrate_success",
];

/// Returns a point for each run that counts the work. Where every run has faults for huge pages, it is their
/// success, else what is free at the end.
#[must_use]
pub fn points(runs: &[Run]) -> Vec<Point> {
    let works = |run: &Run| WORK.iter().any(|name| run.counters.get(name).is_some());
    let runs: Vec<&Run> = runs.iter().filter(|run| works(run)).collect();
    let faults: Option<Vec<f64>> = runs.iter().map(|run| on_fault(run)).collect();
    let (huge_name, huge): (_, Vec<f64>) = match faults {
        Some(faults) => (ON_FAULT, faults),
        None => (FREE, runs.iter().map(|run| free(run)).collect()),
    };
    let mut letters: Vec<&str> = Vec::new();
    let mut found = Vec::new();
    for (run, huge) in runs.iter().zip(huge) {
        let at = letters.iter().position(|name| *name == run.policy).unwrap_or_else(|| {
            letters.push(&run.policy);
            letters.len() - 1
        });
        let letter = char::from(b'A' + (at % 26) as u8);
        let work = WORK.iter().filter_map(|name| run.counters.get(name)).sum::<u64>() as f64;
        found.push(Point { name: in_line(&run.policy), letter, huge_name, huge, work });
    }
    found
}

fn on_fault(run: &Run) -> Option<f64> {
    let count = |name| run.counters.get(name).unwrap_or(0) as f64;
    let (got, not) = (count("thp_fault_alloc"), count("thp_fault_fallback"));
    (got + not > 0.0).then(|| 100.0 * got / (got + not))
}

fn free(run: &Run) -> f64 {
    let order = usize::from(run.pageblock_order());
    let (mut all, mut large) = (0.0, 0.0);
    for blocks in run.free_blocks.values() {
        for (at, &count) in blocks.iter().enumerate() {
            let pages = count as f64 * (1u64 << at.min(63)) as f64;
            all += pages;
            large += if at >= order { pages } else { 0.0 };
        }
    }
    if all > 0.0 { 100.0 * large / all } else { 0.0 }
}

/// Returns the letters with their policies.
pub(super) fn names(points: &[Point]) -> BTreeMap<char, &str> {
    points.iter().map(|point| (point.letter, point.name.as_str())).collect()
}

pub(super) fn draw<DB: DrawingBackend>(
    root: &Area<DB>,
    points: &[Point],
    scale: i32,
) -> Result<(), Error> {
    let names = names(points);
    let (_, height) = root.dim_in_pixel();
    let (plot, legend) =
        root.split_vertically(height as i32 - (22 * names.len() as i32 + 16) * scale);
    let most = points.iter().map(|point| point.work).fold(1.0, f64::max) * 1.05;
    let title = points.first().map_or("", |point| point.huge_name);
    let mut chart = ChartBuilder::on(&plot)
        .caption(format!("{title} [%] against the work for memory [pages]"), (FONT, 14 * scale))
        .margin(8 * scale)
        .x_label_area_size(40 * scale)
        .y_label_area_size(48 * scale)
        .build_cartesian_2d(0.0..most, 0.0..100.0)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(FAINT)
        .x_desc("pages reclaimed, scanned by compaction and moved: less is better")
        .x_label_formatter(&|value| short(*value))
        .y_label_formatter(&|value| short(*value))
        .label_style((FONT, 11 * scale).into_font().color(&FAINT))
        .draw()
        .map_err(failed)?;
    let at = |letter: char| (letter as usize).saturating_sub('A' as usize);
    for point in points {
        let place = (point.work, point.huge.clamp(0.0, 100.0));
        let dot = Circle::new(place, 4 * scale, line(at(point.letter)).mix(0.55).filled());
        chart.draw_series(std::iter::once(dot)).map_err(failed)?;
        let style = (FONT, 11 * scale).into_font().color(&INK);
        let label = EmptyElement::at(place)
            + Text::new(point.letter.to_string(), (6 * scale, -6 * scale), style);
        chart.draw_series(std::iter::once(label)).map_err(failed)?;
    }
    for (row, (letter, name)) in names.into_iter().enumerate() {
        let y = (4 + 22 * row as i32) * scale;
        let dot = Circle::new((20 * scale, y + 8 * scale), 5 * scale, line(at(letter)).filled());
        legend.draw(&dot).map_err(failed)?;
        let text = format!("{letter} {}", fitted(name, 100));
        write(&legend, &text, (34 * scale, y), 13 * scale, INK)?;
    }
    Ok(())
}
