//! Figures over time.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::{fitted, framed, short, sparkline};
use crate::app::App;
use crate::source::{Curve, Source};

/// The columns of a name and a value.
const NAME: usize = 22;
const VALUE: usize = 6;
/// The lines of a curve where there is room.
const HEIGHT: usize = 4;

/// Draws the last values of each figure, those that matter most first.
pub(super) fn rates(frame: &mut Frame<'_>, app: &App, source: &dyn Source, area: Rect) {
    let inner = framed(frame, app, area, " rates ");
    let (at, _) = source.position();
    let curves = || source.curves().iter().take(inner.height.into());
    let unit = curves().map(|curve| curve.unit.len()).max().unwrap_or(0);
    let room = usize::from(inner.width).saturating_sub(NAME + VALUE + unit + 2);
    let line = |curve: &Curve| {
        let value = curve.values.get(at).copied().flatten();
        let value = value.map_or("-".to_owned(), short);
        let from = (at + 1).saturating_sub(room);
        let seen = curve.values.get(from..=at).unwrap_or_default();
        let largest = seen.iter().flatten().copied().fold(0.0, f64::max);
        let name = fitted(&curve.name, NAME);
        Line::from(vec![
            Span::raw(format!("{name:<NAME$}{value:>VALUE$} {:<unit$} ", curve.unit)),
            Span::styled(sparkline(app.look, seen, largest), app.look.curve()),
        ])
    };
    let lines: Vec<Line<'_>> = curves().map(line).collect();
    frame.render_widget(Paragraph::new(lines), inner);
}

/// Draws each figure over all that is known, with the moment that is looked at.
pub(super) fn draw(frame: &mut Frame<'_>, app: &App, source: &dyn Source, area: Rect) {
    let (at, _) = source.position();
    let title = if source.about().live { " the last moments " } else { " over time " };
    let inner = framed(frame, app, area, title);
    let width = usize::from(inner.width);
    // Curves that are never above nothing say so in the rates.
    let busy = |curve: &&Curve| curve.values.iter().flatten().any(|&value| value > 0.0);
    let curves: Vec<&Curve> = source.curves().iter().filter(busy).collect();
    let mut lines = Vec::new();
    if curves.is_empty() {
        lines.push(Line::raw("nothing happened yet"));
    }
    let missing = reasons(&source.now().missing, width);
    let room = usize::from(inner.height).saturating_sub(missing.len());
    let height = (room / curves.len().max(1)).clamp(2, HEIGHT);
    for curve in curves {
        let columns = stretched(&curve.values, width, at);
        let largest = columns.values.iter().flatten().copied().fold(0.0, f64::max);
        let value = curve.values.get(at).copied().flatten().map_or("-".to_owned(), short);
        let name = format!("{} {value} {} (0 to {})", curve.name, curve.unit, short(largest));
        lines.push(Line::styled(fitted(&name, width), app.look.faint()));
        lines.extend(bars(app, &columns, largest, height - 1));
    }
    lines.extend(missing.into_iter().map(|line| Line::styled(line, app.look.alarm())));
    frame.render_widget(Paragraph::new(lines), inner);
}

/// Returns what could not be read and why, in lines that fit.
fn reasons(missing: &[String], width: usize) -> Vec<String> {
    let wrapped = |what: &String| {
        let mut lines = vec![String::from("without")];
        for word in what.split_whitespace() {
            let last = lines.last_mut().expect("there is one");
            if last.chars().count() + 1 + word.chars().count() <= width {
                last.push(' ');
                last.push_str(word);
            } else {
                lines.push(format!("  {word}"));
            }
        }
        lines.into_iter().map(|line| fitted(&line, width)).collect::<Vec<_>>()
    };
    missing.iter().flat_map(wrapped).collect()
}

/// A curve by column of the screen.
struct Columns {
    values: Vec<Option<f64>>,
    /// The column of the moment that is looked at.
    at: usize,
}

/// Returns the largest value of each column. Where there are more columns than moments, a moment has several.
fn stretched(values: &[Option<f64>], width: usize, at: usize) -> Columns {
    let all = values.len();
    let of = |column: usize| {
        let from = column * all / width;
        let to = ((column + 1) * all / width).max(from + 1).min(all);
        let largest = values[from..to].iter().flatten().copied().fold(f64::NAN, f64::max);
        Some(largest).filter(|value| !value.is_nan())
    };
    let here = (at * width).checked_div(all).unwrap_or(0);
    Columns { values: if all == 0 { Vec::new() } else { (0..width).map(of).collect() }, at: here }
}

/// Returns bars of so many lines, the highest first.
fn bars(app: &App, columns: &Columns, largest: f64, height: usize) -> Vec<Line<'static>> {
    let line = |level: usize| {
        // Each line has its own part of the range.
        let (from, step) = (largest * level as f64 / height as f64, largest / height as f64);
        let part = |value: &Option<f64>| value.map(|value| (value - from).clamp(0.0, step));
        let parts: Vec<Option<f64>> = columns.values.iter().map(part).collect();
        let text: Vec<char> = sparkline(app.look, &parts, step).chars().collect();
        let at = columns.at.min(text.len().saturating_sub(1));
        let span = |range: &[char]| range.iter().collect::<String>();
        let here = match text.get(at) {
            Some(' ') | None => if app.look.ascii { "|" } else { "│" }.to_owned(),
            Some(bar) => bar.to_string(),
        };
        Line::from(vec![
            Span::styled(span(&text[..at]), app.look.curve()),
            Span::styled(here, app.look.accent()),
            Span::styled(span(text.get(at + 1..).unwrap_or_default()), app.look.curve()),
        ])
    };
    (0..height).rev().map(line).collect()
}
