//! `pageblock doctor`: examines a machine.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::bail;
use pageblock_doctor::checkup::{Sample, Severity, checkup};
use pageblock_doctor::proc::tree::Tree;
use pageblock_report::checkup as print;
use pageblock_report::json::to_json;

use crate::args::DoctorArgs;
use crate::{Verdict, interrupt, output};

/// The exit status where it hurts now.
const HURTS: u8 = 3;
/// How often Ctrl-C is looked for.
const LOOK: Duration = Duration::from_millis(20);
/// The longest interval.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<Verdict> {
    interrupt::watch_quietly()?;
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
            if !wait(args.interval) {
                return Ok(Verdict::Interrupted);
            }
            Some(Sample::read(&tree, true))
        }
        None => None,
    };
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

fn open(root: &Path) -> anyhow::Result<Tree> {
    if !root.is_dir() {
        bail!("{}: no such folder; expected a copied tree with proc and sys", root.display());
    }
    Ok(Tree::new(root))
}

/// Waits for the second sample; false after Ctrl-C.
#[expect(clippy::disallowed_methods, reason = "rates are over real time")]
fn wait(interval: Duration) -> bool {
    let began = Instant::now();
    while let Some(left) = interval.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) {
        if interrupt::requested() {
            return false;
        }
        std::thread::sleep(LOOK.min(left));
    }
    !interrupt::requested()
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
