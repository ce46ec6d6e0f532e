//! A bisection as a waterfall: from one kernel's mean to the other's, with what each switch adds on the way.

use pageblock_measure::compare::bisect::{Answer, Bisection, StepEffect};
use pageblock_report::bisect::share;
use pageblock_report::text::in_line;
use plotters::prelude::*;

use super::colors::{FAINT, GRID, INK, line};
use super::{Area, Error, failed, fitted, write};
use crate::series::short;

const WIDTH: i32 = 860;
/// The bars' part of the width.
const BARS: (i32, i32) = (290, 730);
const ROW: i32 = 26;
const BAR: i32 = 15;
const TOP: i32 = 56;
/// The space above and below the rows of a measure.
const HEAD: i32 = 34;
const FOOT: i32 = 20;
/// Letters of a switch that fit beside the bars.
const LETTERS: usize = 42;

/// The steps that do something.
fn active(of: &Bisection) -> impl Iterator<Item = &StepEffect> {
    of.steps.iter().filter(|step| !step.is_inert)
}

fn height(of: &Bisection) -> i32 {
    HEAD + (active(of).count() as i32 + 2) * ROW + FOOT
}

pub(super) fn size(of: &Answer) -> (u32, u32) {
    (WIDTH as u32, (TOP + of.measures.iter().map(height).sum::<i32>()) as u32)
}

pub(super) fn draw<DB: DrawingBackend>(
    root: &Area<DB>,
    of: &Answer,
    scale: i32,
) -> Result<(), Error> {
    let (from, to) = &of.kernels;
    let title = in_line(&format!("{}: from {from} to {to}", of.subject));
    write(root, &fitted(&title, 110), (16 * scale, 10 * scale), 14 * scale, INK)?;
    let words = "full: decided; open: not; line: 95 % interval of what the switch adds";
    write(root, words, (16 * scale, 32 * scale), 11 * scale, FAINT)?;
    let mut y = TOP;
    for measure in &of.measures {
        Measure { of: measure, y, scale, most: most(measure) }.draw(root, (from, to))?;
        y += height(measure);
    }
    Ok(())
}

/// Returns the largest value that a measure's part shows.
fn most(of: &Bisection) -> f64 {
    let (mut most, mut at) = (of.means.0.max(of.means.1), of.means.0);
    for step in active(of) {
        let high = step.added.interval.map_or(0.0, |(_, high)| high);
        most = most.max(at + high.max(step.added.difference));
        at += step.added.difference;
    }
    if most > 0.0 { most } else { 1.0 }
}

/// The part of the picture that shows a measure.
struct Measure<'b> {
    of: &'b Bisection,
    y: i32,
    scale: i32,
    most: f64,
}

impl Measure<'_> {
    fn draw<DB: DrawingBackend>(
        &self,
        root: &Area<DB>,
        (from, to): (&str, &str),
    ) -> Result<(), Error> {
        let Self { of, y, .. } = *self;
        self.text(root, &fitted(&in_line(&of.measure), 100), (16, y + 8), 13, INK)?;
        let zero = [self.point(0.0, y + HEAD - 4), self.point(0.0, y + height(of) - FOOT)];
        root.draw(&PathElement::new(zero, GRID.stroke_width(1))).map_err(failed)?;
        self.kernel(root, 0, from, of.means.0)?;
        let (mut at, mut row) = (of.means.0, 1);
        for step in active(of) {
            self.step(root, row, step, at)?;
            at += step.added.difference;
            row += 1;
        }
        self.kernel(root, row, to, of.means.1)
    }

    fn kernel<DB: DrawingBackend>(
        &self,
        root: &Area<DB>,
        row: i32,
        name: &str,
        mean: f64,
    ) -> Result<(), Error> {
        let top = self.top(row);
        self.text(root, &fitted(&in_line(name), LETTERS), (16, top), 12, INK)?;
        let bar = [self.point(0.0, top), self.point(mean, top + BAR)];
        root.draw(&Rectangle::new(bar, FAINT.mix(0.55).filled())).map_err(failed)?;
        self.text(root, &short(mean), (BARS.1 + 12, top), 12, INK)
    }

    /// Draws what a switch adds to the value that the kernels before have.
    fn step<DB: DrawingBackend>(
        &self,
        root: &Area<DB>,
        row: i32,
        step: &StepEffect,
        at: f64,
    ) -> Result<(), Error> {
        let (top, added) = (self.top(row), &step.added);
        self.text(root, &fitted(&in_line(&step.step.change), LETTERS), (16, top), 12, INK)?;
        let colour = line(usize::from(added.difference > 0.0));
        let (low, high) = (at.min(at + added.difference), at.max(at + added.difference));
        let bar = [self.point(low, top), self.point(high, top + BAR)];
        let style: ShapeStyle = match step.is_decided {
            true => colour.mix(0.75).filled(),
            false => colour.stroke_width(1),
        };
        root.draw(&Rectangle::new(bar, style)).map_err(failed)?;
        if let Some((low, high)) = added.interval {
            let middle = top + BAR / 2;
            let ends = [self.point(at + low, middle), self.point(at + high, middle)];
            root.draw(&PathElement::new(ends, INK.stroke_width(1))).map_err(failed)?;
        }
        let mark = if step.is_decided { " *" } else { "" };
        let words = share(added.difference, self.of.means.0) + mark;
        self.text(root, &words, (BARS.1 + 12, top), 12, INK)
    }

    fn top(&self, row: i32) -> i32 {
        self.y + HEAD + row * ROW
    }

    /// Returns the place of a value in a line of the layout. What is below 0 stands at 0.
    fn point(&self, value: f64, y: i32) -> (i32, i32) {
        let share = (value / self.most).clamp(0.0, 1.0);
        let x = f64::from(BARS.0) + share * f64::from(BARS.1 - BARS.0);
        ((x * f64::from(self.scale)).round() as i32, y * self.scale)
    }

    fn text<DB: DrawingBackend>(
        &self,
        root: &Area<DB>,
        words: &str,
        (x, y): (i32, i32),
        size: i32,
        colour: RGBColor,
    ) -> Result<(), Error> {
        let scale = self.scale;
        write(root, words, (x * scale, y * scale), size * scale, colour)
    }
}
