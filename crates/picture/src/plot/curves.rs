//! Curves over time.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::colors::{FAINT, GRID, INK, line, ramp};
use super::{Area, Error, FONT, failed, fitted, write};
use crate::opened::Opened;
use crate::series::{self, Series, short};

const PANEL: u32 = 130;
const HEAD: u32 = 24;

/// Returns how far a run was at each sample, in percent: of the time of a recording, of the work of a simulated run.
fn progress(run: &Opened) -> Vec<f64> {
    let last = (run.cells.len() - 1).max(1) as f64;
    (0..run.cells.len()).map(|at| 100.0 * at as f64 / last).collect()
}

/// Draws free memory by order over time as stacked areas, the largest orders at the bottom, a run below the other.
pub(super) fn orders<DB: DrawingBackend>(
    root: &Area<DB>,
    runs: &[Opened],
    scale: i32,
) -> Result<(), Error> {
    let (_, height) = root.dim_in_pixel();
    let (plots, legend) = root.split_vertically(height as i32 - 40 * scale);
    let stacks: Vec<Vec<Vec<f64>>> = runs.iter().map(stack).collect();
    let tops = stacks.iter().filter_map(|stack| stack.last()).flatten();
    let most = tops.copied().fold(1.0, f64::max) * 1.03;
    for ((run, stack), area) in runs.iter().zip(&stacks).zip(plots.split_evenly((runs.len(), 1))) {
        stacked(&area, run, stack, most, scale)?;
    }
    let orders = stacks.iter().map(Vec::len).max().unwrap_or(0);
    write(&legend, "order", (10 * scale, 10 * scale), 12 * scale, FAINT)?;
    for order in 0..orders {
        let x = (60 + 60 * order as i32) * scale;
        let corners = [(x, 10 * scale), (x + 14 * scale, 24 * scale)];
        let swatch = Rectangle::new(corners, ramp(order, orders).filled());
        legend.draw(&swatch).map_err(failed)?;
        write(&legend, &order.to_string(), (x + 18 * scale, 10 * scale), 12 * scale, INK)?;
    }
    Ok(())
}

/// Returns the upper edge of each order's area in MiB, from the largest order on.
fn stack(run: &Opened) -> Vec<Vec<f64>> {
    let free: Vec<Vec<u64>> = (0..run.cells.len()).map(|at| run.free_blocks(at)).collect();
    let orders = free.first().map_or(0, Vec::len);
    let mut edges: Vec<Vec<f64>> = Vec::new();
    for order in (0..orders).rev() {
        let below = edges.last();
        let edge = free.iter().enumerate().map(|(at, blocks)| {
            let mib = (blocks[order] << order) as f64 * 4.0 / 1024.0;
            mib + below.map_or(0.0, |below| below[at])
        });
        edges.push(edge.collect());
    }
    edges
}

fn stacked<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    run: &Opened,
    stack: &[Vec<f64>],
    most: f64,
    scale: i32,
) -> Result<(), Error> {
    let times = progress(run);
    let end = run.history.times_us.last().map_or(0.0, |&us| us as f64 / 1e6);
    let caption = format!("{}: free memory by order [MiB], {end:.1} s", fitted(&run.name, 60));
    let mut chart = ChartBuilder::on(area)
        .caption(caption, (FONT, 14 * scale))
        .margin(6 * scale)
        .x_label_area_size(24 * scale)
        .y_label_area_size(52 * scale)
        .margin_right(24 * scale)
        .build_cartesian_2d(0.0..100.0, 0.0..most)
        .map_err(failed)?;
    mesh(&mut chart, scale)?;
    // From the top down, so that each area covers the rest of the one before.
    for (at, edge) in stack.iter().enumerate().rev() {
        let points = times.iter().copied().zip(edge.iter().copied());
        let color = ramp(stack.len() - 1 - at, stack.len());
        chart.draw_series(AreaSeries::new(points, 0.0, color.filled())).map_err(failed)?;
    }
    Ok(())
}

fn mesh<DB: DrawingBackend>(
    chart: &mut ChartContext<
        '_,
        DB,
        Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>,
    >,
    scale: i32,
) -> Result<(), Error> {
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(FAINT)
        .x_label_formatter(&|share| format!("{} %", short(*share)))
        .y_label_formatter(&|value| short(*value))
        .x_labels(8)
        .y_labels(4)
        .label_style((FONT, 11 * scale).into_font().color(&FAINT))
        .draw()
        .map_err(failed)
}

/// A measure, and the curve of each run that has it.
type Panel = (&'static str, Vec<(usize, Vec<f64>)>);

/// Returns the curves of all runs by measure, in their order.
fn panels(runs: &[Opened]) -> Vec<Panel> {
    let mut panels: Vec<Panel> = Vec::new();
    for (at, run) in runs.iter().enumerate() {
        for Series { title, values } in series::timeline(run) {
            match panels.iter_mut().find(|(known, _)| *known == title) {
                Some((_, curves)) => curves.push((at, values)),
                None => panels.push((title, vec![(at, values)])),
            }
        }
    }
    panels
}

pub(super) fn timeline_size(runs: &[Opened]) -> (u32, u32) {
    (860, 16 + HEAD * runs.len() as u32 + PANEL * panels(runs).len() as u32)
}

/// Draws what the machines did over time: a panel for each measure, a line for each run.
pub(super) fn timeline<DB: DrawingBackend>(
    root: &Area<DB>,
    runs: &[Opened],
    scale: i32,
) -> Result<(), Error> {
    let head = (HEAD as i32) * runs.len() as i32 + 8;
    let (legend, plots) = root.split_vertically(head * scale);
    for (at, run) in runs.iter().enumerate() {
        let y = (10 + HEAD as i32 * at as i32) * scale;
        let stroke = line(at).stroke_width(3 * scale as u32);
        let sample = [(10 * scale, y + 7 * scale), (34 * scale, y + 7 * scale)];
        legend.draw(&PathElement::new(sample, stroke)).map_err(failed)?;
        let end = run.history.times_us.last().map_or(0.0, |&us| us as f64 / 1e6);
        let name = format!("{}, {end:.1} s", fitted(&run.name, 90));
        write(&legend, &name, (42 * scale, y), 14 * scale, INK)?;
    }
    let panels = panels(runs);
    for ((title, curves), area) in panels.iter().zip(plots.split_evenly((panels.len(), 1))) {
        let values = curves.iter().flat_map(|(_, values)| values);
        let most = values.copied().fold(0.0, f64::max);
        let mut chart = ChartBuilder::on(&area)
            .caption(title, (FONT, 12 * scale))
            .margin(4 * scale)
            .x_label_area_size(20 * scale)
            .y_label_area_size(52 * scale)
            .margin_right(24 * scale)
            .build_cartesian_2d(0.0..100.0, 0.0..(most * 1.05).max(1.0))
            .map_err(failed)?;
        mesh(&mut chart, scale)?;
        for (at, values) in curves {
            let points = progress(&runs[*at]).into_iter().zip(values.iter().copied());
            let stroke = line(*at).stroke_width(scale as u32 + 1);
            chart.draw_series(LineSeries::new(points, stroke)).map_err(failed)?;
        }
    }
    Ok(())
}
