//! Free memory by order and type, and the watermarks.

use pageblock_measure::value::history::Content;
use pageblock_measure::value::index::unusable_free_index;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::{fitted, framed, free_blocks, short, shown_zones};
use crate::app::App;
use crate::look::{Class, Seen};
use crate::source::{Source, ZoneNow};

/// The classes in whose colours the types are drawn: unmovable, movable, reclaimable, all others; and their letters.
const TYPES: [(Content, char); 4] = [
    (Content::Unmovable, 'U'),
    (Content::Movable, 'm'),
    (Content::Reclaimable, 'r'),
    (Content::Reserved, 'o'),
];
/// The columns before the bars.
const FIGURES: usize = 27;

/// Draws the free blocks by order: how many, how large, what share of free memory is in smaller ones, and their types.
pub(super) fn orders(frame: &mut Frame<'_>, app: &App, source: &dyn Source, area: Rect) {
    let known = source.now().zones.iter().any(|zone| zone.by_type.is_some());
    let inner = framed(
        frame,
        app,
        area,
        if known { " order   free    MiB  below by type " } else { " order   free    MiB  below " },
    );
    let (about, now) = (source.about(), source.now());
    let free = free_blocks(&now.zones, app.zone);
    let mib: Vec<f64> = (0..).zip(&free).map(|(order, n)| about.mib(n << order)).collect();
    let largest = mib.iter().copied().fold(0.0, f64::max);
    let width = usize::from(inner.width).saturating_sub(FIGURES);
    let shown: Vec<usize> = shown_zones(app, source);
    // Where not all orders fit, those around the chosen one do.
    let height = usize::from(inner.height);
    let skipped = usize::from(app.order + 1).saturating_sub(height.max(1)).min(free.len());
    let rows = free.iter().enumerate().skip(skipped).map(|(order, &blocks)| {
        let chosen = order == usize::from(app.order);
        let below = match free.iter().any(|&blocks| blocks > 0) {
            true => format!("{:.1}%", unusable_free_index(&free, order as u8) as f64 / 10.0),
            false => "-".to_owned(),
        };
        let mark = if chosen { '>' } else { ' ' };
        let figures = format!("{mark}{order:>3} {blocks:>8} {:>6} {below:>6} ", short(mib[order]));
        let style = if chosen { app.look.accent() } else { Style::new() };
        let mut spans = vec![Span::styled(figures, style)];
        let zones = shown.iter().map(|&at| &now.zones[at]);
        match by_type(zones, order) {
            Some(sums) => spans.extend(shares(app, sums, width)),
            None => {
                let bar = if largest > 0.0 { mib[order] / largest * width as f64 } else { 0.0 };
                let full = if app.look.ascii { "=" } else { "■" };
                spans.push(Span::styled(full.repeat(bar.round() as usize), app.look.curve()));
            }
        }
        Line::from(spans)
    });
    frame.render_widget(Paragraph::new(rows.collect::<Vec<_>>()), inner);
}

/// Returns the free blocks of an order of each type; `None` where they are not known.
fn by_type<'a>(zones: impl Iterator<Item = &'a ZoneNow>, order: usize) -> Option<[u64; 4]> {
    let mut sums = [0_u64; 4];
    for zone in zones {
        for (sum, counts) in sums.iter_mut().zip(zone.by_type.as_ref()?) {
            *sum += counts.get(order).copied().unwrap_or(0);
        }
    }
    Some(sums)
}

/// Returns a bar of so many cells that is shared by type; empty where there are no blocks.
fn shares(app: &App, sums: [u64; 4], cells: usize) -> Vec<Span<'static>> {
    let all: u64 = sums.iter().sum();
    let upto = |count: u64| (count as f64 / all.max(1) as f64 * cells as f64).round() as usize;
    let mut before = 0;
    let part = |(sum, (content, letter)): (u64, (Content, char))| {
        let length = upto(before + sum) - upto(before);
        before += sum;
        Span::styled(letter.to_string().repeat(length), app.look.on(Seen::of(Class::Of(content))))
    };
    sums.into_iter().zip(TYPES).map(part).collect()
}

/// Draws each zone's free memory between its watermarks and its size, both as a logarithm.
pub(super) fn watermarks(
    frame: &mut Frame<'_>,
    app: &App,
    source: &dyn Source,
    area: Rect,
    figures: bool,
) {
    let (about, now) = (source.about(), source.now());
    let width = usize::from(area.width);
    let mut lines = Vec::new();
    for at in shown_zones(app, source) {
        let (zone, label) = (&now.zones[at], &about.zones[at].label);
        let label = label.strip_prefix("node 0 ").unwrap_or(label);
        let [min, low, high] = zone.marks;
        let low_now = zone.free < low;
        let name = format!("{:<8}{:>6}M ", fitted(label, 8), short(about.mib(zone.free)));
        let bar = bar(app, zone, width.saturating_sub(name.chars().count()));
        let style = if low_now { app.look.alarm() } else { Style::new() };
        lines.push(Line::from(vec![Span::styled(name, style), Span::styled(bar, style)]));
        if figures {
            let mib = |pages| short(about.mib(pages));
            let text = format!(
                "        min {} low {} high {} MiB, boost {}, of {}",
                mib(min),
                mib(low),
                mib(high),
                mib(zone.boost),
                mib(zone.managed)
            );
            lines.push(Line::styled(fitted(&text, width), app.look.faint()));
        }
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn bar(app: &App, zone: &ZoneNow, width: usize) -> String {
    let [min, low, high] = zone.marks;
    let from = (min.max(2) as f64 / 2.0).ln();
    let to = (zone.managed.max(high).max(4) as f64).ln();
    let place = |pages: u64| {
        let share = ((pages.max(1) as f64).ln() - from) / (to - from).max(0.001);
        ((share.clamp(0.0, 1.0) * width as f64) as usize).min(width.saturating_sub(1))
    };
    let (full, empty) = if app.look.ascii { ('=', '-') } else { ('━', '┄') };
    let end = place(zone.free);
    let mut bar: Vec<char> =
        (0..width).map(|at| if at <= end && zone.free > 0 { full } else { empty }).collect();
    for (mark, letter) in [(high, 'h'), (low, 'l'), (min, 'm')] {
        if let Some(cell) = bar.get_mut(place(mark)) {
            *cell = letter;
        }
    }
    bar.into_iter().collect()
}
