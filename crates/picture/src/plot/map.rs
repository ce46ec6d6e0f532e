//! The map of pageblocks at one moment, runs beside each other.

use pageblock_measure::value::history::{Cell, Content};
use plotters::prelude::*;

use super::colors::{FAINT, INK, content, mark};
use super::{Area, Error, failed, fitted, write};
use crate::opened::Opened;

/// The width of a run's map.
const WIDTH: i32 = 400;
const GUTTER: i32 = 44;
const TOP: i32 = 44;
const LEGEND: i32 = 46;
const SPACE: i32 = 20;

/// How the pageblocks of a run lie.
struct Layout {
    columns: u64,
    cell: i32,
    /// The rows with memory.
    rows: Vec<u64>,
    per_gigabyte: u64,
}

impl Layout {
    fn of(run: &Opened) -> Self {
        let per_gigabyte = (1 << 18 >> run.history.pageblock_order).max(1);
        let numbers = || run.present(0).map(|(number, _)| number);
        let blocks = numbers().count() as u64;
        // As large as fits, at most as high as two widths.
        let mut best = (per_gigabyte, 0);
        let mut columns = per_gigabyte;
        while columns >= per_gigabyte.min(16) {
            let cell = ((WIDTH - GUTTER) / columns as i32).clamp(1, 14);
            if cell > best.1 && blocks.div_ceil(columns) as i32 * cell <= 2 * WIDTH {
                best = (columns, cell);
            }
            columns /= 2;
        }
        let (columns, cell) = (best.0, best.1.max(1));
        let mut rows: Vec<u64> = numbers().map(|number| number / columns).collect();
        rows.sort_unstable();
        rows.dedup();
        Self { columns, cell, rows, per_gigabyte }
    }

    fn gigabyte(&self, row: u64) -> u64 {
        row * self.columns / self.per_gigabyte
    }

    /// Returns the top of each row; gigabytes are apart.
    fn tops(&self) -> Vec<(u64, i32)> {
        let (mut y, mut last) = (0, None);
        let top = |&row: &u64| {
            let gigabyte = self.gigabyte(row);
            y += if last.is_some_and(|last| last != gigabyte) { 4.min(self.cell) } else { 0 };
            last = Some(gigabyte);
            let here = y;
            y += self.cell;
            (row, here)
        };
        self.rows.iter().map(top).collect()
    }

    fn height(&self) -> i32 {
        self.tops().last().map_or(0, |(_, y)| y + self.cell)
    }
}

pub(super) fn size(runs: &[Opened]) -> (u32, u32) {
    let height = runs.iter().map(|run| Layout::of(run).height()).max().unwrap_or(0);
    let width = (runs.len() as i32 * (WIDTH + SPACE) + SPACE).max(640);
    (width as u32, (TOP + height + 30 + LEGEND) as u32)
}

pub(super) fn draw<DB: DrawingBackend>(
    root: &Area<DB>,
    runs: &[Opened],
    share: f64,
    scale: i32,
) -> Result<(), Error> {
    let mut bottom = 0;
    for (at, run) in runs.iter().enumerate() {
        let x = SPACE + at as i32 * (WIDTH + SPACE);
        let layout = Layout::of(run);
        let sample = run.at(share);
        let seconds = run.history.times_us[sample] as f64 / 1e6;
        write(root, &fitted(&run.name, 48), (x * scale, 8 * scale), 15 * scale, INK)?;
        let (held, all) = (run.held(sample), counted(run, sample));
        let words =
            format!("at {seconds:.1} s: {held} of {all} blocks hold pages that cannot be moved");
        write(root, &words, (x * scale, 25 * scale), 12 * scale, FAINT)?;
        one(root, run, &layout, sample, (x, TOP), scale)?;
        bottom = bottom.max(TOP + layout.height());
    }
    legend(root, (SPACE, bottom + 16), scale)
}

fn counted(run: &Opened, sample: usize) -> usize {
    run.present(sample).filter(|(_, cell)| cell.content != Content::Reserved).count()
}

fn one<DB: DrawingBackend>(
    root: &Area<DB>,
    run: &Opened,
    layout: &Layout,
    sample: usize,
    (x, y): (i32, i32),
    scale: i32,
) -> Result<(), Error> {
    let tops = layout.tops();
    let mut last = None;
    for &(row, top) in &tops {
        let gigabyte = layout.gigabyte(row);
        if last != Some(gigabyte) {
            let label = format!("{gigabyte} GiB");
            write(root, &label, (x * scale, (y + top) * scale), 10 * scale, FAINT)?;
            last = Some(gigabyte);
        }
    }
    for (number, cell) in run.present(sample) {
        let Ok(row) = tops.binary_search_by_key(&(number / layout.columns), |&(row, _)| row) else {
            continue;
        };
        let left = x + GUTTER + (number % layout.columns) as i32 * layout.cell;
        let pages = 1u64 << run.history.pageblock_order;
        block(root, &cell, (left, y + tops[row].1), layout.cell, pages, scale)?;
    }
    Ok(())
}

/// Draws a pageblock, as the page does.
fn block<DB: DrawingBackend>(
    root: &Area<DB>,
    cell: &Cell,
    (x, y): (i32, i32),
    size: i32,
    pages: u64,
    scale: i32,
) -> Result<(), Error> {
    let gap = i32::from(size >= 5);
    let (left, top) = (x * scale, y * scale);
    let (right, bottom) = ((x + size - gap) * scale, (y + size - gap) * scale);
    let fill = content(cell.content).filled();
    root.draw(&Rectangle::new([(left, top), (right, bottom)], fill)).map_err(failed)?;
    let color = mark(cell.content);
    let reserved = cell.content == Content::Reserved;
    if size >= 6 && (cell.foreign || reserved) {
        let (from, to) = if reserved { (top, bottom) } else { (bottom, top) };
        let line = PathElement::new(vec![(left, from), (right, to)], color.stroke_width(1));
        root.draw(&line).map_err(failed)?;
    }
    if size >= 5 && cell.content == Content::Mixed {
        let share = f64::from(1 + cell.stuck).log2() / ((1 + pages) as f64).log2();
        let radius = f64::from((size - gap) * scale) / 2.0 * (0.2 + 0.75 * share);
        let middle = ((left + right) / 2, (top + bottom) / 2);
        let dot = Circle::new(middle, (radius.round() as i32).max(1), color.filled());
        root.draw(&dot).map_err(failed)?;
    }
    Ok(())
}

fn legend<DB: DrawingBackend>(
    root: &Area<DB>,
    (x, y): (i32, i32),
    scale: i32,
) -> Result<(), Error> {
    let cell = |content, stuck, foreign| Cell { content, stuck, foreign, ..Cell::default() };
    let classes = [
        (Content::Free, "free"),
        (Content::Movable, "movable"),
        (Content::Reclaimable, "reclaimable"),
        (Content::Unmovable, "unmovable"),
        (Content::Reserved, "the kernel's own"),
    ];
    let mut at = x;
    for (class, name) in classes {
        block(root, &cell(class, 0, false), (at, y), 12, 512, scale)?;
        write(root, name, ((at + 16) * scale, y * scale), 11 * scale, INK)?;
        at += 30 + 7 * name.len() as i32;
    }
    let marks = [
        (cell(Content::Mixed, 1, false), "mixed, held by few pages"),
        (cell(Content::Mixed, 400, false), "by many"),
        (cell(Content::Movable, 0, true), "content of another type than the block"),
    ];
    at = x;
    for (cell, name) in marks {
        block(root, &cell, (at, y + 20), 12, 512, scale)?;
        write(root, name, ((at + 16) * scale, (y + 20) * scale), 11 * scale, INK)?;
        at += 30 + 7 * name.len() as i32;
    }
    Ok(())
}
