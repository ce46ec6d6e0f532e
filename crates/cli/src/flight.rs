//! `pageblock flight`: a flight recorder, and what it recorded.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use pageblock_doctor::flight::{
    self, Bundle, EventKind, Flight, Now, Plan, Recorded, Recorder, Timeline,
};
use pageblock_files::Access;
use pageblock_report::flight as print;
use pageblock_report::json::to_json;

use crate::args::doctor::{BundleArgs, FlightArgs, FlightCommand, FlyArgs, ShowArgs};
use crate::{Verdict, interrupt, output};

/// The exit status where an allocation failed.
const FAILED: u8 = 3;
/// The rows that `show` prints where nothing else is asked for.
const ROWS: u64 = 20;
/// The most rows: those of a day by the second.
const MOST_ROWS: u64 = 100_000;

pub(crate) fn run(args: &FlightArgs) -> anyhow::Result<Verdict> {
    match &args.command {
        None => record(&args.record),
        Some(FlightCommand::Show(args)) => show(args),
        Some(FlightCommand::Bundle(args)) => bundle(args),
    }
}

fn record(args: &FlyArgs) -> anyhow::Result<Verdict> {
    if args.interval.is_zero() {
        bail!("--interval: a time from 0.5s to 24h; not 0");
    }
    interrupt::watch_quietly();
    let keep = if args.on_failure { usize::try_from(args.keep)? } else { 0 };
    let bytes = args.size.map(|mib| mib << 20);
    let plan = Plan { root: args.root.clone(), ring: args.ring.clone(), bytes, keep };
    let mut recorder = Recorder::start(plan)?;
    let mut begun = format!(
        "recording to {} ({} MiB{}); Ctrl-C or SIGTERM ends it\n",
        args.ring.display(),
        recorder.ring().bytes() >> 20,
        if recorder.ring().has_samples() { ", going on" } else { "" },
    );
    if let Some(why) = recorder.no_log() {
        begun += &format!("/dev/kmsg: {why}; failures are told by counters only\n");
    }
    if let Err(error) = flight::stay_in_memory() {
        let why = pageblock_plan::text::without_os_numbers(&error.to_string());
        begun += &format!("memory could not be locked ({why}); a stall may delay samples\n");
    }
    output::note(&begun);
    fly(args, &mut recorder)?;
    output::note(&ended(args, &recorder.finish()?));
    Ok(Verdict::Yes)
}

/// Records until the end of its time, or until it is asked to stop.
fn fly(args: &FlyArgs, recorder: &mut Recorder) -> anyhow::Result<()> {
    let began = Instant::now();
    let mut next = Duration::ZERO;
    loop {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mono = began.elapsed();
        let seen = recorder.sample(Now {
            wall_ms: u64::try_from(wall.as_millis())?,
            mono_ms: u64::try_from(mono.as_millis())?,
            cpu_s: flight::cpu_seconds(),
        })?;
        for event in &seen.events {
            output::note(&format!("{}: {}\n", event.kind.name(), event.text));
        }
        if let Some(kept) = &seen.kept {
            output::note(&format!("kept: {}\n", kept.display()));
        }
        // Samples that were missed, as while the machine was asleep, are not made up for.
        while next <= began.elapsed() {
            next += args.interval;
        }
        let end = args.duration.unwrap_or(Duration::MAX);
        if next > end {
            let left = end.saturating_sub(began.elapsed());
            interrupt::wait(left);
            return Ok(());
        }
        if interrupt::wait(next.saturating_sub(began.elapsed())) {
            return Ok(());
        }
    }
}

fn ended(args: &FlyArgs, recorded: &Recorded) -> String {
    let Recorded { samples, skipped, bytes, kept } = recorded;
    let mut text = format!("{samples} samples, {} kB", bytes.div_ceil(1000));
    if *skipped > 0 {
        text += &format!("; {skipped} were skipped to stay within 1 MB an hour and 0.5 % of a CPU");
    }
    text.push('\n');
    for path in kept {
        text += &format!("kept: {}\n", path.display());
    }
    text + &format!("next: pageblock flight show {}\n", args.ring.display())
}

fn show(args: &ShowArgs) -> anyhow::Result<Verdict> {
    let flight = Flight::open(&args.file)?;
    let last = flight::last_ms(&flight)?;
    let from = args.from.map_or(0, |when| when.ms(last));
    let to = args.to.map_or(u64::MAX, |when| when.ms(last));
    if from >= to {
        bail!("--from {} is not before --to {}", flight::time(from), flight::time(to));
    }
    let span = to.min(last).saturating_sub(from.max(flight::first_ms(&flight)?));
    let row = match args.every {
        Some(every) => u64::try_from(every.as_millis())?,
        None => (span / ROWS).max(1000),
    };
    if span / row.max(1) > MOST_ROWS {
        bail!("--every: {} rows; expected {MOST_ROWS} at most", span / row.max(1));
    }
    let timeline = flight::timeline(&flight, from, to, row)?;
    output::print(&match args.json {
        true => to_json(&timeline),
        false => print::show(&timeline),
    })?;
    Ok(verdict(&timeline))
}

fn verdict(timeline: &Timeline) -> Verdict {
    match timeline.events.iter().map(|event| event.kind).max() {
        // What cannot be read may have had any.
        None if !timeline.damage.is_empty() => Verdict::No,
        None => Verdict::Yes,
        Some(EventKind::Stall) => Verdict::No,
        Some(EventKind::Failure | EventKind::Oom) => Verdict::Status(FAILED),
    }
}

fn bundle(args: &BundleArgs) -> anyhow::Result<Verdict> {
    let flight = Flight::open(&args.file)?;
    let last = flight::last_ms(&flight)?;
    let made: Bundle = flight::bundle(&flight, args.at.map(|when| when.ms(last)))?;
    let text = match args.json {
        true => to_json(&made),
        false => print::bundle(&made),
    };
    match &args.out {
        Some(path) => {
            let text = output::printable(&text);
            pageblock_files::write(path, text.as_bytes(), Access::Private)
                .with_context(|| path.display().to_string())?;
            output::note(&format!("{}: read it before it is sent\n", path.display()));
        }
        None => output::print(&text)?,
    }
    Ok(Verdict::Yes)
}
