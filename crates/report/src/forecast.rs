//! How many large blocks compaction could make, as text.

use std::collections::BTreeMap;

use pageblock_doctor::forecast::{Bound, End, Forecast, Held, MapRow, Obtain, Range, Tried};

use crate::table::Table;
use crate::text::cell;

/// How a forecast is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Style {
    /// The columns of the terminal.
    pub width: usize,
    /// Whether cells of the map are coloured.
    pub colors: bool,
    /// Whether the map has a cell for each pageblock.
    pub whole_map: bool,
}

/// The rows of a map that is not whole.
const MAP_ROWS: u64 = 24;
/// Bins of blocks that are printed, and kinds of pages in each.
const KINDS: usize = 3;

/// Prints a forecast without its map.
#[must_use]
pub fn print(of: &Forecast) -> String {
    let mut text = answer(of);
    text.push('\n');
    text += &orders(of);
    text += &held(of);
    text += &notes(of);
    text
}

/// Returns a number with commas.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns the size of a block of an order.
pub(crate) fn size(order: u8, page_kb: u64) -> String {
    match page_kb << order {
        kb if kb >= 1 << 20 => format!("{} GiB", kb >> 20),
        kb if kb >= 1 << 10 => format!("{} MiB", kb >> 10),
        kb => format!("{kb} KiB"),
    }
}

fn answer(of: &Forecast) -> String {
    let (pageblock, gigantic) = (of.pageblock_order, of.gigantic_order);
    let mut text = String::new();
    for (order, held) in [(pageblock, &of.held), (gigantic, &of.held_gigantic)] {
        let Some(range) = of.orders.iter().find(|range| range.order == order) else { continue };
        let Some(obtain) = of.obtain.iter().find(|made| made.order == order) else { continue };
        text += &sentence(range, obtain, held, of);
    }
    text += "  at least: what surely moves does; clean page cache that no process maps is freed. Slab stays in both\n";
    text += "  at most:  all that may move does; all page cache is freed, ";
    text += &match of.swap_free {
        Some(0) => "anonymous memory is not (no swap is free)\n".to_owned(),
        Some(pages) => format!(
            "and {} MiB of anonymous memory, as swap has room for\n",
            grouped(pages * of.page_kb / 1024)
        ),
        None => "and all anonymous memory (how much swap is free is not known)\n".to_owned(),
    };
    text
}

/// Returns how many more blocks there can be.
pub(crate) fn more(bound: Bound) -> String {
    match (bound.at_least, bound.at_most) {
        (_, 0) => "none".to_owned(),
        (least, most) if least == most => format!("{} more", grouped(most)),
        (least, most) => format!("{} to {} more", grouped(least), grouped(most)),
    }
}

fn sentence(range: &Range, obtain: &Obtain, held: &Held, of: &Forecast) -> String {
    let size = size(range.order, of.page_kb);
    let kept = match range.free - obtain.free.min(range.free) {
        0 => String::new(),
        _ => format!(" ({} above the min watermarks)", grouped(obtain.free)),
    };
    let mut text = format!(
        "{size} blocks: {} of {} are free{kept}; compaction: {}; reclaim: {}; both: {}.\n",
        grouped(range.free),
        grouped(range.blocks),
        more(obtain.compaction),
        more(obtain.reclaim),
        more(obtain.together),
    );
    let few = held.up_to(3);
    if held.blocks() > 0 {
        let few = match few {
            0 => String::new(),
            few => format!(", {} of them by 3 pages or fewer", grouped(few)),
        };
        text += &format!(
            "  {} hold a page that does not move, or may not{few}.\n",
            grouped(held.blocks())
        );
    }
    text
}

fn orders(of: &Forecast) -> String {
    let mut table = Table::new().number("order").number("size").number("blocks").number("free");
    table = table.number("after compaction: at least").number("at most").number("never");
    for range in &of.orders {
        table.row([
            range.order.to_string(),
            size(range.order, of.page_kb),
            grouped(range.blocks),
            grouped(range.free),
            grouped(range.at_least),
            grouped(range.at_most),
            grouped(range.held),
        ]);
    }
    table.print()
}

fn held(of: &Forecast) -> String {
    let mut text = String::new();
    for (order, held) in [(of.pageblock_order, &of.held), (of.gigantic_order, &of.held_gigantic)] {
        if held.bins.is_empty() {
            continue;
        }
        let heading = format!("{} blocks", size(order, of.page_kb));
        let mut table = Table::new().number("pages that stay").number(&heading).text("mostly");
        for bin in &held.bins {
            let pages = match bin.from == bin.to {
                true => grouped(bin.from),
                false => format!("{} to {}", grouped(bin.from), grouped(bin.to.min(1 << order))),
            };
            let kinds = bin.pages.iter().filter(|holder| holder.blocks > 0).take(KINDS);
            let kinds: Vec<String> = kinds
                .map(|holder| format!("{} {}", holder.kind.name(), grouped(holder.blocks)))
                .collect();
            table.row([pages, grouped(bin.blocks), kinds.join(", ")]);
        }
        text.push('\n');
        text += &table.print();
    }
    text
}

fn notes(of: &Forecast) -> String {
    let mib = |pages: u64| grouped(pages * of.page_kb / 1024);
    let frames = of.frames.iter().take(8);
    let frames: Vec<String> =
        frames.map(|frames| format!("{} {}", frames.kind.name(), mib(frames.pages))).collect();
    let mut text = format!("\nMemory [MiB]: {}\n", frames.join(", "));
    if of.on_cpu_lists > 0 {
        text += &format!(
            "On per-CPU lists, free: {} MiB, among \"kernel or per-CPU lists\"\n",
            mib(of.on_cpu_lists)
        );
    }
    if !of.slabs.is_empty() {
        let slabs: Vec<String> =
            of.slabs.iter().map(|slab| format!("{} {}", slab.name, mib(slab.pages))).collect();
        text += &format!("Slab caches [MiB]: {}\n", slabs.join(", "));
    }
    match of.pinned {
        Some(0) => text += "Pinned for devices: nothing\n",
        Some(pages) => {
            text += &format!(
                "Pinned for devices: {} pages; each may keep a block that \"at least\" counts\n",
                grouped(pages)
            );
        }
        None => {
            text += "Pinned pages: this kernel does not count them; \"at least\" assumes none\n";
        }
    }
    for missing in &of.missing {
        text += &format!("Missing: {}: {}\n", missing.file, missing.why);
    }
    text
}

/// Prints the map: a cell for each pageblock and a row for each GiB, or fewer of both where the whole map is not wanted.
#[must_use]
pub fn map(of: &Forecast, style: Style) -> String {
    let label = of.map.iter().map(|row| label_of(row).len()).max().unwrap_or(0);
    let columns = style.width.saturating_sub(label + 1).max(16);
    // A power of two, so that columns are the same addresses in each row.
    let columns = 1 << columns.ilog2();
    let cells = 1_usize << (of.gigantic_order - of.pageblock_order);
    let rows = of.map.len() as u64;
    let is_small = rows * (cells as u64).div_ceil(columns as u64) <= MAP_ROWS;
    let whole = style.whole_map || is_small;
    let gib = if whole { 1 } else { rows.div_ceil(MAP_ROWS).next_power_of_two() };
    let each = if whole { 1 } else { (cells * gib as usize).div_ceil(columns).max(1) };
    let unit = size(of.pageblock_order, of.page_kb);
    let mut text = match each {
        1 => format!("\nA cell is a pageblock ({unit}), a row {gib} GiB:\n"),
        n => {
            format!("\nA cell is {n} pageblocks ({unit} each; the most common), a row {gib} GiB:\n")
        }
    };
    text += &legend(style);
    let mut together: Vec<(String, Vec<char>)> = Vec::new();
    let mut last = None;
    for row in &of.map {
        let group = (row.node, &row.zone, row.gib / gib);
        if last != Some(group) {
            together.push((label_of(row), Vec::new()));
            last = Some(group);
        }
        if let Some((_, all)) = together.last_mut() {
            // Rows without memory are left out of the list, not out of the picture.
            let at = (row.gib % gib) as usize * cells;
            all.resize(at.max(all.len()), ' ');
            all.extend(row.cells.chars());
        }
    }
    for (name, all) in together {
        let mut picture: Vec<char> = all.chunks(each).map(most_common).collect();
        let end = picture.iter().rposition(|&cell| cell != ' ').map_or(0, |last| last + 1);
        picture.truncate(end);
        for (n, line) in picture.chunks(columns).enumerate() {
            let name = if n == 0 { name.as_str() } else { "" };
            text += format!("{name:<label$} {}", cells_of(line, style)).trim_end();
            text.push('\n');
        }
    }
    text
}

fn label_of(row: &MapRow) -> String {
    format!("{} {} {}", row.node, cell(&row.zone), row.gib)
}

fn most_common(cells: &[char]) -> char {
    let mut counts: BTreeMap<char, usize> = BTreeMap::new();
    for &cell in cells.iter().filter(|&&cell| cell != ' ') {
        *counts.entry(cell).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|&(cell, count)| (count, cell));
    most.map_or(' ', |(cell, _)| cell)
}

/// The letters, what they mean, and their background in a terminal (ECMA-48).
const LEGEND: [(char, &str, u8); 8] = [
    ('.', "free", 42),
    ('m', "movable", 44),
    ('?', "may move", 46),
    ('1', "held by 1 to 3 pages", 43),
    ('x', "held by more", 45),
    ('K', "mostly kernel", 41),
    ('H', "huge page", 47),
    ('r', "reserved", 100),
];

fn legend(style: Style) -> String {
    let entries = LEGEND.map(|(cell, what, _)| format!("{} {what}", cells_of(&[cell], style)));
    let (first, second) = entries.split_at(5);
    format!("{}\n{}\n", first.join("   "), second.join("   "))
}

fn cells_of(cells: &[char], style: Style) -> String {
    if !style.colors {
        return cells.iter().collect::<String>().trim_end().to_owned();
    }
    let mut text = String::new();
    for run in cells.chunk_by(|a, b| a == b) {
        let run_text: String = run.iter().collect();
        match LEGEND.iter().find(|(cell, ..)| *cell == run[0]) {
            Some((.., color)) => text += &format!("\x1b[30;{color}m{run_text}\x1b[0m"),
            None => text += &run_text,
        }
    }
    text
}

/// Prints a forecast beside what compaction made of it.
#[must_use]
pub fn verified(before: &Forecast, after: &Forecast) -> String {
    let mut table = Table::new().number("order").number("size").number("free before");
    table = table.number("forecast: at least").number("at most").number("free after").text("");
    let free = |of: &Forecast| of.orders.first().map_or(0, |range| range.free);
    let change = free(after) as i64 - free(before) as i64;
    // Each page that was allocated or freed meanwhile can cost or give one block of every size.
    let (taken, freed) = (change.min(0).unsigned_abs(), change.max(0).unsigned_abs());
    let mut outside = 0;
    for (range, now) in before.orders.iter().zip(&after.orders) {
        let verdict = match now.free {
            free if free > range.at_most + freed => "more than forecast",
            free if free > range.at_most => "memory was freed meanwhile",
            free if free + taken < range.at_least => "fewer than forecast",
            free if free < range.at_least => "memory was allocated meanwhile",
            _ => "",
        };
        outside += usize::from(!verdict.is_empty());
        table.row([
            range.order.to_string(),
            size(range.order, before.page_kb),
            grouped(range.free),
            grouped(range.at_least),
            grouped(range.at_most),
            grouped(now.free),
            verdict.to_owned(),
        ]);
    }
    format!(
        "{}{} of {} sizes are within the forecast. Free memory changed by {change} pages meanwhile.\n",
        table.print(),
        before.orders.len() - outside,
        before.orders.len(),
    )
}

/// Prints what the kernel gave beside what was forecast.
#[must_use]
pub fn tried(of: &Obtain, tried: &Tried) -> String {
    let least = of.free;
    let (sure, most) = (of.free + of.together.at_least, of.free + of.together.at_most);
    let verdict = match (tried.came, tried.end) {
        (came, _) if came > most => "more than forecast",
        (came, End::Fewer) if came < least => "fewer than were free",
        (came, End::Fewer) if came < sure => "fewer than forecast",
        (_, End::Fewer | End::All) => "within the forecast",
        (_, End::Reserve) => "not decided: a tenth of memory is left to others",
        (_, End::Stopped) => "not decided: stopped",
    };
    format!(
        "{} pages of {} came; forecast: {} to {}, {} of them free; {verdict}.\nMeanwhile reclaim freed {} pages and {} \
         moved, for others too. The pool has its {} pages again.\n",
        grouped(tried.came),
        size(0, tried.kb),
        grouped(sure),
        grouped(most),
        grouped(of.free),
        grouped(tried.reclaimed),
        grouped(tried.moved),
        grouped(tried.pool),
    )
}
