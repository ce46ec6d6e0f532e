//! Who still holds pages that do not move, and the pageblocks that they are in, as HTML.

use std::collections::BTreeMap;

use pageblock_measure::value::call_sites::{HeldBlock, PageHolder, StillHeld};
use pageblock_report::call_sites;
use pageblock_report::forecast::grouped;

use super::escape;

/// The holders of a recording.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageHolders {
    /// The recording.
    pub name: String,
    /// Who holds what.
    pub held: StillHeld,
}

/// Holders with a colour and a row of their own.
const NAMED: usize = 8;
/// Their colours, which are told apart with any colour vision (Okabe and Ito 2008), and that of all others.
const COLORS: [&str; NAMED + 1] = [
    "#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7b5ea7", "#8a6d3b",
    "#9aa0a6",
];
/// The width and height of a pageblock in the picture.
const CELL: (u64, u64) = (2, 9);
/// The pageblocks of a row: a GiB of pageblocks of 2 MiB.
const ROW: u64 = 512;

/// Returns the table and the picture.
pub(super) fn html(of: &PageHolders) -> String {
    let StillHeld { asked, held, blocks, holders, .. } = &of.held;
    let mut html = "<section class=\"holders\" id=\"holders\"><h2>Who still holds pages that do not move</h2>\n".to_owned();
    html += &format!(
        "<p class=\"says\">{}: {} pages were asked for while it was recorded, {} are held at the end, in {} pageblocks. \
         <i>alone</i>: pageblocks in which nobody else holds such pages.</p>\n",
        escape(&of.name),
        grouped(*asked),
        grouped(*held),
        grouped(*blocks),
    );
    if let Some(lost) = call_sites::lost(&of.held) {
        html += &format!("<p class=\"warning\">{lost}.</p>\n");
    }
    html += "<div class=\"scroll\"><table><thead><tr>";
    for column in
        ["", "command", "slab", "call site", "type", "asked", "held", "pageblocks", "alone"]
    {
        html += &format!("<th scope=\"col\">{column}</th>");
    }
    html += "</tr></thead>\n<tbody>\n";
    let shown = holders.iter().take(call_sites::SITES).take_while(|own| own.held > 0);
    for (place, holder) in shown.enumerate() {
        html += &row(place, holder);
    }
    html += "</tbody></table></div>\n";
    html += &picture(&of.held);
    html + "</section>\n"
}

fn color(place: usize) -> &'static str {
    COLORS[place.min(NAMED)]
}

fn row(place: usize, of: &PageHolder) -> String {
    let square = format!(
        "<svg width=\"12\" height=\"12\" aria-hidden=\"true\"><rect width=\"12\" height=\"12\" fill=\"{}\"/></svg>",
        color(place)
    );
    let numbers =
        [of.asked, of.held, of.blocks, of.alone].map(|n| format!("<td>{}</td>", grouped(n)));
    format!(
        "<tr><td>{square}</td><th scope=\"row\">{}</th><td>{}</td><td><code>{}</code></td><td>{}</td>{}</tr>\n",
        escape(&of.process),
        of.slab.unwrap_or_default(),
        escape(&call_sites::site(&of.functions)),
        of.migratetype,
        numbers.concat(),
    )
}

/// Returns a picture with a row for each 512 pageblocks that have held pages, and a cell for each pageblock.
fn picture(of: &StillHeld) -> String {
    let mut rows: BTreeMap<u64, Vec<&HeldBlock>> = BTreeMap::new();
    for block in &of.map {
        rows.entry(block.block / ROW).or_default().push(block);
    }
    let label = 56;
    let (width, height) = (label + ROW * CELL.0, (rows.len() as u64 + 1) * (CELL.1 + 1));
    let mut svg = format!(
        "<svg viewBox=\"0 0 {width} {height}\" width=\"100%\" role=\"img\" font-size=\"8\" \
         aria-label=\"the pageblocks with held pages, by the holder with the most in each\">\n"
    );
    for (at, (number, blocks)) in (0_u64..).zip(&rows) {
        let y = at * (CELL.1 + 1);
        let first = number * ROW;
        svg +=
            &format!("<text x=\"0\" y=\"{}\" fill=\"currentColor\">{first}</text>", y + CELL.1 - 1);
        svg += &format!(
            "<rect x=\"{label}\" y=\"{y}\" width=\"{}\" height=\"{}\" fill=\"currentColor\" fill-opacity=\"0.06\"/>",
            ROW * CELL.0,
            CELL.1
        );
        for block in blocks {
            svg += &format!(
                "<rect x=\"{}\" y=\"{y}\" width=\"{}\" height=\"{}\" fill=\"{}\"><title>pageblock {}: {} pages, most of {}</title></rect>",
                label + (block.block % ROW) * CELL.0,
                CELL.0,
                CELL.1,
                color(block.holder as usize),
                block.block,
                block.pages,
                of.holders
                    .get(block.holder as usize)
                    .map_or(String::new(), |own| escape(&own.process)),
            );
        }
        svg.push('\n');
    }
    svg += "</svg>\n";
    format!(
        "<p class=\"says\">A cell is a pageblock, a row {ROW} of them, from the number at its left; rows without held pages are left out.</p>\n{svg}"
    )
}
