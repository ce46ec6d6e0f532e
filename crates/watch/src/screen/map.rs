//! The map of pageblocks: a row is a part of a gigabyte or whole gigabytes, so that their blocks stand below each other.

use pageblock_measure::value::history::Content;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::framed;
use crate::app::App;
use crate::look::{Class, Seen};
use crate::source::{About, Source};

/// The columns of a row's address.
const LABEL: u16 = 5;
/// The lines of the legend.
const LEGEND: u16 = 3;

/// How the map was drawn.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct MapLayout {
    /// The pageblocks of a cell.
    pub(crate) group: u64,
    /// The cells of a row.
    pub(crate) columns: u64,
    /// The rows with memory, by their number.
    pub(crate) rows: Vec<u64>,
    /// The first row that is seen.
    pub(crate) top: usize,
    /// The zoom at which a cell is one pageblock.
    pub(crate) closest: u8,
}

/// A pageblock, or several that share a cell.
#[derive(Clone, Copy)]
struct Place {
    /// Its number in physical memory.
    number: u64,
    seen: Seen,
}

/// Returns the pageblocks that are shown, in the order of physical memory. Where zones share one, that which has memory there
/// counts.
fn places(app: &App, source: &dyn Source) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::with_capacity(source.now().cells.len());
    let mut cells = source.now().cells.iter();
    let mut unsure = source.now().unsure.iter().copied().chain(std::iter::repeat(false));
    for (at, zone) in source.about().zones.iter().enumerate() {
        let own =
            (zone.first..).zip(cells.by_ref().take(zone.blocks as usize)).map(|(number, &cell)| {
                Place { number, seen: Seen { cell, unsure: unsure.next().unwrap_or(false) } }
            });
        if app.zone.is_none_or(|shown| shown == at) {
            places.extend(own);
        } else {
            own.for_each(drop);
        }
    }
    places.sort_by_key(|place| place.number);
    let is_hole = |place: &Place| place.seen.class() == Some(Class::Of(Content::Hole));
    places.dedup_by(|later, earlier| {
        let same = later.number == earlier.number;
        if same && is_hole(earlier) {
            *earlier = *later;
        }
        same
    });
    places.retain(|place| !is_hole(place));
    places
}

impl MapLayout {
    fn of(places: &[Place], (width, lines): (u16, u16), zoom: u8, cursor: Option<u64>) -> Self {
        let columns = 1_u64 << u64::from(width.saturating_sub(LABEL).max(1)).ilog2();
        let rows = |group: u64| {
            let mut rows: Vec<u64> =
                places.iter().map(|place| place.number / (group * columns)).collect();
            rows.dedup();
            rows
        };
        let mut closest = 0;
        while closest < 40 && rows(1 << closest).len() > usize::from(lines) {
            closest += 1;
        }
        let group = 1 << (closest - zoom.min(closest));
        let rows = rows(group);
        let seen = usize::from(lines);
        let at = cursor
            .map_or(0, |number| rows.partition_point(|&row| row < number / (group * columns)));
        // The cursor is in the middle, but for the ends; both halves of a line stay together.
        let top =
            at.saturating_sub(seen / 2).min(rows.len().saturating_sub(seen)).next_multiple_of(2);
        let top = if rows.len() <= seen { 0 } else { top.min(rows.len()) };
        Self { group, columns, rows, top, closest }
    }
}

/// Draws the map.
pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App, source: &dyn Source, area: Rect) {
    let about = source.about();
    if let Some(why) = &about.no_map {
        let inner = framed(frame, app, area, " pageblocks ");
        let text = format!("{why}\n\nt shows figures over time");
        frame
            .render_widget(Paragraph::new(text).wrap(ratatui::widgets::Wrap { trim: true }), inner);
        return;
    }
    let places = places(app, source);
    let dense = app.look.is_dense(app.letters);
    let inside = Rect { width: area.width - 2, height: area.height - 2, ..area };
    let lines = inside.height.saturating_sub(LEGEND) * if dense { 2 } else { 1 };
    app.layout = MapLayout::of(&places, (inside.width, lines), app.zoom, app.cursor);
    app.zoom = app.zoom.min(app.layout.closest);
    let title = title(app, source);
    let inner = framed(frame, app, area, &title);
    let [map, legend] =
        Layout::vertical([Constraint::Fill(1), Constraint::Length(LEGEND)]).areas(inner);
    let cells = grouped(app, &places);
    let taken: Vec<u64> =
        source.now().taken.iter().map(|number| number / app.layout.group).collect();
    let drawn = Drawn { cells, taken, dense };
    rows(frame, app, about, &drawn, map);
    frame.render_widget(Paragraph::new(key(app, &places, legend.width.into())), legend);
}

fn title(app: &App, source: &dyn Source) -> String {
    let about = source.about();
    let size = (about.page_kb << about.pageblock_order) as f64 / 1024.0;
    let cell = match (app.layout.group, app.worst) {
        (1, _) => String::new(),
        (group, false) => format!(", {group} a cell"),
        (group, true) => format!(", the worst of {group} a cell"),
    };
    let age = &source.now().map_age;
    let age = if age.is_empty() { String::new() } else { format!("; {age}") };
    format!(" pageblocks of {size} MiB{cell}{age} ")
}

/// What is drawn.
struct Drawn {
    /// The cells by their number, sorted.
    cells: Vec<Place>,
    /// The cells with a pageblock that a fallback took.
    taken: Vec<u64>,
    dense: bool,
}

impl Drawn {
    /// Returns a cell; `None` where there is no memory.
    fn at(&self, number: u64) -> Option<Seen> {
        let found = self.cells.binary_search_by_key(&number, |place| place.number);
        found.ok().map(|at| self.cells[at].seen)
    }
}

/// Returns what each cell shows: the worst of its pageblocks, or one of the class that most of them have.
fn grouped(app: &App, places: &[Place]) -> Vec<Place> {
    let group = app.layout.group;
    if group == 1 {
        return places.to_vec();
    }
    let mut groups: Vec<Place> = Vec::new();
    for same in places.chunk_by(|a, b| a.number / group == b.number / group) {
        let known = || same.iter().filter_map(|place| Some((badness(place.seen.class()?), place)));
        let stuck = |place: &Place| place.seen.cell.map(|cell| cell.stuck);
        let worst = || known().max_by_key(|&(class, place)| (class, stuck(place)));
        let most = || {
            let count = |class: u8| known().filter(|&(own, _)| own == class).count();
            let class = (0..=WORST).max_by_key(|&class| count(class))?;
            known().filter(|&(own, _)| own == class).max_by_key(|&(_, place)| stuck(place))
        };
        let shown = if app.worst { worst() } else { most() };
        let seen = shown.map_or(Seen::default(), |(_, place)| place.seen);
        groups.push(Place { number: same[0].number / group, seen });
    }
    groups
}

/// The largest of [`badness`].
const WORST: u8 = 7;

const fn badness(class: Class) -> u8 {
    match class {
        Class::Of(Content::Hole) => 0,
        Class::Of(Content::Reserved) => 1,
        Class::Of(Content::Free) => 2,
        Class::Of(Content::Movable) => 3,
        Class::Unsure => 4,
        Class::Of(Content::Reclaimable) => 5,
        Class::Of(Content::Unmovable) => 6,
        Class::Of(Content::Mixed) => WORST,
    }
}

fn rows(frame: &mut Frame<'_>, app: &App, about: &About, drawn: &Drawn, area: Rect) {
    let MapLayout { group, columns, rows, top, .. } = &app.layout;
    let each = if drawn.dense { 2 } else { 1 };
    let per_gib = about.blocks_per_gib();
    let gib = |row: u64| row * columns * group / per_gib;
    let mut last = None;
    let mut lines = Vec::new();
    for pair in rows[*top..].chunks(each).take(area.height.into()) {
        let here = gib(pair[0]);
        let label = match last {
            Some(last) if last == here => String::new(),
            _ => format!("{here}G"),
        };
        last = Some(gib(pair[pair.len() - 1]));
        let mut spans = vec![Span::styled(format!("{label:>4} "), app.look.faint())];
        for column in 0..*columns {
            let of = |row: Option<&u64>| row.map(|row| row * columns + column);
            let halves = (of(pair.first()), of(pair.get(1)));
            let (character, style) = match drawn.dense {
                true => dense(app, drawn, halves),
                false => lettered(app, drawn, halves.0.unwrap_or(0)),
            };
            match spans.last_mut() {
                // Fewer spans are drawn faster.
                Some(span) if column > 0 && span.style == style => {
                    span.content.to_mut().push(character);
                }
                _ => spans.push(Span::styled(character.to_string(), style)),
            }
        }
        lines.push(Line::from(spans));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// Returns two cells in a character, one above the other.
fn dense(app: &App, drawn: &Drawn, (upper, lower): (Option<u64>, Option<u64>)) -> (char, Style) {
    let color = |number: Option<u64>| {
        let number = number?;
        if is_selected(app, number) {
            return Some(app.look.accent_color());
        }
        drawn.at(number).map(|cell| app.look.content(cell))
    };
    let taken = |number: Option<u64>| number.is_some_and(|number| drawn.taken.contains(&number));
    let (above, below) = (color(upper), color(lower));
    if taken(upper) || taken(lower) {
        let ground = if taken(upper) { above } else { below };
        return ('×', app.look.accent().bg(ground.unwrap_or(Color::Reset)));
    }
    match (above, below) {
        (None, None) => (' ', Style::new()),
        (Some(above), None) => ('▀', Style::new().fg(above)),
        (None, Some(below)) => ('▄', Style::new().fg(below)),
        (Some(above), Some(below)) => ('▀', Style::new().fg(above).bg(below)),
    }
}

fn lettered(app: &App, drawn: &Drawn, number: u64) -> (char, Style) {
    let Some(cell) = drawn.at(number) else { return (' ', Style::new()) };
    let letter = cell.letter();
    let style = if is_selected(app, number) { app.look.accent() } else { app.look.on(cell) };
    match drawn.taken.contains(&number) {
        true => ('*', app.look.accent()),
        false if is_selected(app, number) && letter == ' ' => ('@', style),
        false => (letter, style),
    }
}

fn is_selected(app: &App, cell: u64) -> bool {
    app.cursor.is_some_and(|number| number / app.layout.group == cell)
}

/// Returns the legend, with the number of pageblocks of each class, in lines of so many columns.
fn key(app: &App, places: &[Place], width: usize) -> Vec<Line<'static>> {
    const CLASSES: [(Class, &str); 7] = [
        (Class::Of(Content::Free), "free"),
        (Class::Of(Content::Movable), "movable"),
        (Class::Of(Content::Reserved), "own"),
        (Class::Of(Content::Mixed), "mixed"),
        (Class::Of(Content::Unmovable), "unmovable"),
        (Class::Of(Content::Reclaimable), "reclaimable"),
        (Class::Unsure, "perhaps held"),
    ];
    let mut lines = vec![Line::default()];
    for (class, name) in CLASSES {
        let count = places.iter().filter(|place| place.seen.class() == Some(class)).count();
        // A machine does not say which pages can be reclaimed, a file has nothing that is unsure.
        let optional = [Class::Of(Content::Reclaimable), Class::Unsure];
        if optional.contains(&class) && count == 0 {
            continue;
        }
        let seen = Seen::of(class);
        let letter = match class {
            Class::Of(Content::Mixed) => "0-9".to_owned(),
            _ => seen.letter().to_string(),
        };
        let text = format!(" {name} {count}  ");
        let length = letter.len() + text.trim_end().len();
        if lines.last().is_some_and(|line| line.width() + length > width) {
            lines.push(Line::default());
        }
        if let Some(line) = lines.last_mut() {
            line.push_span(Span::styled(letter, app.look.on(seen)));
            line.push_span(Span::raw(text));
        }
    }
    lines
}
