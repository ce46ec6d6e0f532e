//! Times of day in a log, and moments that users name.

use std::fmt;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde::{Serialize, Serializer};

const DAY_S: i64 = 86_400;

/// Months as logs of several languages write them.
const MONTHS: [&[&str]; 12] = [
    &["jan"],
    &["feb", "fév", "fev"],
    &["mar", "mär", "mrz"],
    &["apr", "avr", "abr"],
    &["may", "mai", "maj"],
    &["jun", "juin"],
    &["jul", "juil"],
    &["aug", "aoû", "ago"],
    &["sep", "set"],
    &["oct", "okt", "out"],
    &["nov"],
    &["dec", "dez", "déc", "dic"],
];

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is valid")
}

static ISO: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,]\d+)?)?)? ?(Z\b|UTC\b|[+-]\d\d:?\d\d)?",
    )
});
static NAMED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?:\b((?:19|20)\d\d) )?([^\s\d\[\]:.]{3,5}|\d{1,2}月)\.? {0,2}(\d{1,2})(?: (\d\d):(\d\d)(?::(\d\d)(?:\.\d+)?)?)?(?: ((?:19|20)\d\d)\b)?",
    )
});
static LOGCAT: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^()(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)\."));
static EPOCH: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(\d{10})\.\d{6} "));
static CLOCK: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(\d{1,2}):(\d\d)(?::(\d\d))?$"));

/// A date. Syslog prints no year.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Date {
    /// The year.
    pub year: Option<i64>,
    /// The month, from 1.
    pub month: u8,
    /// The day, from 1.
    pub day: u8,
}

/// The time of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// The date.
    pub date: Date,
    /// Seconds of the day.
    pub second: u32,
    /// The offset from UTC in seconds; `None` for the machine's local time, whose zone the log does not say.
    pub offset_s: Option<i64>,
}

impl Stamp {
    /// Returns the first time in a prefix.
    pub(super) fn find(prefix: &str) -> Option<Self> {
        if let Some(found) = EPOCH.captures(prefix) {
            return Self::of_utc(found[1].parse().ok()?);
        }
        let of = |found: &Captures<'_>, year: &str, month: u8| {
            let number = |group: usize| found.get(group)?.as_str().parse::<u32>().ok();
            // A date alone is no time of a line.
            let second = (number(4)? * 60 + number(5)?) * 60 + number(6).unwrap_or(0);
            let day = u8::try_from(number(3)?).ok()?;
            let date = Date { year: year.parse().ok(), month, day };
            let fits = (1..=12).contains(&month) && (1..=31).contains(&day);
            (fits && second < 86_461).then_some(Self { date, second, offset_s: None })
        };
        if let Some(found) = ISO.captures(prefix).or_else(|| LOGCAT.captures(prefix)) {
            let stamp = of(&found, &found[1], found[2].parse().ok()?)?;
            return Some(Self {
                offset_s: found.get(7).and_then(|zone| offset(zone.as_str())),
                ..stamp
            });
        }
        NAMED.captures_iter(prefix).find_map(|found| {
            let year = found.get(7).or(found.get(1)).map_or("", |year| year.as_str());
            of(&found, year, month(&found[2])?)
        })
    }

    /// Returns a time from seconds since 1970.
    fn of_utc(seconds: i64) -> Option<Self> {
        let (year, month, day) = civil(seconds.div_euclid(DAY_S));
        let date = Date { year: Some(year), month, day };
        let second = u32::try_from(seconds.rem_euclid(DAY_S)).ok()?;
        Some(Self { date, second, offset_s: Some(0) })
    }

    /// Returns the time in UTC, if the log says its zone and its year.
    #[must_use]
    pub fn utc(&self) -> Option<Self> {
        let Date { year, month, day } = self.date;
        Self::of_utc(days(year?, month, day) * DAY_S + i64::from(self.second) - self.offset_s?)
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Date { year, month, day } = self.date;
        if let Some(year) = year {
            write!(to, "{year}-")?;
        }
        let (hours, minutes, seconds) =
            (self.second / 3600, self.second / 60 % 60, self.second % 60);
        write!(to, "{month:02}-{day:02} {hours:02}:{minutes:02}:{seconds:02}")?;
        match self.offset_s {
            None => Ok(()),
            Some(0) => to.write_str(" UTC"),
            Some(offset) => {
                let (sign, offset) = (if offset < 0 { '-' } else { '+' }, offset.abs());
                write!(to, " UTC{sign}{:02}:{:02}", offset / 3600, offset / 60 % 60)
            }
        }
    }
}

impl Serialize for Stamp {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// A moment that a user names, in the log's own time unless it says UTC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moment {
    /// A time of every day, seconds of the day.
    Daily(u32),
    /// A time of one day; whether it is in UTC.
    Once(Date, u32, bool),
}

impl Moment {
    /// Parses `03:12`, `03:12:40`, `2026-11-23`, `2026-11-23T03:12`, `2026-11-23T03:12:40Z`, or `Nov 23 03:12`.
    ///
    /// # Errors
    /// If the text has another form; the error names the allowed ones.
    pub fn parse(text: &str) -> Result<Self, String> {
        let allowed = || {
            format!(
                "03:12, 03:12:40, 'Nov 23 03:12', 2026-11-23T03:12 in the log's own time, or 2026-11-23T03:12Z in UTC; \
                 not '{text}'"
            )
        };
        let clock = |found: &Captures<'_>, from: usize| {
            let number = |group: usize| {
                found.get(from + group).map_or(Some(0), |n| n.as_str().parse::<u32>().ok())
            };
            let (hours, minutes, seconds) = (number(0)?, number(1)?, number(2)?);
            (hours < 24 && minutes < 60 && seconds < 61)
                .then_some((hours * 60 + minutes) * 60 + seconds)
        };
        if let Some(found) = CLOCK.captures(text) {
            return clock(&found, 1).map(Self::Daily).ok_or_else(allowed);
        }
        let whole = |found: &Captures<'_>| found[0].len() == text.len();
        if let Some(found) = ISO.captures(text).filter(whole) {
            let zone = found.get(7).map(|zone| offset(zone.as_str()));
            let date = Date {
                year: found[1].parse().ok(),
                month: found[2].parse().unwrap_or(0),
                day: found[3].parse().unwrap_or(0),
            };
            let second = clock(&found, 4).ok_or_else(allowed)?;
            return match (fits(date), zone) {
                (true, None) => Ok(Self::Once(date, second, false)),
                (true, Some(Some(offset_s))) => {
                    let stamp = Stamp { date, second, offset_s: Some(offset_s) };
                    let utc = stamp.utc().ok_or_else(allowed)?;
                    Ok(Self::Once(utc.date, utc.second, true))
                }
                _ => Err(allowed()),
            };
        }
        if let Some(found) = NAMED.captures(text).filter(whole) {
            let date = Date {
                year: found.get(7).or(found.get(1)).and_then(|year| year.as_str().parse().ok()),
                month: month(&found[2]).ok_or_else(allowed)?,
                day: found[3].parse().unwrap_or(0),
            };
            let second = clock(&found, 4).ok_or_else(allowed)?;
            return if fits(date) { Ok(Self::Once(date, second, false)) } else { Err(allowed()) };
        }
        Err(allowed())
    }

    /// Returns the seconds from this moment to a line's time; `None` if the log does not say its zone, or its year.
    #[must_use]
    pub fn seconds_to(&self, stamp: &Stamp) -> Option<i64> {
        let second = |second: u32| i64::from(second);
        match *self {
            Self::Daily(at) => Some(second(stamp.second) - second(at)),
            Self::Once(date, at, utc) => {
                let stamp = if utc { stamp.utc()? } else { *stamp };
                // Without a year, both are of one.
                let year = match (date.year, stamp.date.year) {
                    (Some(own), Some(its)) => (own, its),
                    _ => (2000, 2000),
                };
                let own = days(year.0, date.month, date.day);
                let its = days(year.1, stamp.date.month, stamp.date.day);
                Some((its - own) * DAY_S + second(stamp.second) - second(at))
            }
        }
    }
}

const fn fits(date: Date) -> bool {
    matches!((date.month, date.day), (1..=12, 1..=31))
}

/// Returns the number of a month by its first three letters.
fn month(name: &str) -> Option<u8> {
    if let Some(number) = name.strip_suffix('月') {
        return number.parse().ok();
    }
    let name = name.to_lowercase();
    // Some languages write four letters, and five.
    let begins = |start: &&str| name.starts_with(*start);
    let at = MONTHS.iter().position(|names| names.iter().any(begins))?;
    u8::try_from(at + 1).ok()
}

/// Parses an offset from UTC. Returns it in seconds.
fn offset(zone: &str) -> Option<i64> {
    if matches!(zone, "Z" | "UTC") {
        return Some(0);
    }
    let digits = zone[1..].replace(':', "");
    let (hours, minutes) =
        (digits.get(..2)?.parse::<i64>().ok()?, digits.get(2..)?.parse::<i64>().ok()?);
    let offset = (hours * 60 + minutes) * 60;
    Some(if zone.starts_with('-') { -offset } else { offset })
}

/// Returns the days since 1970 of a date of the Gregorian calendar.
fn days(year: i64, month: u8, day: u8) -> i64 {
    let (month, day) = (i64::from(month), i64::from(day));
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Returns the date of a number of days since 1970: year, month, day.
fn civil(days: i64) -> (i64, u8, u8) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let small = |number: i64| u8::try_from(number).unwrap_or(1);
    (year + era * 400 + i64::from(month <= 2), small(month), small(day))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_day_are_read_with_their_zone_if_it_is_said() {
        for (prefix, text) in [
            ("Feb  9 08:09:39 host kernel: ", Some("02-09 08:09:39")),
            ("2020 Okt  9 08:09:39.123 host kernel: ", Some("2020-10-09 08:09:39")),
            ("[Mon Apr 20 15:08:07 2020] ", Some("2020-04-20 15:08:07")),
            ("[May26 14:03] ", Some("05-26 14:03:00")),
            ("[Di Aug 12 03:54:03 2025] ", Some("2025-08-12 03:54:03")),
            ("[mar. août 12 03:54:03 2025] ", Some("2025-08-12 03:54:03")),
            ("[二  8月 12 03:54:03 2025] ", Some("2025-08-12 03:54:03")),
            ("juin 12 03:54:03 host kernel: ", Some("06-12 03:54:03")),
            ("juil. 12 03:54:03 host kernel: ", Some("07-12 03:54:03")),
            // A host may have a number for its name.
            ("Apr  2 06:15:11 1024 kernel: ", Some("04-02 06:15:11")),
            (
                "2024-01-31T10:11:12.123456+01:00 host kernel: ",
                Some("2024-01-31 10:11:12 UTC+01:00"),
            ),
            ("2024-01-31T10:11:12-0530 host kernel: ", Some("2024-01-31 10:11:12 UTC-05:30")),
            ("2024-01-31T10:11:12.5Z ", Some("2024-01-31 10:11:12 UTC")),
            ("Wed 2024-01-31 10:11:12 CET host kernel: ", Some("2024-01-31 10:11:12")),
            ("Sun Jun  6 16:14:57 2021 kern.warn kernel: ", Some("2021-06-06 16:14:57")),
            ("11-08 10:00:01.001     0     0 W         : ", Some("11-08 10:00:01")),
            ("1604826001.123456 host kernel: ", Some("2020-11-08 09:00:01 UTC")),
            ("<4>[   72.087057][ T1234] ", None),
            ("", None),
        ] {
            assert_eq!(
                Stamp::find(prefix).map(|stamp| stamp.to_string()).as_deref(),
                text,
                "{prefix}"
            );
        }
    }

    #[test]
    fn moments_are_of_the_log_unless_they_say_utc() {
        let local = Stamp::find("Feb  9 08:09:39 host kernel: ").unwrap();
        let zoned = Stamp::find("2024-02-09T08:09:39+01:00 host kernel: ").unwrap();
        for (text, to_local, to_zoned) in [
            ("08:09", Some(39), Some(39)),
            ("8:09:40", Some(-1), Some(-1)),
            ("2024-02-09", Some(29_379), Some(29_379)),
            ("2024-02-08T08:09", Some(86_439), Some(86_439)),
            ("2023-02-09 08:09:39", Some(0), Some(365 * 86_400)),
            ("Feb 9 08:09:38", Some(1), Some(1)),
            ("2024-02-09T07:09:39Z", None, Some(0)),
            ("2024-02-09T08:09:39+01:00", None, Some(0)),
        ] {
            let moment = Moment::parse(text).unwrap();
            assert_eq!(moment.seconds_to(&local), to_local, "{text}");
            assert_eq!(moment.seconds_to(&zoned), to_zoned, "{text}");
        }
        for text in ["", "25:00", "yesterday", "2024-13-01", "Foo 3 10:00", "03:12 or so"] {
            assert!(Moment::parse(text).is_err(), "{text}");
        }
    }
}
