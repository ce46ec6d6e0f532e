//! The part of a log's time that a user asks for.

use crate::Explanation;
use crate::log::{Moment, Stamp};

/// The time before and after a moment within which reports are near it.
const NEAR_S: i64 = 300;

/// A part of a log's time; reports outside are left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Window {
    /// The first moment.
    pub since: Option<Moment>,
    /// The last moment.
    pub until: Option<Moment>,
    /// A moment: five minutes before and after it.
    pub at: Option<Moment>,
}

impl Window {
    /// Keeps the reports of this time. Returns the number of those without a time, which are removed too.
    ///
    /// # Errors
    /// If no report has a time that can be compared.
    pub fn keep(&self, found: &mut Vec<Explanation>) -> Result<usize, &'static str> {
        if *self == Self::default() || found.is_empty() {
            return Ok(0);
        }
        let inside: Vec<Option<bool>> = found.iter().map(|of| self.has(of)).collect();
        if inside.iter().all(Option::is_none) {
            let has_times = found.iter().any(|of| of.report.at.is_some());
            return Err(match has_times {
                true => {
                    "the log does not say its zone; give the moment in the log's own time, without Z"
                }
                false => {
                    "no report in the log has a time of day; journalctl -k and dmesg -T print it"
                }
            });
        }
        let mut kept = inside.iter();
        found.retain(|_| kept.next().copied().flatten() == Some(true));
        Ok(inside.iter().filter(|inside| inside.is_none()).count())
    }

    /// Returns whether a report is of this time; `None` if its time cannot be compared.
    fn has(&self, of: &Explanation) -> Option<bool> {
        let first = of.report.at?;
        let last = of.report.notice.as_ref().and_then(|notice| notice.last_at).unwrap_or(first);
        let seconds = |moment: &Option<Moment>, stamp: &Stamp| match moment {
            Some(moment) => moment.seconds_to(stamp).map(Some),
            None => Some(None),
        };
        let after = seconds(&self.since, &last)?.is_none_or(|seconds| seconds >= 0);
        let before = seconds(&self.until, &first)?.is_none_or(|seconds| seconds <= 0);
        let near = match (seconds(&self.at, &first)?, seconds(&self.at, &last)?) {
            (Some(first), Some(last)) => first <= NEAR_S && last >= -NEAR_S,
            _ => true,
        };
        Some(after && before && near)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain;

    const LOG: &str = "Nov  8 03:08:00 h kernel: a: page allocation failure: order:0, mode:0x20\n\
                       Nov  8 03:20:00 h kernel: b: page allocation failure: order:0, mode:0x20\n\
                       Nov  9 03:12:30 h kernel: c: page allocation failure: order:0, mode:0x20\n\
                       [ 1.5] d: page allocation failure: order:0, mode:0x20\n";

    #[test]
    fn reports_of_the_time_that_is_asked_for_are_kept() {
        let moment = |text: &str| Some(Moment::parse(text).unwrap());
        for (window, tasks) in [
            (Window { at: moment("03:12"), ..Window::default() }, "a c"),
            (Window { at: moment("Nov 8 03:12"), ..Window::default() }, "a"),
            (Window { since: moment("Nov 8 03:20"), ..Window::default() }, "b c"),
            (Window { until: moment("2026-11-08T23:59"), ..Window::default() }, "a b"),
        ] {
            let mut found = explain(LOG);
            assert_eq!(window.keep(&mut found), Ok(1));
            let kept: Vec<&str> = found.iter().filter_map(|of| of.report.task.as_deref()).collect();
            assert_eq!(kept.join(" "), tasks, "{window:?}");
        }
    }

    #[test]
    fn a_log_that_does_not_say_its_zone_has_no_utc() {
        let window =
            Window { at: Some(Moment::parse("2026-11-08T03:12Z").unwrap()), ..Window::default() };
        assert!(window.keep(&mut explain(LOG)).unwrap_err().contains("zone"));
        let last = LOG.lines().next_back().unwrap();
        assert!(window.keep(&mut explain(last)).unwrap_err().contains("time of day"));
    }
}
