//! Progress bars on standard error, if that is a terminal.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use pageblock_plan::watch::{Bar, Watch};

use crate::interrupt;
use crate::output::{self, in_line};

/// A progress bar of a long command. It draws nothing if standard error is not a terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
}

/// The resolution of a bar for shares.
const WHOLE: u64 = 10_000;

impl Progress {
    /// Makes a bar for `total` of a unit, such as events; 0 if the total is not known yet.
    pub(crate) fn new(what: &str, total: u64, unit: &str) -> Self {
        let progress = Self::with(what, &format!("{{human_pos}} {{total}}{unit}{{left}}"));
        if total > 0 {
            progress.resize(total);
        }
        progress
    }

    /// Makes a bar for shares of a whole ([`set_share`](Self::set_share)).
    pub(crate) fn of_shares(what: &str) -> Self {
        let progress = Self::with(what, "{percent} %{left}");
        progress.resize(WHOLE);
        progress
    }

    fn with(what: &str, numbers: &str) -> Self {
        // If a template is wrong, the default bar is shown.
        let style = ProgressStyle::with_template(&format!("{{msg}} {{wide_bar}} {numbers}"))
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .with_key("total", |state: &ProgressState, text: &mut dyn Write| {
                let of = state
                    .len()
                    .map_or(String::new(), |len| format!("of {} ", indicatif::HumanCount(len)));
                // Writing to a string cannot fail.
                let _ = text.write_str(&of);
            })
            .with_key("left", |state: &ProgressState, text: &mut dyn Write| {
                if let Some(left) = left(state.elapsed(), state.pos(), state.len()) {
                    let _ = write!(text, ", {} left", indicatif::HumanDuration(left));
                }
            });
        let bar = ProgressBar::no_length().with_style(style).with_message(in_line(what));
        Self { bar }
    }

    /// Sets the total, if it was not known before.
    pub(crate) fn resize(&self, total: u64) {
        self.bar.set_length(total);
    }

    /// Sets how many are done. Cheap, but not enough for every event: call it every few thousand.
    pub(crate) fn set(&self, done: u64) {
        self.bar.set_position(done);
    }

    /// Sets the share that is done, from 0 to 1. The bar never moves backwards.
    pub(crate) fn set_share(&self, share: f64) {
        let done = (share.clamp(0.0, 1.0) * WHOLE as f64) as u64;
        self.bar.set_position(done.max(self.bar.position()));
        if done == WHOLE {
            // The final state is drawn even if the bar was drawn a moment ago.
            self.bar.force_draw();
        }
    }

    /// Sets the text before the bar.
    pub(crate) fn say(&self, what: String) {
        self.bar.set_message(what);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Returns the watcher of a program that runs in a terminal: bars, and Ctrl-C.
pub(crate) fn terminal() -> Arc<dyn Watch> {
    Arc::new(Terminal)
}

struct Terminal;

impl Watch for Terminal {
    fn bar(&self, what: &str, total: u64, unit: &str) -> Box<dyn Bar> {
        Box::new(Progress::new(what, total, unit))
    }

    fn shares(&self, what: &str) -> Box<dyn Bar> {
        Box::new(Progress::of_shares(what))
    }

    fn stopped(&self) -> bool {
        interrupt::requested()
    }

    fn keep(&self, finished: String) {
        interrupt::keep(finished);
    }

    fn warn(&self, text: &str) {
        output::note(&format!("warning: {text}\n"));
    }

    fn note(&self, text: &str) {
        output::note(&format!("{text}\n"));
    }
}

impl Bar for Progress {
    fn resize(&self, total: u64) {
        Self::resize(self, total);
    }

    fn set(&self, done: u64) {
        Self::set(self, done);
    }

    fn set_share(&self, share: f64) {
        Self::set_share(self, share);
    }

    fn say(&self, what: String) {
        Self::say(self, what);
    }
}

/// The elapsed time below which the pace is unknown.
const PACE_KNOWN: Duration = Duration::from_secs(2);

/// Returns the estimated remaining time; `None` if the pace is unknown or nothing remains.
fn left(elapsed: Duration, done: u64, total: Option<u64>) -> Option<Duration> {
    let rest = total?.checked_sub(done).filter(|&rest| rest > 0 && done > 0)?;
    if elapsed < PACE_KNOWN {
        return None;
    }
    Some(elapsed.mul_f64(rest as f64 / done as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remaining_time_is_extrapolated_from_the_pace() {
        let time = PACE_KNOWN;
        assert_eq!(left(time, 1, Some(4)), Some(3 * time));
        assert_eq!(left(time / 2, 1, Some(4)), None);
        assert_eq!(left(time, 0, Some(4)), None);
        assert_eq!(left(time, 4, Some(4)), None);
        assert_eq!(left(time, 5, Some(4)), None);
        assert_eq!(left(time, 5, None), None);
    }

    #[test]
    fn a_share_never_decreases_nor_exceeds_the_end() {
        let progress = Progress::of_shares("simulating");
        for (share, position) in [(0.5, WHOLE / 2), (0.4, WHOLE / 2), (1.5, WHOLE), (0.0, WHOLE)] {
            progress.set_share(share);
            assert_eq!(progress.bar.position(), position);
        }
    }
}
