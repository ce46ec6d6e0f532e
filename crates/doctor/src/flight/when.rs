//! Moments as users write them.

use chrono::{DateTime, Local, NaiveDate, NaiveTime, TimeZone, Timelike};

use super::read::Flight;
use crate::error::Error;

/// The milliseconds of a day.
const DAY_MS: u64 = 86_400_000;

/// A moment of a flight file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// A time: milliseconds since 1970.
    At(u64),
    /// A time of the last day in UTC: milliseconds since midnight.
    OfDay(u64),
    /// A time of the last day in the local time of this machine: seconds since midnight.
    OfLocalDay(u32),
    /// Milliseconds before the last sample.
    Before(u64),
}

impl When {
    /// Reads a time in the local time of this machine (`03:12`, `03:12:05`, `2026-11-23 03:12`), in UTC or another zone
    /// (`03:12Z`, `2026-11-23T18:40:05Z`, `2026-11-23T18:40:05+02:00`), or before the last sample (`-10m`, `-1h30m`).
    ///
    /// # Errors
    /// Which forms are allowed, if the text has none of them.
    pub fn new(text: &str) -> Result<Self, String> {
        let found = match text.strip_prefix('-') {
            Some(before) => before_last(before),
            None if text.contains('-') => of_date(text),
            None => of_day(text),
        };
        found.ok_or_else(|| {
            format!(
                "a local time such as 03:12 or 2026-11-23 03:12:05, the same in UTC with a Z at its end, or -10m; not '{text}'"
            )
        })
    }

    /// Returns the milliseconds since 1970, by the time of the last sample.
    #[must_use]
    pub fn ms(self, last_ms: u64) -> u64 {
        match self {
            Self::At(ms) => ms,
            Self::Before(ms) => last_ms.saturating_sub(ms),
            Self::OfLocalDay(second) => local_day(last_ms, second).unwrap_or(last_ms),
            Self::OfDay(ms) => {
                let today = last_ms - last_ms % DAY_MS + ms;
                // Later than the last sample: the day before.
                if today > last_ms { today.saturating_sub(DAY_MS) } else { today }
            }
        }
    }
}

fn before_last(text: &str) -> Option<When> {
    let before = humantime::parse_duration(text).ok()?;
    u64::try_from(before.as_millis()).ok().map(When::Before)
}

/// Reads a time of day, with seconds or without.
fn time_of_day(text: &str) -> Option<NaiveTime> {
    let of = |form| NaiveTime::parse_from_str(text, form).ok();
    of("%H:%M:%S").or_else(|| of("%H:%M"))
}

fn of_day(text: &str) -> Option<When> {
    let utc = text.strip_suffix('Z');
    let second = time_of_day(utc.unwrap_or(text))?.num_seconds_from_midnight();
    Some(match utc {
        Some(_) => When::OfDay(u64::from(second) * 1000),
        None => When::OfLocalDay(second),
    })
}

fn of_date(text: &str) -> Option<When> {
    let at = |ms: i64| u64::try_from(ms).ok().map(When::At);
    if let Ok(zoned) = DateTime::parse_from_rfc3339(&text.replacen(' ', "T", 1)) {
        return at(zoned.timestamp_millis());
    }
    let utc = text.strip_suffix('Z');
    let (date, time) = utc.unwrap_or(text).split_once(['T', ' '])?;
    let date = NaiveDate::parse_from_str(date, "%Y-%m-%d").ok()?.and_time(time_of_day(time)?);
    match utc {
        Some(_) => at(date.and_utc().timestamp_millis()),
        // An hour that is there twice is its first; one that is left out does not exist.
        None => at(Local.from_local_datetime(&date).earliest()?.timestamp_millis()),
    }
}

/// Returns the last such time of a local day up to a moment.
fn local_day(last_ms: u64, second: u32) -> Option<u64> {
    let last = Local.timestamp_millis_opt(i64::try_from(last_ms).ok()?).single()?;
    let time = NaiveTime::from_num_seconds_from_midnight_opt(second, 0)?;
    let days = [last.date_naive(), last.date_naive().pred_opt()?];
    let found = days.into_iter().find_map(|day| {
        let at = Local.from_local_datetime(&day.and_time(time)).earliest()?;
        (at <= last).then_some(at)
    });
    u64::try_from(found?.timestamp_millis()).ok()
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
        assert_eq!(text("18:39:00Z"), "2026-11-23T18:39:00Z");
        assert_eq!(text("03:12Z"), "2026-11-23T03:12:00Z");
        assert_eq!(text("19:00:00Z"), "2026-11-22T19:00:00Z");
        assert_eq!(text("-1h 30m"), "2026-11-23T17:10:05Z");
        assert_eq!(text("2026-11-20 01:02:03Z"), "2026-11-20T01:02:03Z");
        assert_eq!(text("2026-11-20T01:02:03+02:00"), "2026-11-19T23:02:03Z");
        // Without a zone it is local time: what the clock of this machine shows.
        let local = |when: &str| {
            let ms = When::new(when).unwrap().ms(last);
            let at = Local.timestamp_millis_opt(ms as i64).unwrap();
            assert!(ms <= last && last - ms <= DAY_MS);
            at.format("%H:%M:%S").to_string()
        };
        assert_eq!(
            (local("18:39:00"), local("03:12")),
            ("18:39:00".to_owned(), "03:12:00".to_owned())
        );
        let dated = When::new("2026-11-20 01:02:03").unwrap().ms(last);
        let dated = Local.timestamp_millis_opt(dated as i64).unwrap();
        assert_eq!(dated.format("%Y-%m-%d %H:%M:%S").to_string(), "2026-11-20 01:02:03");
        for wrong in ["", "-", "yesterday", "25:00:00", "-5x", "2026-13-01T00:00:00Z"] {
            assert!(When::new(wrong).is_err(), "{wrong}");
        }
    }
}
