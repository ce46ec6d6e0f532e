//! Pictures as text that survives a mailing list: plain ASCII, at most [`WIDTH`] columns.

mod frontier;
mod map;
mod matrix;
mod orders;
mod timeline;

use crate::error::Error;
use crate::opened::Opened;
use crate::plot::{PlotKind, Point};

pub use self::map::character;

/// The columns of a line.
pub const WIDTH: usize = 72;

/// Returns a picture of the runs; `share` is the moment, from 0 (the beginning) to 1 (the end).
///
/// # Errors
/// [`Error::Nothing`] where the runs have no data for it.
pub fn text(
    kind: PlotKind,
    runs: &[Opened],
    points: &[Point],
    share: f64,
) -> Result<String, Error> {
    match kind {
        PlotKind::Frontier => frontier::text(points),
        _ if runs.is_empty() => Err(Error::Nothing("no run has its history (run --pictures)")),
        PlotKind::Map => Ok(each(runs, |run| map::text(run, share))),
        PlotKind::Orders => Ok(each(runs, |run| orders::text(run, share))),
        PlotKind::Matrix => Ok(each(runs, matrix::text)),
        PlotKind::Timeline => Ok(each(runs, timeline::text)),
    }
}

fn each(runs: &[Opened], text: impl Fn(&Opened) -> String) -> String {
    let parts: Vec<String> = runs.iter().map(|run| heading(run) + &text(run)).collect();
    parts.join("\n")
}

/// Returns the name of a run, cut where a line ends.
fn heading(run: &Opened) -> String {
    let line = format!("{} on {}", run.name, run.workload);
    let mut text = String::new();
    let letters: Vec<char> = line.chars().collect();
    for part in letters.chunks(WIDTH) {
        text.extend(part);
        text.push('\n');
    }
    text
}

/// Returns a time in words.
fn time(us: u64) -> String {
    match us as f64 / 1e6 {
        seconds if seconds >= 7200.0 => format!("{:.2} h", seconds / 3600.0),
        seconds if seconds >= 600.0 => format!("{:.1} min", seconds / 60.0),
        seconds => format!("{seconds:.2} s"),
    }
}

/// Returns a bar of at most `width` characters.
fn bar(value: f64, most: f64, width: usize) -> String {
    let share = if most > 0.0 { value / most } else { 0.0 };
    let length = (share * width as f64).round() as usize;
    // What is there at all is seen.
    "#".repeat(length.clamp(usize::from(value > 0.0), width))
}
