//! What lies above the rest: the keys, and a pageblock.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Clear, Paragraph};

use super::{fitted, framed};
use crate::app::App;

const KEYS: [(&str, &str); 12] = [
    ("q, Ctrl-C", "quit"),
    ("z", "the next zone, or all"),
    ("o, O", "the next order, the one before"),
    ("t", "the map, or figures over time"),
    ("arrows", "choose a cell of the map; Esc lets go"),
    ("Enter, d", "nearer, then what the block's pages are"),
    ("+, -", "nearer, farther"),
    ("w", "a cell of several blocks: the worst, or most"),
    ("l", "letters on the map, or two cells a character"),
    ("b", "colours for a light or a dark background"),
    ("Tab, n", "the next run of the file"),
    ("?", "this"),
];
const LIVE: [(&str, &str); 2] =
    [("space, p", "pause, go on"), ("s", "save this moment for forecast and report")];
const TAPE: [(&str, &str); 5] = [
    ("space, p", "play, pause"),
    (", .", "a moment back, on"),
    ("[ ], PgUp PgDn", "a tenth back, on"),
    ("Home, End, 0-9", "to the beginning, the end, a tenth"),
    ("< >", "slower, faster"),
];

/// Draws the keys.
pub(super) fn keys(frame: &mut Frame<'_>, app: &App, live: bool, area: Rect) {
    let more: &[(&str, &str)] = if live { &LIVE } else { &TAPE };
    let lines = more.iter().chain(&KEYS);
    let lines = lines.map(|(key, what)| format!(" {key:<15} {what}")).collect();
    above(frame, app, (" keys ", lines), area);
}

/// Draws what is known of a pageblock.
pub(super) fn facts(
    frame: &mut Frame<'_>,
    app: &App,
    (name, facts): (&str, &[(String, String)]),
    area: Rect,
) {
    let lines = facts.iter().map(|(name, fact)| format!(" {name:<24} {fact}")).collect();
    above(frame, app, (&format!(" {name} "), lines), area);
}

fn above(frame: &mut Frame<'_>, app: &App, (title, lines): (&str, Vec<String>), area: Rect) {
    let width = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0) + 4;
    let width = (width.max(title.chars().count() + 4) as u16).min(area.width);
    let height = (lines.len() as u16 + 2).min(area.height);
    let place = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, place);
    let inner = framed(frame, app, place, title);
    let lines: Vec<Line<'_>> =
        lines.iter().map(|line| Line::from(fitted(line, inner.width.into()))).collect();
    frame.render_widget(Paragraph::new(lines), inner);
}
