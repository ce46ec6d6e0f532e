//! The data that a mailing list would ask for: the state before and after a failure, and its interpretation.

use std::collections::BTreeMap;

use serde::Serialize;

use super::frame::{EventKind, FileText};
use super::read::Flight;
use super::timeline::{Happened, Moments, Timeline, damaged, moments, none, timeline};
use crate::checkup::{Checkup, Sample, checkup};
use crate::error::Error;
use crate::explain::{Explanation, explain};
use crate::proc::tree::Missing;

/// The time between a failure and the states before and after it.
const AROUND_MS: u64 = 60_000;
/// The time before the last sample, if the file has no failure.
const LATELY_MS: u64 = 5 * 60_000;
/// The rows around a failure: ten minutes before and after, one per minute.
const ROWS_MS: u64 = 10 * 60_000;
const ROW_MS: u64 = 60_000;

/// The data that a mailing list would ask for.
#[derive(Clone, Debug, Serialize)]
pub struct Bundle {
    /// The flight file.
    pub file: String,
    /// The failure or stall; null if the file has none.
    pub event: Option<Happened>,
    /// The state before.
    pub before: Around,
    /// The state after.
    pub after: Around,
    /// The checkup of the time in between.
    pub checkup: Checkup,
    /// The reports of the log, explained.
    pub explanations: Vec<Explanation>,
    /// The lines of the log.
    pub log: String,
    /// The minutes around the failure.
    pub timeline: Timeline,
    /// The counters of `/proc/vmstat` that changed: name, before, after.
    pub changed: Vec<(String, u64, u64)>,
}

/// The files at a moment.
#[derive(Clone, Debug, Serialize)]
pub struct Around {
    /// The time, in UTC.
    pub time: String,
    /// The files by the kernel's name.
    pub files: BTreeMap<String, String>,
    /// Files that could not be read.
    pub missing: Vec<Missing>,
}

impl Around {
    fn new((wall_ms, files): (u64, BTreeMap<String, FileText>)) -> Self {
        let mut around =
            Self { time: super::time(wall_ms), files: BTreeMap::new(), missing: Vec::new() };
        for (file, text) in files {
            match text {
                Ok(text) if file == "/proc/cmdline" => {
                    around.files.insert(file, of_memory(&text));
                }
                Ok(text) => {
                    around.files.insert(file, text);
                }
                Err(why) => around.missing.push(Missing { file, why }),
            }
        }
        around
    }
}

/// Returns the parameters of a command line that concern memory. Others may name disks, hosts or secrets.
fn of_memory(cmdline: &str) -> String {
    const NAMES: [&str; 18] = [
        "cma",
        "compact",
        "default_hugepagesz",
        "defrag",
        "hugepages",
        "hugetlb",
        "kernelcore",
        "lru_gen",
        "mem",
        "movable",
        "numa",
        "page_owner",
        "page_poison",
        "page_reporting",
        "slab",
        "slub",
        "thp_",
        "transparent_hugepage",
    ];
    let words = cmdline.split_whitespace();
    let kept: Vec<&str> =
        words.filter(|word| NAMES.iter().any(|name| word.starts_with(name))).collect();
    kept.join(" ") + "\n"
}

/// Makes a bundle from a flight file: for the time `at` (milliseconds since 1970), otherwise for the last failure,
/// the last stall, or the last minutes.
///
/// # Errors
/// If the file cannot be read or has no sample.
pub fn bundle(flight: &Flight, at: Option<u64>) -> Result<Bundle, Error> {
    let (mut events, mut first_ms, mut last_ms) = (Vec::new(), None, 0);
    flight.each(&mut |moment| {
        last_ms = moment.wall_ms();
        first_ms = first_ms.or(Some(last_ms));
        events.extend(moment.events.iter().map(|event| Happened::new(moment, event)));
        true
    })?;
    let covered = first_ms.unwrap_or(0).saturating_sub(AROUND_MS)..=last_ms + AROUND_MS;
    if let Some(at) = at.filter(|at| !covered.contains(at)) {
        return Err(none(flight, at, at)?);
    }
    let event = match at {
        Some(at) => {
            let apart = |event: &&Happened| event.wall_ms.abs_diff(at);
            events.iter().min_by_key(apart).filter(|event| apart(event) <= ROWS_MS)
        }
        None => {
            let failure = events.iter().rev().find(|event| event.kind != EventKind::Stall);
            failure.or_else(|| events.last())
        }
    };
    let (first, second) = match at.or(event.map(|event| event.wall_ms)) {
        Some(time) => (time.saturating_sub(AROUND_MS), time.saturating_add(AROUND_MS)),
        None => (last_ms.saturating_sub(LATELY_MS), last_ms),
    };
    let event = event.cloned();
    let Moments { first: before, second: after, mut log, damage } = moments(flight, first, second)?;
    // Lines of much earlier failures belong in another bundle.
    log.retain(|(time, _)| *time >= first.saturating_sub(ROWS_MS));
    let log: String = log.into_iter().map(|(_, lines)| lines).collect();
    let read = |files: &BTreeMap<String, FileText>, log| {
        Sample::read(&flight.tree(files.clone(), log), true)
    };
    let mut samples = [read(&before.1, None), read(&after.1, Some(log.as_str()))];
    for (sample, (wall_ms, _)) in samples.iter_mut().zip([&before, &after]) {
        sample.time = Some(super::time(*wall_ms));
    }
    samples[1].missing.extend(damaged(flight, &damage));
    let changed = samples[1].vmstat.iter().filter_map(|(name, &now)| {
        let then = *samples[0].vmstat.get(name)?;
        (then != now).then(|| (name.clone(), then, now))
    });
    Ok(Bundle {
        file: flight.path().display().to_string(),
        event,
        checkup: checkup(&samples[0], Some(&samples[1])),
        explanations: explain(&log),
        timeline: timeline(
            flight,
            first.saturating_sub(ROWS_MS),
            second.saturating_add(ROWS_MS),
            ROW_MS,
        )?,
        changed: changed.collect(),
        before: Around::new(before),
        after: Around::new(after),
        log,
    })
}
