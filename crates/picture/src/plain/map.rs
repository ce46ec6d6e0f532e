//! The map of pageblocks as text: a character a pageblock.

use pageblock_measure::value::history::{Cell, Content};

use super::time;
use crate::opened::Opened;

/// The pageblocks of a line.
const COLUMNS: usize = 64;
/// The most lines; where a machine has more pageblocks, a character stands for several.
const LINES: usize = 64;

pub(super) fn text(run: &Opened, share: f64) -> String {
    let sample = run.at(share);
    let cells: Vec<(u64, Cell)> = run.present(sample).collect();
    let each = cells.len().div_ceil(COLUMNS * LINES).next_power_of_two();
    let mut text = format!("pageblocks at {}", time(run.history.times_us[sample]));
    text += &match each {
        1 => "; a line begins at its physical address in MiB\n".to_owned(),
        _ => format!("; a character is {each} of them, the worst shown\n"),
    };
    let per_line = (COLUMNS * each) as u64;
    let mut line: Option<(u64, Vec<char>)> = None;
    for group in by_place(&cells, each as u64) {
        let (place, character) = group;
        let (row, column) = (place / per_line, (place % per_line) as usize / each);
        if line.as_ref().is_none_or(|(at, _)| *at != row) {
            text += &line.take().map(|line| printed(run, line, per_line)).unwrap_or_default();
            line = Some((row, vec![' '; COLUMNS]));
        }
        if let Some((_, characters)) = &mut line {
            characters[column] = character;
        }
    }
    text += &line.map(|line| printed(run, line, per_line)).unwrap_or_default();
    text + LEGEND
}

const LEGEND: &str = "\
. free  m movable  r reclaimable  U unmovable  # the kernel's own
0 to 9: movable pages beside 2^n pages or more that cannot be moved
";

fn printed(run: &Opened, (row, characters): (u64, Vec<char>), per_line: u64) -> String {
    let mib = ((row * per_line) << run.history.pageblock_order) / 256;
    let line: String = characters.into_iter().collect();
    format!("{mib:>7} {}\n", line.trim_end())
}

/// Returns the worst pageblock of each group of neighbours, with the number of the group's first.
fn by_place(cells: &[(u64, Cell)], each: u64) -> Vec<(u64, char)> {
    let mut groups: Vec<(u64, Cell)> = Vec::new();
    for (place, cell) in cells {
        let first = place / each * each;
        match groups.last_mut() {
            Some((at, worst)) if *at == first => {
                if badness(cell) > badness(worst) {
                    *worst = *cell;
                }
            }
            _ => groups.push((first, *cell)),
        }
    }
    groups.into_iter().map(|(place, cell)| (place, character(&cell))).collect()
}

fn badness(cell: &Cell) -> (u8, u16) {
    let class = match cell.content {
        Content::Hole => 0,
        Content::Reserved => 1,
        Content::Free => 2,
        Content::Movable => 3,
        Content::Reclaimable => 4,
        Content::Unmovable => 5,
        Content::Mixed => 6,
    };
    (class, cell.stuck)
}

/// Returns the letter of a pageblock; of a mixed one, a digit: the power of two of the pages that cannot be moved.
#[must_use]
pub fn character(cell: &Cell) -> char {
    match cell.content {
        Content::Hole => ' ',
        Content::Free => '.',
        Content::Movable => 'm',
        Content::Reclaimable => 'r',
        Content::Unmovable => 'U',
        Content::Reserved => '#',
        Content::Mixed => {
            let power = cell.stuck.max(1).ilog2().min(9);
            char::from(b'0' + power as u8)
        }
    }
}
