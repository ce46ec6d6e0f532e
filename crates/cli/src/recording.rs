//! `pageblock recording`: looks into recordings, cuts them, and writes them in other formats.

use std::path::Path;

use anyhow::{Context, bail};
use pageblock_plan::{Session, grade};
use pageblock_recording::{CaptureOptions, Error, Part, Recording, Written, llfree};
use pageblock_replay::call_sites::CallSiteFinder;
use pageblock_replay::contents;
use pageblock_report::{contents as print, table::Table};

use crate::args::recording::{
    ConvertArgs, HeadArgs, LookArgs, OutArgs, RecordingCommand, SliceArgs,
};
use crate::progress::{Progress, terminal};
use crate::{Verdict, interrupt, output};

pub(crate) fn run(command: &RecordingCommand) -> anyhow::Result<Verdict> {
    match command {
        RecordingCommand::Info(args) => info(args),
        RecordingCommand::Head(args) => head(args),
        RecordingCommand::Stats(args) => stats(args),
        RecordingCommand::Stacks(args) => stacks(args),
        RecordingCommand::Slice(args) => slice(args),
        RecordingCommand::Convert(args) => convert(args),
        RecordingCommand::Anonymise(args) => anonymise(args),
    }
}

fn info(args: &LookArgs) -> anyhow::Result<Verdict> {
    let session = Session::recorded(&args.recording, &args.capture.options()?, &terminal())?;
    let Session { recording, columnar, .. } = &session;
    let of = contents::contents(recording, columnar, grade::kept(&session))?;
    output::print(&match args.json {
        true => serde_json::to_string_pretty(&of)? + "\n",
        false => print::print(&of),
    })?;
    Ok(Verdict::Yes)
}

fn stats(args: &LookArgs) -> anyhow::Result<Verdict> {
    let session = Session::recorded(&args.recording, &args.capture.options()?, &terminal())?;
    let Session { recording, columnar, .. } = &session;
    interrupt::watch();
    let bar = Progress::new("counting", columnar.events, "events");
    let mut progress = |done| bar.set(done);
    let of = contents::statistics(recording, columnar, &mut progress, &interrupt::requested)?;
    drop(bar);
    let Some(of) = of else { return Ok(Verdict::Interrupted) };
    output::print(&match args.json {
        true => serde_json::to_string_pretty(&of)? + "\n",
        false => print::statistics(&of),
    })?;
    Ok(Verdict::Yes)
}

fn stacks(args: &LookArgs) -> anyhow::Result<Verdict> {
    let session = Session::recorded(&args.recording, &args.capture.options()?, &terminal())?;
    interrupt::watch();
    let bar = Progress::new("counting", session.columnar.events, "events");
    let mut finder = CallSiteFinder::default();
    for (number, record) in (0..).zip(session.columnar.records_from(0)?) {
        finder.push(&record?);
        bar.set(number);
    }
    drop(bar);
    let of = finder.finish(&session.recording, session.columnar.losses.total());
    output::print(&match args.json {
        true => serde_json::to_string_pretty(&of)? + "\n",
        false => pageblock_report::call_sites::print(&of),
    })?;
    Ok(Verdict::Yes)
}

fn head(args: &HeadArgs) -> anyhow::Result<Verdict> {
    let session = Session::recorded(&args.recording, &CaptureOptions::default(), &terminal())?;
    let Session { recording, columnar, .. } = &session;
    let from = columnar.event_at(args.from, 0)?;
    let mut table = Table::new()
        .number("event")
        .number("time [s]")
        .number("CPU")
        .number("pid")
        .text("command")
        .text("what")
        .text("");
    for (number, record) in (from..).zip(columnar.records_from(from)?.take(args.events)) {
        let record = record?;
        table.row([
            number.to_string(),
            format!("{:.6}", record.t_us.saturating_sub(columnar.first_t_us) as f64 / 1e6),
            record.cpu.to_string(),
            record.pid.to_string(),
            output::in_line(recording.comms.get(&record.pid).map_or("", String::as_str)),
            output::in_line(record.what.name()),
            output::in_line(&record.what.to_string()),
        ]);
    }
    output::print(&table.print())?;
    Ok(Verdict::Yes)
}

fn slice(args: &SliceArgs) -> anyhow::Result<Verdict> {
    let part = Part { from: args.from, to: args.to, anonymous: false };
    part_of(&args.recording, &part, &args.out)
}

fn anonymise(args: &OutArgs) -> anyhow::Result<Verdict> {
    part_of(&args.recording, &Part { anonymous: true, ..Part::default() }, &args.out)
}

fn part_of(path: &Path, part: &Part, out: &Path) -> anyhow::Result<Verdict> {
    must_be_pbrec(out)?;
    let session = Session::recorded(path, &CaptureOptions::default(), &terminal())?;
    let bar = Progress::new("writing", 0, "events");
    let written =
        session.recording.write_part(&session.columnar, part, out, &mut |done, all| {
            bar.resize(all);
            bar.set(done);
        })?;
    drop(bar);
    let Written { first, events, start, end } = written;
    let state = match (start, end) {
        (true, true) => "with both states",
        (true, false) => "with the state at the start; that at the end is not in it",
        (false, _) => "without states: a replay infers the start from the events",
    };
    output::print(&format!("{}: {events} events from {first} on, {state}\n", out.display()))?;
    Ok(Verdict::Yes)
}

fn convert(args: &ConvertArgs) -> anyhow::Result<Verdict> {
    let ConvertArgs { recording: path, out, capture } = args;
    let bar = Progress::new("converting", 0, "bytes");
    let mut progress = |done, all: Option<u64>| {
        all.into_iter().for_each(|all| bar.resize(all));
        bar.set(done);
    };
    let open = || Recording::open_with(path, &capture.options()?).map_err(anyhow::Error::from);
    let kind = out.extension().and_then(|end| end.to_str()).unwrap_or_default();
    let what = match (kind, open()) {
        ("pbrec", Err(error)) if is_cut(&error) => {
            let bar = Progress::new("salvaging", 0, "events");
            let events = pageblock_recording::salvage(path, out, &mut |events| bar.set(events))
                .context("nothing of it can be saved")?;
            format!("{events} events; the file was cut, and the state at its end is lost")
        }
        (_, Err(error)) => return Err(error),
        ("pbrec", Ok(recording)) => {
            recording.save(out, &mut progress)?;
            "one file".to_owned()
        }
        ("llfree", Ok(recording)) => {
            let bar = Progress::new("converting", 0, "events");
            let written = llfree::write(&recording, out, &mut |events| bar.set(events))?;
            format!("{} allocations and frees for LLFree", written.entries)
        }
        ("", Ok(recording)) => {
            recording.write_folder(out, &mut progress)?;
            "a folder of text".to_owned()
        }
        (other, Ok(_)) => {
            bail!(
                "{}: the ending .{other}; allowed: .pbrec, .llfree, or none for a folder",
                out.display()
            )
        }
    };
    drop(bar);
    output::print(&format!("{}: {what}\n", out.display()))?;
    Ok(Verdict::Yes)
}

fn is_cut(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Error::Pbrec { .. }))
}

fn must_be_pbrec(out: &Path) -> anyhow::Result<()> {
    if out.extension().is_none_or(|end| end != "pbrec") {
        bail!("{}: allowed: a name that ends with .pbrec", out.display());
    }
    Ok(())
}
