//! `pageblock doctor`: examines a machine.

use std::path::Path;
use std::time::Duration;

use anyhow::bail;
use pageblock_doctor::checkup::{Sample, Severity, checkup};
use pageblock_doctor::flight::{self, Flight};
use pageblock_doctor::proc::tree::Tree;
use pageblock_report::checkup as print;
use pageblock_report::json::to_json;

use crate::args::doctor::DoctorArgs;
use crate::{Verdict, interrupt, output};

/// The exit status where it hurts now.
const HURTS: u8 = 3;
/// The longest interval.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// The time between two moments of a flight file, milliseconds.
const FLIGHT_MS: u64 = 60_000;

pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<Verdict> {
    interrupt::watch_quietly()?;
    let Some((first, second)) = samples(args)? else { return Ok(Verdict::Interrupted) };
    let checkup = checkup(&first, second.as_ref());
    output::print(&match args.json {
        true => to_json(&checkup),
        false => print::print(&checkup, args.details),
    })?;
    Ok(match checkup.severity() {
        Some(Severity::Critical) => Verdict::Status(HURTS),
        Some(Severity::Warning) => Verdict::No,
        Some(Severity::Notice) | None => Verdict::Yes,
    })
}

/// Takes one sample or two; `None` after Ctrl-C.
fn samples(args: &DoctorArgs) -> anyhow::Result<Option<(Sample, Option<Sample>)>> {
    if let Some(file) = &args.flight {
        let flight = Flight::open(file)?;
        let last = flight::last_ms(&flight)?;
        let to = args.to.map_or(last, |when| when.ms(last));
        let from = args.from.map_or(to.saturating_sub(FLIGHT_MS), |when| when.ms(last));
        if from >= to {
            bail!("--from {} is not before --to {}", flight::time(from), flight::time(to));
        }
        let (first, second) = flight::pair(&flight, from, to)?;
        return Ok(Some((first, Some(second))));
    }
    let tree = open(args.root.as_deref().unwrap_or(Path::new("/")))?;
    let later = args.later.as_deref().map(open).transpose()?;
    let two = later.is_some() || (tree.is_live() && args.interval > Duration::ZERO);
    let first = Sample::read(&tree, !two || later.is_some());
    if first.zones.is_empty() && first.free_blocks.is_empty() && first.vmstat.is_empty() {
        bail!(
            "{}: no zoneinfo, buddyinfo or vmstat; expected a tree with proc, or a folder with its files",
            tree.root().display()
        );
    }
    let second = match &later {
        Some(later) => Some(Sample::read(later, true)),
        None if two => {
            if interrupt::wait(args.interval) {
                return Ok(None);
            }
            Some(Sample::read(&tree, true))
        }
        None => None,
    };
    Ok(Some((first, second)))
}

fn open(root: &Path) -> anyhow::Result<Tree> {
    if !root.is_dir() {
        bail!("{}: no such folder; expected a copied tree with proc and sys", root.display());
    }
    Ok(Tree::new(root))
}

/// Reads a time such as `10s`, `500ms`, `2m`, or seconds.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let allowed =
        || format!("a time from 0.5s to 24h, such as 10s, 500ms or 2m, or 0; not '{text}'");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(allowed()),
    };
    let number: f64 = digits.parse().map_err(|_| allowed())?;
    let time = Duration::try_from_secs_f64(number * unit).map_err(|_| allowed())?;
    let fits = time.is_zero() || (Duration::from_millis(500)..=LONGEST).contains(&time);
    fits.then_some(time).ok_or_else(allowed)
}
