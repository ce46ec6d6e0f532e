//! Curves over time as text: a character an interval.

use super::time;
use crate::opened::Opened;
use crate::series;

/// The intervals of a curve.
const COLUMNS: usize = 60;
/// From the least to the most.
const RAMP: &[u8] = b" .:-=+*#%@";

pub(super) fn text(run: &Opened) -> String {
    let end = run.history.times_us.last().copied().unwrap_or(0);
    let mut text = format!(
        "0 to {}; a character is an equal part of the run,\nfrom ' ' (0) over .:-=+*#% to @ (its most)\n",
        time(end)
    );
    for curve in series::timeline(run) {
        let most = curve.values.iter().copied().fold(0.0, f64::max);
        text += &format!(
            "{}, at most {}\n  |{}|\n",
            curve.title,
            series::short(most),
            line(&curve.values, most)
        );
    }
    text
}

/// Returns the largest value of each interval of samples.
fn line(values: &[f64], most: f64) -> String {
    let column = |at: usize| {
        let from = at * values.len() / COLUMNS;
        let to = ((at + 1) * values.len() / COLUMNS).clamp(from + 1, values.len());
        let value = values[from.min(to - 1)..to].iter().copied().fold(0.0, f64::max);
        let share = if most > 0.0 { value / most } else { 0.0 };
        let step = (share * (RAMP.len() - 1) as f64).ceil() as usize;
        char::from(RAMP[step.min(RAMP.len() - 1)])
    };
    (0..COLUMNS).map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn a_curve_is_a_line_of_its_own_scale() {
        let rising: Vec<f64> = (0..=120).map(f64::from).collect();
        let drawn = line(&rising, 120.0);
        assert_eq!(drawn.len(), 60);
        assert!(drawn.starts_with('.') && drawn.ends_with('@'), "{drawn}");
        assert_eq!(line(&[0.0], 0.0), " ".repeat(60));
        assert_eq!(line(&[0.0, 7.0], 7.0), format!("{}{}", " ".repeat(30), "@".repeat(30)));
    }
}
