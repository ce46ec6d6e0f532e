//! Curves over time as text: a character an interval.

use super::time;
use crate::opened::Opened;
use crate::series;

/// The intervals of a curve.
const COLUMNS: usize = 60;
/// From the least to the most.
const RAMP: &[u8] = b" .:-=+*#%@";

pub(super) fn text(run: &Opened) -> String {
    let times = &run.history.times_us;
    let end = times.last().copied().unwrap_or(0);
    let mut text =
        format!("0 to {}; each curve from ' ' (0) over .:-=+*#% to @ (its most)\n", time(end));
    for curve in series::timeline(run) {
        let most = curve.values.iter().copied().fold(0.0, f64::max);
        text += &format!(
            "{}, at most {}\n  |{}|\n",
            curve.title,
            series::short(most),
            line(&curve.values, times, most)
        );
    }
    text
}

/// Returns the largest value of each interval of time.
fn line(values: &[f64], times: &[u64], most: f64) -> String {
    let (first, last) = (times.first().copied().unwrap_or(0), times.last().copied().unwrap_or(0));
    let mut columns = [None; COLUMNS];
    for (value, at) in values.iter().zip(times) {
        let share = (at - first) as f64 / (last - first).max(1) as f64;
        let column = &mut columns[((share * COLUMNS as f64) as usize).min(COLUMNS - 1)];
        *column = Some(column.map_or(*value, |seen: f64| seen.max(*value)));
    }
    let mut last = 0.0;
    let characters = columns.into_iter().map(|column| {
        last = column.unwrap_or(last);
        let step = if most > 0.0 { (last / most * (RAMP.len() - 1) as f64).ceil() } else { 0.0 };
        char::from(RAMP[(step as usize).min(RAMP.len() - 1)])
    });
    characters.collect()
}
