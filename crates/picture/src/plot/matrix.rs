//! Claims, pollutions and steals by types, runs beside each other.

use pageblock::mobility::Migratetype;
use pageblock_measure::Harm;
use pageblock_measure::value::history::FallbackCount;
use plotters::prelude::*;

use super::colors::{FAINT, GRID, INK, line};
use super::{Area, Error, failed, fitted, write};
use crate::opened::Opened;

const CELL: (i32, i32) = (104, 40);
const HEAD: i32 = 92;
const SPACE: i32 = 24;
const TOP: i32 = 50;

const fn width() -> i32 {
    HEAD + 3 * CELL.0 + SPACE
}

const fn height() -> i32 {
    40 + 3 * CELL.1 + SPACE
}

pub(super) fn size(runs: &[Opened]) -> (u32, u32) {
    let width = SPACE + runs.len() as i32 * width();
    (width.max(460) as u32, (TOP + 3 * height()) as u32)
}

pub(super) fn draw<DB: DrawingBackend>(
    root: &Area<DB>,
    runs: &[Opened],
    scale: i32,
) -> Result<(), Error> {
    let words = "pageblocks taken from, and events; rows: the type asked for, columns: the list's";
    write(root, words, (SPACE * scale, 8 * scale), 12 * scale, FAINT)?;
    let counts = |run: &Opened, harm: Harm| -> Vec<FallbackCount> {
        let rows = run.history.fallbacks.iter();
        rows.filter(|row| row.effect == harm.name()).cloned().collect()
    };
    for (at, run) in runs.iter().enumerate() {
        let x = SPACE + at as i32 * width();
        write(root, &fitted(&run.name, 46), (x * scale, 27 * scale), 14 * scale, INK)?;
        for (row, harm) in Harm::ALL.into_iter().enumerate() {
            let most = runs.iter().flat_map(|run| counts(run, harm)).map(|row| row.blocks).max();
            let y = TOP + row as i32 * height();
            one(root, harm, &counts(run, harm), most.unwrap_or(0), (x, y), scale)?;
        }
    }
    Ok(())
}

fn one<DB: DrawingBackend>(
    root: &Area<DB>,
    harm: Harm,
    counts: &[FallbackCount],
    most: u64,
    (x, y): (i32, i32),
    scale: i32,
) -> Result<(), Error> {
    let text = |words: &str, x: i32, y: i32, size: i32, color| {
        write(root, words, (x * scale, y * scale), size * scale, color)
    };
    text(harm.name(), x, y, 13, INK)?;
    for (at, from) in Migratetype::REQUESTABLE.into_iter().enumerate() {
        text(from.name(), x + HEAD + at as i32 * CELL.0 + 4, y + 20, 11, FAINT)?;
    }
    for (row, requested) in Migratetype::REQUESTABLE.into_iter().enumerate() {
        let top = y + 36 + row as i32 * CELL.1;
        text(requested.name(), x, top + 12, 11, FAINT)?;
        for (column, from) in Migratetype::REQUESTABLE.into_iter().enumerate() {
            let left = x + HEAD + column as i32 * CELL.0;
            let found = counts.iter().find(|c| c.requested == requested && c.from == from);
            let share = found.map_or(0.0, |found| {
                0.15 + 0.6 * ((1 + found.blocks) as f64).log2() / ((1 + most) as f64).log2()
            });
            let corners = [
                (left * scale, top * scale),
                ((left + CELL.0 - 2) * scale, (top + CELL.1 - 2) * scale),
            ];
            root.draw(&Rectangle::new(corners, line(1).mix(share).filled())).map_err(failed)?;
            root.draw(&Rectangle::new(corners, GRID.stroke_width(1))).map_err(failed)?;
            if requested == from {
                continue;
            }
            let (blocks, events) = found.map_or((0, 0), |found| (found.blocks, found.events));
            text(&blocks.to_string(), left + 8, top + 5, 13, INK)?;
            if events > 0 {
                let plural = if events == 1 { "" } else { "s" };
                text(&format!("{events} event{plural}"), left + 8, top + 22, 10, INK)?;
            }
        }
    }
    Ok(())
}
