//! Detects stalls from counters.

use std::collections::VecDeque;

use pageblock_recording::VmStat;

use super::frame::{Event, EventKind};

/// The rate of direct compaction and direct reclaim, in requests per second, that counts as a stall: the rate at
/// which `pageblock doctor` says that fragmentation hurts.
pub(super) const REQUESTS: f64 = 20.0;
/// The percentage of time with tasks waiting for memory that counts as a stall; see `REQUESTS`.
pub(super) const PRESSURE: f64 = 5.0;
/// The seconds over which rates are measured.
const WINDOW: f64 = 10.0;
/// The smallest meaningful number of seconds.
const LEAST: f64 = 5.0;
/// The seconds without a stall after which the next one counts as a new stall.
const QUIET: f64 = 60.0;

/// The counters of a sample.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    uptime: f64,
    compact: u64,
    reclaim: u64,
    oom: u64,
    pressure_us: Option<u64>,
}

/// Looks for stalls in samples.
#[derive(Default)]
pub(super) struct Stalls {
    recent: VecDeque<Counters>,
    /// The time at which the current stall was last seen.
    since: Option<f64>,
}

impl Stalls {
    /// Examines the next sample: its `/proc/uptime`, `/proc/vmstat` and `/proc/pressure/memory`.
    pub(super) fn look(&mut self, uptime: &str, vmstat: &str, pressure: &str) -> Vec<Event> {
        let Some(now) = Counters::of(uptime, vmstat, pressure) else { return Vec::new() };
        let mut events = Vec::new();
        if self.recent.back().is_some_and(|last| last.uptime > now.uptime) {
            *self = Self::default();
        }
        if let Some(last) = self.recent.back()
            && now.oom > last.oom
        {
            let text = format!("oom_kill of /proc/vmstat rose by {}", now.oom - last.oom);
            events.push(Event { kind: EventKind::Oom, text });
        }
        self.recent.push_back(now);
        while self.recent.get(1).is_some_and(|second| now.uptime - second.uptime >= WINDOW) {
            self.recent.pop_front();
        }
        let what = self.recent.front().and_then(|first| now.since(first));
        match (what, self.since) {
            (Some(text), None) => {
                events.push(Event { kind: EventKind::Stall, text });
                self.since = Some(now.uptime);
            }
            (Some(_), Some(_)) => self.since = Some(now.uptime),
            (None, Some(since)) if now.uptime - since >= QUIET => self.since = None,
            (None, _) => {}
        }
        events
    }
}

impl Counters {
    fn of(uptime: &str, vmstat: &str, pressure: &str) -> Option<Self> {
        let mut counters =
            Self { uptime: uptime.split_whitespace().next()?.parse().ok()?, ..Self::default() };
        for (name, value) in VmStat::counters(vmstat) {
            match name {
                "compact_stall" => counters.compact = value,
                "oom_kill" => counters.oom = value,
                _ if name.starts_with("allocstall") => {
                    counters.reclaim = counters.reclaim.saturating_add(value);
                }
                _ => {}
            }
        }
        let some = pressure.lines().find(|line| line.starts_with("some "));
        counters.pressure_us =
            some.and_then(|line| line.split_once("total=")?.1.trim().parse().ok());
        Some(counters)
    }

    /// Describes the stall since an earlier sample.
    fn since(&self, first: &Self) -> Option<String> {
        let seconds = self.uptime - first.uptime;
        if seconds < LEAST {
            return None;
        }
        let rate = |from: u64, to: u64| to.saturating_sub(from) as f64 / seconds;
        let compact = rate(first.compact, self.compact);
        let reclaim = rate(first.reclaim, self.reclaim);
        let waited = first.pressure_us.zip(self.pressure_us);
        let waited = waited.map_or(0.0, |(from, to)| rate(from, to) / 10_000.0);
        let all = [
            (compact >= REQUESTS, format!("{compact:.0} requests/s compact memory themselves")),
            (reclaim >= REQUESTS, format!("{reclaim:.0} requests/s reclaim memory themselves")),
            (waited >= PRESSURE, format!("tasks wait for memory {waited:.0} % of the time (PSI)")),
        ];
        let seen: Vec<String> =
            all.into_iter().filter(|(is, _)| *is).map(|(_, text)| text).collect();
        (!seen.is_empty()).then(|| seen.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(stalls: &mut Stalls, second: u64, compact: u64, us: u64) -> Vec<String> {
        let vmstat = format!("nr_free_pages 7\ncompact_stall {compact}\noom_kill 0\n");
        let pressure = format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={us}\nfull total=0\n");
        let events = stalls.look(&format!("{second}.00 1.00\n"), &vmstat, &pressure);
        events.into_iter().map(|event| event.text).collect()
    }

    #[test]
    fn a_stall_is_told_once_and_again_after_a_quiet_minute() {
        let mut stalls = Stalls::default();
        let mut told = Vec::new();
        for second in 0..300_u64 {
            // Ten seconds with 30 requests a second, twice; the second time after a quiet minute.
            let busy = |from: u64| second.saturating_sub(from).min(10) * 30;
            let events = look(&mut stalls, second, busy(20) + busy(200), 0);
            told.extend(events.into_iter().map(|text| (second, text)));
        }
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].0 > 20 && told[0].0 <= 30, "{told:?}");
        assert!(told[0].1.contains("compact memory themselves"), "{told:?}");
    }

    #[test]
    fn waiting_tells_and_little_does_not() {
        let mut stalls = Stalls::default();
        for second in 0..60 {
            let quiet = look(&mut stalls, second, second * 19, second * 49_000);
            assert_eq!(quiet, Vec::<String>::new());
        }
        let mut stalls = Stalls::default();
        let mut told = (0..60).flat_map(|second| look(&mut stalls, second, 0, second * 51_000));
        assert_eq!(told.next().as_deref(), Some("tasks wait for memory 5 % of the time (PSI)"));
    }
}
