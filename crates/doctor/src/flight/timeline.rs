//! The rows of a flight file: the state and the activity of memory between two moments.

use std::collections::BTreeMap;

use serde::Serialize;

use super::damage::Damage;
use super::frame::{Event, EventKind, FileText};
use super::read::{Extent, Flight, Moment};
use crate::checkup::{Checkup, Rates, Sample, checkup};
use crate::error::Error;
use crate::proc::tree::Missing;

/// The content of a flight file, by rows.
#[derive(Clone, Debug, Serialize)]
pub struct Timeline {
    /// The file.
    pub file: String,
    /// The time of the first sample, in UTC.
    pub from: String,
    /// The time of the last.
    pub to: String,
    /// The samples.
    pub samples: u64,
    /// The bytes of the samples.
    pub bytes: u64,
    /// The kernel's version.
    pub version: Option<String>,
    /// How often the machine was booted in between.
    pub boots: u64,
    /// The longest time without a sample, in seconds.
    pub longest_gap_s: f64,
    /// Failures and stalls.
    pub events: Vec<Happened>,
    /// The rows.
    pub rows: Vec<Row>,
    /// The parts that could not be read, with their times.
    pub damage: Vec<String>,
}

/// A failure or a stall, with its time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Happened {
    /// The time in UTC.
    pub time: String,
    /// Milliseconds since 1970.
    #[serde(skip)]
    pub wall_ms: u64,
    /// Its kind.
    pub kind: EventKind,
    /// The line of the log, or the figures.
    pub text: String,
}

impl Happened {
    pub(super) fn new(moment: &Moment<'_>, event: &Event) -> Self {
        let wall_ms = moment.wall_ms();
        Self { time: super::time(wall_ms), wall_ms, kind: event.kind, text: event.text.clone() }
    }
}

/// The state of memory at the end of a row, and the rates since the row before.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The time at its end, in UTC.
    pub time: String,
    /// Milliseconds since 1970.
    #[serde(skip)]
    pub wall_ms: u64,
    /// Free memory in MiB.
    pub free_mib: Option<u64>,
    /// Memory that is available without swapping, in MiB.
    pub available_mib: Option<u64>,
    /// The share of free memory in blocks below a pageblock, in thousandths.
    pub unusable: Option<u64>,
    /// Rates since the row before; null if the machine was booted in between.
    pub rates: Option<Rates>,
}

impl Row {
    fn new(wall_ms: u64, sample: &Sample, before: Option<&Sample>) -> Self {
        let made: Checkup = checkup(before.unwrap_or(sample), before.map(|_| sample));
        Self {
            time: super::time(wall_ms),
            wall_ms,
            free_mib: made.free.map(|free| free * made.page_kb / 1024),
            available_mib: sample.kb("MemAvailable").map(|kb| kb / 1024),
            unusable: made.unusable.get(usize::from(made.pageblock_order)).copied(),
            rates: made.rates,
        }
    }
}

/// The state at a moment, and its time.
struct At {
    wall_ms: u64,
    sample: Sample,
}

fn at(flight: &Flight, moment: &Moment<'_>) -> At {
    let sample = Sample::read(&flight.tree(moment.files(), None), false);
    At { wall_ms: moment.wall_ms(), sample }
}

fn uptime(moment: &Moment<'_>) -> Option<f64> {
    moment.file("/proc/uptime")?.ok()?.split_whitespace().next()?.parse().ok()
}

/// Reads a flight file by rows of a length, between two times (milliseconds since 1970).
///
/// # Errors
/// If the file cannot be read, or has no sample in that time.
pub fn timeline(flight: &Flight, from: u64, to: u64, row_ms: u64) -> Result<Timeline, Error> {
    let mut rows = Vec::new();
    let mut events = Vec::new();
    let (mut boots, mut gap_ms, mut last_uptime) = (0, 0, None::<f64>);
    let mut first = None;
    let mut last_ms = 0;
    let mut before: Option<At> = None;
    let mut version = None;
    let mut samples = 0;
    let see = &mut |moment: &Moment<'_>| {
        let now = moment.wall_ms();
        if now < from || now > to {
            return now <= to;
        }
        samples += 1;
        events.extend(moment.events.iter().map(|event| Happened::new(moment, event)));
        let up = uptime(moment);
        let booted = up.zip(last_uptime).is_some_and(|(now, last)| now < last);
        boots += u64::from(booted);
        last_uptime = up.or(last_uptime);
        if first.is_none() {
            first = Some(now);
        } else {
            gap_ms = gap_ms.max(now.saturating_sub(last_ms));
        }
        last_ms = now;
        let due = before.as_ref().is_none_or(|at| now.saturating_sub(at.wall_ms) >= row_ms);
        if due || booted {
            let state = at(flight, moment);
            version = version.take().or_else(|| state.sample.release());
            let before_it = before.take().filter(|_| !booted);
            rows.push(Row::new(now, &state.sample, before_it.as_ref().map(|at| &at.sample)));
            before = Some(state);
        }
        true
    };
    let Extent { bytes, damage, .. } = flight.each(see)?;
    let Some(first) = first else { return Err(none(flight, from, to)?) };
    Ok(Timeline {
        file: flight.path().display().to_string(),
        from: super::time(first),
        to: super::time(last_ms),
        samples,
        bytes,
        version,
        boots,
        longest_gap_s: gap_ms as f64 / 1000.0,
        events,
        rows,
        damage: damage.iter().map(ToString::to_string).collect(),
    })
}

/// Returns the error for a time without a sample. It names the time that the file covers.
pub(super) fn none(flight: &Flight, from: u64, to: u64) -> Result<Error, Error> {
    let (first, last) = super::span(flight)?;
    let time = super::time;
    let why = format!(
        "no sample from {} to {}; it covers {} to {}",
        time(from),
        time(to),
        time(first),
        time(last)
    );
    Ok(Error::Unusable { path: flight.path().to_owned(), why })
}

/// Returns the samples at the last moments up to two times, the second with the log of all moments up to it.
///
/// # Errors
/// If the file cannot be read, does not cover the times, or has no sample between them.
pub fn pair(flight: &Flight, first_ms: u64, second_ms: u64) -> Result<(Sample, Sample), Error> {
    let (begin, end) = super::span(flight)?;
    if first_ms < begin || second_ms > end {
        return Err(none(flight, first_ms, second_ms)?);
    }
    let Moments { first, second, log, damage } = moments(flight, first_ms, second_ms)?;
    if first.0 == second.0 {
        return Err(none(flight, first_ms, second_ms)?);
    }
    let read = |(wall_ms, files): (u64, _), log: Option<&str>| {
        let mut sample = Sample::read(&flight.tree(files, log), log.is_some());
        sample.time = Some(super::time(wall_ms));
        sample
    };
    let log: String = log.into_iter().map(|(_, lines)| lines).collect();
    let mut later = read(second, Some(&log));
    later.missing.extend(damaged(flight, &damage));
    Ok((read(first, None), later))
}

/// Returns the unreadable parts of a file as missing files.
pub(super) fn damaged(flight: &Flight, damage: &[Damage]) -> Vec<Missing> {
    let file = flight.path().display().to_string();
    damage.iter().map(|damage| Missing { file: file.clone(), why: damage.to_string() }).collect()
}

/// The files at two moments, with their times, and the lines of the log of all moments up to the second.
pub(super) struct Moments {
    pub(super) first: (u64, BTreeMap<String, FileText>),
    pub(super) second: (u64, BTreeMap<String, FileText>),
    pub(super) log: Vec<(u64, String)>,
    pub(super) damage: Vec<Damage>,
}

/// Finds the last moments up to two times. The first moment of the file stands for times before it.
pub(super) fn moments(flight: &Flight, first_ms: u64, second_ms: u64) -> Result<Moments, Error> {
    // Texts are made of two moments only, so these are found first.
    let (mut first, mut second, mut number, mut log) = (0, 0, 0, Vec::new());
    let extent = flight.each(&mut |moment| {
        if moment.wall_ms() > second_ms && number > 0 {
            return false;
        }
        if moment.wall_ms() <= first_ms {
            first = number;
        }
        second = number;
        number += 1;
        if !moment.log.is_empty() {
            log.push((moment.wall_ms(), moment.log.to_owned()));
        }
        true
    })?;
    let (mut found, mut number) = (Vec::new(), 0);
    flight.each(&mut |moment| {
        if number == first || number == second {
            found.push((moment.wall_ms(), moment.files()));
        }
        number += 1;
        number <= second
    })?;
    let Some(second) = found.pop() else { return Err(none(flight, first_ms, second_ms)?) };
    let first = found.pop().unwrap_or_else(|| second.clone());
    Ok(Moments { first, second, log, damage: extent.damage })
}
