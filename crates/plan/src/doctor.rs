//! Examinations of a machine, as users ask for them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pageblock_doctor::checkup::Sample;
use pageblock_doctor::flight::{self, Flight, When};
use pageblock_doctor::proc::tree::{Missing, Tree};

use crate::error::{Result, bail};

/// The longest interval.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// The time between two moments of a flight file, milliseconds.
const FLIGHT_MS: u64 = 60_000;

/// What is to be examined.
#[derive(Clone, Debug, Default)]
pub struct DoctorRequest {
    /// The root of a copied tree; by default this machine.
    pub root: Option<PathBuf>,
    /// The same tree copied later.
    pub later: Option<PathBuf>,
    /// The time between two samples of this machine.
    pub interval: Duration,
    /// A flight file instead.
    pub flight: Option<PathBuf>,
    /// The first moment of it.
    pub from: Option<When>,
    /// The second moment of it.
    pub to: Option<When>,
}

/// Takes one sample or two; `wait` waits, and tells whether it was interrupted, which gives `None`.
///
/// # Errors
/// If there is nothing to examine.
pub fn samples(
    asked: &DoctorRequest,
    wait: &dyn Fn(Duration) -> bool,
) -> Result<Option<(Sample, Option<Sample>)>> {
    if let Some(file) = &asked.flight {
        let flight = Flight::open(file)?;
        let (first, last) = flight::span(&flight)?;
        let to = asked.to.map_or(last, |when| when.ms(last));
        let minute = to.saturating_sub(FLIGHT_MS).max(first.min(to));
        let from = asked.from.map_or(minute, |when| when.ms(last));
        let time = flight::time;
        for (name, at) in [("--to", to), ("--from", from)] {
            // Times have no fractions of a second.
            if at + 999 < first || at > last + 999 {
                let file = file.display();
                bail!("{name} {}: {file} covers {} to {}", time(at), time(first), time(last));
            }
        }
        let (from, to) = (from.max(first), to.min(last));
        if from >= to {
            bail!("--from {} is not before --to {}", time(from), time(to));
        }
        let (first, second) = flight::pair(&flight, from, to)?;
        return Ok(Some((first, Some(second))));
    }
    let tree = open(asked.root.as_deref().unwrap_or(Path::new("/")))?;
    let later = asked.later.as_deref().map(open).transpose()?;
    let two = later.is_some() || (tree.is_live() && asked.interval > Duration::ZERO);
    let first = Sample::read(&tree, !two || later.is_some());
    readable(&tree, &first)?;
    let second = match &later {
        Some(later) => {
            let second = Sample::read(later, true);
            readable(later, &second)?;
            Some(second)
        }
        None if two => {
            if wait(asked.interval) {
                return Ok(None);
            }
            Some(Sample::read(&tree, true))
        }
        None => None,
    };
    Ok(Some((first, second)))
}

/// Checks that something was found in a tree.
fn readable(tree: &Tree, sample: &Sample) -> Result<()> {
    if !sample.is_empty() {
        return Ok(());
    }
    // A file that is there and cannot be read says more than that nothing was found.
    let damaged = sample.missing.iter().find(|missing| tree.has(&missing.file));
    if let Some(Missing { why, .. }) = damaged {
        bail!("{}: {why}", tree.root().display());
    }
    bail!(
        "{}: no zoneinfo, buddyinfo, pagetypeinfo, vmstat or log; expected a tree with proc, or a folder \
         with its files",
        tree.root().display()
    );
}

fn open(root: &Path) -> Result<Tree> {
    if !root.is_dir() {
        bail!("{}: no such folder; expected a copied tree with proc and sys", root.display());
    }
    Ok(Tree::new(root))
}

/// Reads a time such as `10s`, `500ms`, `2m`, or seconds.
///
/// # Errors
/// Says what is allowed.
pub fn interval(text: &str) -> std::result::Result<Duration, String> {
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
