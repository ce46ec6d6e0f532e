//! `pageblock record`: records the machine that it runs on.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use pageblock_recorder::{
    Error, Plan, Preview, RingPlan, Session, Summary, Tracefs, Tracepoints, salvage,
};
use pageblock_recording::Recording;
use pageblock_replay::call_sites::CallSiteFinder;

use crate::args::RecordArgs;
use crate::child::{exit_status, start};
use crate::progress::Progress;
use crate::{Verdict, interrupt, output};

/// How often the end of a recording is looked for.
const LOOK: Duration = Duration::from_millis(20);

/// Why a recording ended.
enum End {
    Command(ExitStatus),
    Time,
    Size,
    Asked,
    Failed,
    /// What a ring needs could not be done.
    Broken(Error),
}

pub(crate) fn run(args: &RecordArgs) -> anyhow::Result<Verdict> {
    if let Some(partial) = &args.salvage {
        return save_left(args, partial);
    }
    for left in Tracefs::clean()? {
        output::note(&if left.removed {
            format!("switched off {}, which a killed recorder had left on\n", left.name)
        } else {
            format!(
                "{} is read by a process that is not seen here; it was left as it is\n",
                left.name
            )
        });
    }
    if args.clean {
        return Ok(Verdict::Yes);
    }
    let out = args.out.clone().unwrap_or_else(free_name);
    let bytes = args.max_size.saturating_mul(1 << 20);
    let ring = args.ring.map(|seconds| RingPlan { keep: Duration::from_secs(seconds), bytes });
    let RecordArgs { buffer_size: buffer_kib, all_events, stacks, .. } = *args;
    let probes = !args.no_probes;
    let plan = Plan { out, buffer_kib, all_events, probes, stacks, ring };
    let preview = Session::preview(&plan)?;
    announce(&plan, &preview);
    if args.dry_run {
        let probes = preview.probes.events.into_iter().map(|event| format!("probe {event}"));
        let all = preview.events.there.into_iter().chain(probes);
        output::print(&all.map(|name| name + "\n").collect::<String>())?;
        return Ok(Verdict::Yes);
    }
    make(args, plan)
}

/// Makes a recording of what a killed recorder left behind.
fn save_left(args: &RecordArgs, partial: &Path) -> anyhow::Result<Verdict> {
    let out = args.out.clone().map_or_else(|| whole_name(partial), Ok)?;
    interrupt::watch_quietly();
    let bar = Progress::new("writing", 0, "bytes");
    let done =
        salvage(partial, &out, &interrupt::requested, &mut |done, all| show(&bar, done, all));
    drop(bar);
    match done {
        Err(Error::Stopped) => return Ok(Verdict::Interrupted),
        done => done?,
    }
    output::print(&format!("{}: whole up to its last page; no end state\n", out.display()))?;
    Ok(Verdict::Yes)
}

/// Says what is to be switched on, and what cannot be.
fn announce(plan: &Plan, preview: &Preview) {
    let Preview { events, probes, cpus, buffer_kib } = preview;
    let Tracepoints { there: events, missing } = events;
    let of = |group: &str| events.iter().filter(|event| event.starts_with(group)).count();
    output::note(&format!(
        "recording to {}: {} tracepoints ({} of kmem) and {} probes in an instance of tracefs of its own, buffers of {} MiB\n",
        plan.out.display(),
        events.len(),
        of("kmem/"),
        probes.events.len(),
        buffer_kib * *cpus as u64 / 1024,
    ));
    if !missing.is_empty() {
        output::note(&format!(
            "this kernel has no tracepoint {}; the recording goes without\n",
            missing.join(", ")
        ));
    }
    if !probes.inferred.is_empty() {
        let lack = if probes.taken {
            "takes no probe for"
        } else {
            "has no kprobes (CONFIG_KPROBE_EVENTS) for"
        };
        let inferred = probes.inferred.join(", ");
        output::note(&format!("this kernel {lack}: {inferred}; a replay infers them\n"));
    }
}

/// Records, from the start state to the summary.
fn make(args: &RecordArgs, plan: Plan) -> anyhow::Result<Verdict> {
    interrupt::watch_quietly();
    let save = interrupt::flag_of_usr1(args.ring.is_some())?;
    let mut session = match Session::start(plan, &interrupt::requested) {
        Err(Error::Stopped) => {
            output::note("stopped before the start state was taken; nothing was recorded\n");
            return Ok(Verdict::Interrupted);
        }
        session => session?,
    };
    let end = match record(args, &mut session, &save) {
        Ok(End::Broken(error)) => return Err(session.abandon(error).into()),
        Ok(end) => end,
        Err(error) => {
            session.discard()?;
            return Err(error);
        }
    };
    let bar = Progress::new("writing", 0, "bytes");
    let finished = session.finish(&interrupt::insisted, &mut |done, all| show(&bar, done, all));
    drop(bar);
    let summary = match finished {
        Err(error) if interrupt::insisted() => {
            output::note(&format!("{error}\n"));
            return Ok(Verdict::Interrupted);
        }
        summary => summary?,
    };
    output::note(&describe(&summary, &why(&end, !args.command.is_empty())));
    if args.stacks {
        output::print(&call_sites(&summary.out)?)?;
    }
    Ok(match end {
        End::Command(status) => Verdict::Status(exit_status(status)),
        End::Failed | End::Broken(_) => Verdict::No,
        End::Time | End::Size | End::Asked => Verdict::Yes,
    })
}

fn show(bar: &Progress, done: u64, all: Option<u64>) {
    all.into_iter().for_each(|all| bar.resize(all));
    bar.set(done);
}

/// Waits for the end of the recording.
#[expect(clippy::disallowed_methods, reason = "the machine is recorded in real time")]
fn record(args: &RecordArgs, session: &mut Session, save: &AtomicBool) -> anyhow::Result<End> {
    if interrupt::requested() {
        return Ok(End::Asked);
    }
    let mut child = start(&args.command)?;
    let began = Instant::now();
    let size = args.max_size.saturating_mul(1 << 20);
    loop {
        if let Some(child) = &mut child
            && let Some(status) = child.try_wait().context("the command")?
        {
            return Ok(End::Command(status));
        }
        let end = if session.has_failed() {
            Some(End::Failed)
        } else if interrupt::requested() {
            Some(End::Asked)
        } else if args.duration.is_some_and(|s| began.elapsed() >= Duration::from_secs(s)) {
            Some(End::Time)
        } else if args.ring.is_none() && session.bytes() >= size {
            Some(End::Size)
        } else {
            keep_ring(session, save).err().map(End::Broken)
        };
        if let Some(end) = end {
            // The command goes on where the recording is what ends.
            return Ok(end);
        }
        std::thread::sleep(LOOK);
    }
}

/// Does what a ring needs, and saves it where a signal asks for that.
fn keep_ring(session: &mut Session, save: &AtomicBool) -> Result<(), Error> {
    session.tick(&interrupt::insisted)?;
    if save.swap(false, Relaxed)
        && let Some(summary) = session.save(&interrupt::insisted, &mut |_, _| {})?
    {
        output::note(&describe(&summary, "saved; the recording goes on"));
    }
    Ok(())
}

fn why(end: &End, has_command: bool) -> String {
    let (why, goes_on) = match end {
        End::Command(_) => ("the command ended", false),
        End::Time => ("the time is over", has_command),
        End::Size => ("the events reached --max-size", has_command),
        End::Asked => ("asked to stop", false),
        End::Failed | End::Broken(_) => {
            ("events could not be written; what is whole was kept", false)
        }
    };
    let rest = if goes_on { "; the rest of the command is not recorded" } else { "" };
    format!("{why}{rest}")
}

fn describe(summary: &Summary, why: &str) -> String {
    let Summary { out, bytes, events, lost, kept, cost, whole_cost } = summary;
    let all: u64 = events.iter().map(|(_, events)| events).sum();
    let mut text = format!(
        "{}: {all} events, {} MiB as the kernel stores them; {why}\n",
        out.display(),
        bytes.div_ceil(1 << 20)
    );
    if let Some((covers, shortened)) = kept {
        text += &format!("the last {} s", covers.as_secs());
        text += if *shortened {
            "; the events reached --max-size, older ones were given up\n"
        } else {
            "\n"
        };
    }
    let lost: Vec<_> = lost.iter().filter(|(_, lost)| *lost > 0).collect();
    for (cpu, lost) in &lost {
        text += &format!("CPU {cpu} lost {lost} events: a larger --buffer-size keeps them\n");
    }
    if lost.is_empty() {
        text += "no event was lost\n";
    }
    text += &format!(
        "the recorder took {:.2} s of CPU time and {} MiB of memory, and {:.2} s and {} MiB to write the recording\n",
        cost.cpu.as_secs_f64(),
        cost.peak_kib.div_ceil(1 << 10),
        whole_cost.cpu.saturating_sub(cost.cpu).as_secs_f64(),
        whole_cost.peak_kib.div_ceil(1 << 10),
    );
    text + &format!("next: pageblock verify {}\n", out.display())
}

/// Returns the table of who asked for pages.
fn call_sites(recording: &Path) -> anyhow::Result<String> {
    // Ctrl-C may have ended the recording: it does not end this.
    let found = CallSiteFinder::find(&Recording::open(recording)?, &|| false)?;
    Ok(found.as_ref().map(pageblock_report::call_sites::print).unwrap_or_default())
}

/// Returns the first of recording.pbrec, recording-2.pbrec, ... that is free.
fn free_name() -> PathBuf {
    let names = (1..).map(|n| {
        if n == 1 { "recording.pbrec".to_owned() } else { format!("recording-{n}.pbrec") }
    });
    let is_free = |name: &String| {
        !Path::new(name).exists() && !Path::new(&format!("{name}.partial")).exists()
    };
    let mut free = names.filter(is_free);
    PathBuf::from(free.next().unwrap_or_default())
}

/// Returns the name of a folder without `.partial`.
fn whole_name(partial: &Path) -> anyhow::Result<PathBuf> {
    match partial.extension() {
        Some(end) if end == "partial" => Ok(partial.with_extension("")),
        _ => bail!("{}: name the folder to write with -o", partial.display()),
    }
}
