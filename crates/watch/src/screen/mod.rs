//! Draws a moment as the user looks at it.

mod help;
mod map;
mod memory;
mod over_time;

use pageblock_report::text::is_obeyed;
use ratatui::Frame;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::symbols::border;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph};

pub(crate) use self::map::MapLayout;
use crate::app::{App, Popup, View};
use crate::look::Look;
use crate::source::{Level, Moment, Note, Source, ZoneNow};

/// The smallest terminal in which everything has its place.
const SMALLEST: (u16, u16) = (60, 20);
/// From this size on figures and findings stand beside the map.
const WIDE: (u16, u16) = (120, 36);
/// The columns beside the map.
const BESIDE: u16 = 62;
/// The least columns of a rate, its unit and its frame.
const RATES: u16 = 35;

const ASCII_BORDER: border::Set<'_> = border::Set {
    top_left: "+",
    top_right: "+",
    bottom_left: "+",
    bottom_right: "+",
    vertical_left: "|",
    vertical_right: "|",
    horizontal_top: "-",
    horizontal_bottom: "-",
};

/// Draws what is looked at.
pub fn draw(frame: &mut Frame<'_>, app: &mut App, source: &dyn Source) {
    let area = frame.area();
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        let text = format!(
            "{} by {} is too small: {} by {} is needed",
            area.width, area.height, SMALLEST.0, SMALLEST.1
        );
        frame.render_widget(Paragraph::new(text).wrap(ratatui::widgets::Wrap { trim: true }), area);
        return;
    }
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(3), Constraint::Fill(1), Constraint::Length(1)])
            .areas(area);
    header(frame, app, source, head);
    if area.width >= WIDE.0 && area.height >= WIDE.1 {
        wide(frame, app, source, body);
    } else {
        narrow(frame, app, source, body);
    }
    footer(frame, app, source, foot);
    match &app.popup {
        Popup::None => {}
        Popup::Help => help::keys(frame, app, source.about().live, area),
        Popup::Block(name, facts) => help::facts(frame, app, (name, facts), area),
    }
}

/// Returns a screen as text: what [`draw`] draws without colours.
///
/// # Errors
/// Never: a screen in memory takes everything.
pub fn once(app: &mut App, source: &dyn Source, (width, height): (u16, u16)) -> String {
    let Ok(mut terminal) = Terminal::new(TestBackend::new(width, height));
    let Ok(_) = terminal.draw(|frame| draw(frame, app, source));
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for y in 0..height {
        let line: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// Everything in the columns and lines of an old terminal.
fn narrow(frame: &mut Frame<'_>, app: &mut App, source: &dyn Source, area: Rect) {
    let right = (area.width / 2).min(BESIDE);
    let [upper, lower] = Layout::vertical([Constraint::Fill(1), Constraint::Length(7)]).areas(area);
    let sides = [Constraint::Fill(1), Constraint::Length(right)];
    let [map_area, orders] = Layout::horizontal(sides).areas(upper);
    let sides = [Constraint::Length(RATES.max(area.width / 2)), Constraint::Fill(1)];
    let [rates, rest] = Layout::horizontal(sides).areas(lower);
    main_view(frame, app, source, map_area);
    memory::orders(frame, app, source, orders);
    over_time::rates(frame, app, source, rates);
    let zones = (source.now().zones.len() as u16).min(3);
    let inner = framed(frame, app, rest, " watermarks, free memory ");
    let [marks, notes] =
        Layout::vertical([Constraint::Length(zones), Constraint::Fill(1)]).areas(inner);
    memory::watermarks(frame, app, source, marks, false);
    findings(frame, app, source.now(), notes);
}

fn wide(frame: &mut Frame<'_>, app: &mut App, source: &dyn Source, area: Rect) {
    let [left, right] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Length(BESIDE)]).areas(area);
    main_view(frame, app, source, left);
    let orders = source.now().zones.iter().map(|zone| zone.orders.len()).max().unwrap_or(0) as u16;
    let zones = shown_zones(app, source).len() as u16;
    let curves = source.curves().len() as u16;
    let [one, two, three, four] = Layout::vertical([
        Constraint::Length(orders + 2),
        Constraint::Length((zones * 2 + 2).min(12)),
        Constraint::Length(curves + 2),
        Constraint::Min(4),
    ])
    .areas(right);
    memory::orders(frame, app, source, one);
    let inner = framed(frame, app, two, " watermarks, free memory ");
    memory::watermarks(frame, app, source, inner, true);
    over_time::rates(frame, app, source, three);
    let title = if source.about().live { " findings " } else { " findings and notes " };
    let inner = framed(frame, app, four, title);
    findings(frame, app, source.now(), inner);
}

fn main_view(frame: &mut Frame<'_>, app: &mut App, source: &dyn Source, area: Rect) {
    match app.view {
        View::Map => map::draw(frame, app, source, area),
        View::Time => over_time::draw(frame, app, source, area),
    }
}

/// Returns the numbers of the zones that are shown.
pub(crate) fn shown_zones(app: &App, source: &dyn Source) -> Vec<usize> {
    (0..source.now().zones.len()).filter(|&at| app.zone.is_none_or(|zone| zone == at)).collect()
}

/// Returns the free blocks by order of all zones, or of one.
pub(crate) fn free_blocks(zones: &[ZoneNow], zone: Option<usize>) -> Vec<u64> {
    let shown = || zones.iter().enumerate().filter(|(at, _)| zone.is_none_or(|zone| zone == *at));
    let orders = shown().map(|(_, zone)| zone.orders.len()).max().unwrap_or(0);
    let of = |order| shown().filter_map(|(_, zone)| zone.orders.get(order)).sum();
    (0..orders).map(of).collect()
}

/// Draws a frame with a title, and returns what is inside.
fn framed(frame: &mut Frame<'_>, app: &App, area: Rect, title: &str) -> Rect {
    let set = if app.look.ascii { ASCII_BORDER } else { border::PLAIN };
    let block = Block::bordered()
        .border_set(set)
        .border_style(app.look.faint())
        .title(Span::styled(title.to_owned(), Style::new()));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    inner
}

fn header(frame: &mut Frame<'_>, app: &App, source: &dyn Source, area: Rect) {
    let (about, now) = (source.about(), source.now());
    let zone = app.zone.and_then(|at| about.zones.get(at));
    let zone = zone.map_or("all zones", |zone| zone.label.as_str());
    let run = match app.run {
        (_, 0 | 1) => String::new(),
        (at, all) => format!(" ({} of {all}, Tab)", at + 1),
    };
    let state = match (about.live, app.paused) {
        (true, true) => "PAUSED ",
        (false, false) => "playing ",
        _ => "",
    };
    let (at, all) = source.position();
    let place = if about.live { String::new() } else { format!(" [{}/{all}]", at + 1) };
    let right = format!("{state}{}{place} ", now.when);
    let left = format!(" pageblock watch  {}{run}  {zone}", about.title);
    let room = usize::from(area.width).saturating_sub(right.chars().count());
    let left = fitted(&left, room.saturating_sub(1));
    let first = Line::from(vec![
        Span::styled(format!("{left:<room$}"), app.look.accent()),
        Span::styled(right, app.look.accent()),
    ]);
    let free: u64 = now.zones.iter().map(|zone| zone.free).sum();
    let managed: u64 = now.zones.iter().map(|zone| zone.managed).sum();
    let gib = |pages| about.mib(pages) / 1024.0;
    let second = format!(" free {:.1} of {:.1} GiB  {}", gib(free), gib(managed), now.verdict);
    let third = match (now.missing.as_slice(), now.notes.first()) {
        ([], None) => Line::default(),
        ([], Some(worst)) => note_line(app, worst, area.width),
        (missing, _) => Line::styled(without(missing, area.width.into()), app.look.alarm()),
    };
    let lines = vec![first, Line::from(fitted(&second, area.width.into())), third];
    frame.render_widget(Paragraph::new(lines), area);
}

/// Returns a line of what is missing: with the reasons where they fit, which else stand over time.
fn without(missing: &[String], width: usize) -> String {
    let whole = format!(" without: {}", missing.join(", "));
    if whole.chars().count() <= width {
        return fitted(&whole, width);
    }
    let name = |what: &String| what.split(" (").next().unwrap_or(what).to_owned();
    let names: Vec<String> = missing.iter().map(name).collect();
    fitted(&format!(" without: {} (t shows why)", names.join(", ")), width)
}

fn footer(frame: &mut Frame<'_>, app: &App, source: &dyn Source, area: Rect) {
    let keys = match (source.about().live, app.message.is_empty()) {
        (_, false) => format!(" {}", app.message),
        (true, true) => {
            " q quit  ? help  space pause  z zone  o order  t time  arrows, Enter block  s save"
                .to_owned()
        }
        (false, true) => {
            " q quit  ? help  space play  , . [ ] 0-9 seek  z zone  o order  t time  Enter block"
                .to_owned()
        }
    };
    let line = Line::styled(fitted(&keys, area.width.into()), app.look.faint());
    frame.render_widget(Paragraph::new(line), area);
}

fn findings(frame: &mut Frame<'_>, app: &App, now: &Moment, area: Rect) {
    let mut lines: Vec<Line<'_>> =
        now.notes.iter().map(|note| note_line(app, note, area.width)).collect();
    if lines.is_empty() {
        lines.push(Line::styled("findings: none", app.look.faint()));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn note_line(app: &App, note: &Note, width: u16) -> Line<'static> {
    let (mark, style) = match note.level {
        Level::Critical => ("!!", app.look.alarm()),
        Level::Warning => ("! ", app.look.alarm()),
        Level::Notice => ("- ", Style::new()),
    };
    let when = if note.when.is_empty() { String::new() } else { format!("{} ", note.when) };
    Line::styled(fitted(&format!("{mark}{when}{}", note.text), width.into()), style)
}

/// Returns the beginning of a text that fits into so many columns, without what a terminal would obey.
fn fitted(text: &str, width: usize) -> String {
    let obeyed = |c: char| is_obeyed(c) || matches!(c, '\n' | '\t');
    let clean = text.chars().map(|c| if obeyed(c) { '?' } else { c });
    let all: Vec<char> = clean.collect();
    match all.len() <= width {
        true => all.into_iter().collect(),
        false => all.into_iter().take(width.saturating_sub(2)).chain("..".chars()).collect(),
    }
}

/// Returns a number in at most six letters.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 1e9 => format!("{:.1}G", value / 1e9),
        size if size >= 1e6 => format!("{:.1}M", value / 1e6),
        size if size >= 1e5 => format!("{:.0}k", value / 1e3),
        size if size >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        _ => format!("{value:.1}"),
    }
}

/// Returns bars from nothing to the largest of some values.
fn sparkline(look: Look, values: &[Option<f64>], largest: f64) -> String {
    const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    const ASCII: [char; 9] = [' ', '.', ':', '-', '=', '+', 'x', 'X', '#'];
    let bars = if look.ascii { ASCII } else { BARS };
    let bar = |value: &Option<f64>| match value {
        Some(value) if *value > 0.0 && largest > 0.0 => {
            bars[((value / largest * 8.0).ceil() as usize).clamp(1, 8)]
        }
        Some(_) => bars[0],
        None => ' ',
    };
    values.iter().map(bar).collect()
}
