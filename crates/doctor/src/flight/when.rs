//! Moments as users write them.

use std::time::{Duration, UNIX_EPOCH};

use super::read::Flight;
use crate::error::Error;

/// The milliseconds of a day.
const DAY_MS: u64 = 86_400_000;

/// A moment of a flight file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// A time: milliseconds since 1970.
    At(u64),
    /// A time of the last day: milliseconds since midnight.
    OfDay(u64),
    /// Milliseconds before the last sample.
    Before(u64),
}

impl When {
    /// Reads a time in UTC (`2026-11-23T18:40:05Z`, `18:40:05`) or before the last sample (`-10m`, `-1h30m`).
    ///
    /// # Errors
    /// Which forms are allowed, if the text has none of them.
    pub fn new(text: &str) -> Result<Self, String> {
        let refused = || {
            format!("a time in UTC such as 2026-11-23T18:40:05Z or 18:40:05, or -10m; not '{text}'")
        };
        let ms = |time: Duration| u64::try_from(time.as_millis()).ok();
        let found = if let Some(before) = text.strip_prefix('-') {
            humantime::parse_duration(before).ok().and_then(ms).map(Self::Before)
        } else if text.contains('-') {
            let time = humantime::parse_rfc3339_weak(text).ok();
            time.and_then(|time| ms(time.duration_since(UNIX_EPOCH).ok()?)).map(Self::At)
        } else {
            // The rest of the form is that of a time.
            let time = humantime::parse_rfc3339_weak(&format!(
                "1970-01-01T{}",
                text.trim_end_matches('Z')
            ))
            .ok();
            time.and_then(|time| ms(time.duration_since(UNIX_EPOCH).ok()?)).map(Self::OfDay)
        };
        found.ok_or_else(refused)
    }

    /// Returns the milliseconds since 1970, by the time of the last sample.
    #[must_use]
    pub fn ms(self, last_ms: u64) -> u64 {
        match self {
            Self::At(ms) => ms,
            Self::Before(ms) => last_ms.saturating_sub(ms),
            Self::OfDay(ms) => {
                let today = last_ms - last_ms % DAY_MS + ms;
                // Later than the last sample: the day before.
                if today > last_ms { today.saturating_sub(DAY_MS) } else { today }
            }
        }
    }
}

/// Returns the times of the first and the last sample, milliseconds since 1970.
///
/// # Errors
/// If the file cannot be read or has no sample.
pub fn span(flight: &Flight) -> Result<(u64, u64), Error> {
    let mut span = None;
    flight.each(&mut |moment| {
        let now = moment.wall_ms();
        span = Some(span.map_or((now, now), |(first, _)| (first, now)));
        true
    })?;
    span.ok_or_else(|| none(flight))
}

/// Returns the time of the last sample, milliseconds since 1970.
///
/// # Errors
/// If the file cannot be read or has no sample.
pub fn last_ms(flight: &Flight) -> Result<u64, Error> {
    span(flight).map(|(_, last)| last)
}

/// Returns the time of the first sample, milliseconds since 1970.
///
/// # Errors
/// If the file cannot be read or has no sample.
pub fn first_ms(flight: &Flight) -> Result<u64, Error> {
    let mut first = None;
    flight.each(&mut |moment| {
        first = Some(moment.wall_ms());
        false
    })?;
    first.ok_or_else(|| none(flight))
}

fn none(flight: &Flight) -> Error {
    Error::Unusable { path: flight.path().to_owned(), why: "no whole sample in it".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_that_people_write() {
        let last = When::new("2026-11-23T18:40:05Z").unwrap().ms(0);
        assert_eq!(super::super::time(last), "2026-11-23T18:40:05Z");
        let text = |when: &str| super::super::time(When::new(when).unwrap().ms(last));
        assert_eq!(text("18:39:00"), "2026-11-23T18:39:00Z");
        assert_eq!(text("19:00:00Z"), "2026-11-22T19:00:00Z");
        assert_eq!(text("-1h 30m"), "2026-11-23T17:10:05Z");
        assert_eq!(text("2026-11-20 01:02:03"), "2026-11-20T01:02:03Z");
        for wrong in ["", "-", "yesterday", "25:00:00", "-5x", "2026-13-01T00:00:00Z"] {
            assert!(When::new(wrong).is_err(), "{wrong}");
        }
    }
}
