//! `pageblock fragment`: brings the memory of this machine to a stated degree of fragmentation, and holds it there.

use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::bail;
use pageblock_doctor::forecast::{Compactor, Forecast, compactor};
use pageblock_guest::fragment::{
    Fragmenter, Goal, Held, Reached, Share, Spread, be_killed_first, drop_caches,
};
use pageblock_report::forecast::grouped;
use pageblock_report::table::Table;
use serde_json::json;

use crate::args::fragment::FragmentArgs;
use crate::progress::Progress;
use crate::{Verdict, child, forecast, interrupt, output};

/// How often the state is looked at while it is held.
const LOOK: Duration = Duration::from_secs(1);
/// How often the end of a command is looked for.
const SHORT: Duration = Duration::from_millis(20);

/// The pageblocks of a machine, as the forecast counts them.
#[derive(Clone, Copy)]
struct Pageblocks {
    all: u64,
    /// Those with a page that does not move; pinned pages, which no flag shows, are not among them.
    unmovable: u64,
}

/// What was seen while the state was held.
struct Seen {
    least: Share,
    most: Share,
    corrections: u64,
}

pub(crate) fn run(args: &FragmentArgs) -> anyhow::Result<Verdict> {
    interrupt::watch_quietly();
    let goal = Goal { free: args.free, unmovable: args.unmovable, spread: args.spread };
    be_killed_first()?;
    let mut fragmenter = Fragmenter::new(args.seed)?;
    if args.prepare {
        let compactor: Compactor = compactor()?;
        drop_caches()?;
        compactor.compact()?;
    }
    if let Some(why) = fragmenter.obstacle(&goal)? {
        let hint =
            if args.prepare { "" } else { "; --prepare drops clean caches and compacts first" };
        bail!("{why}{hint}");
    }
    let Some(before) = blocks()? else { return Ok(Verdict::Interrupted) };
    let was = fragmenter.now()?;
    let progress = Progress::new("fragmenting", 0, "pages held");
    let mut reached = fragmenter.reach(&goal, &|held| {
        progress.set(held);
        interrupt::requested()
    })?;
    drop(progress);
    if reached == Reached::Stopped {
        return Ok(Verdict::Interrupted);
    }
    let more = goal.unmovable.of(before.all).saturating_sub(before.unmovable);
    if fragmenter.pin(more)? < more {
        reached = Reached::No;
    }
    let Some(after) = blocks()? else { return Ok(Verdict::Interrupted) };
    let (is, held) = (fragmenter.now()?, fragmenter.held());
    output::print(&match args.json {
        true => one_line(&json!({
            "before": state(&was, before.unmovable, before.all), "goal": goal,
            "now": state(&is, after.unmovable + held.pinned, after.all), "held": held, "reached": reached,
        })),
        false => text(&goal, (&was, before), (&is, after), held, reached),
    })?;
    let command = child::start(&args.command)?;
    let (seen, verdict) = hold(args, &goal, &mut fragmenter, command)?;
    output::print(&match args.json {
        true => one_line(&json!({
            "spread_percent_least": seen.least, "spread_percent_most": seen.most, "corrections": seen.corrections,
        })),
        false => format!(
            "While it was held, {} to {} of free memory was in blocks below 2 MiB; it was restored {} times.\n",
            seen.least, seen.most, seen.corrections
        ),
    })?;
    Ok(match verdict {
        Verdict::Yes if reached != Reached::Yes => Verdict::No,
        verdict => verdict,
    })
}

/// Holds the state until the time is over, the command ended, or the caller wants the end.
fn hold(
    args: &FragmentArgs,
    goal: &Goal,
    fragmenter: &mut Fragmenter,
    mut command: Option<Child>,
) -> anyhow::Result<(Seen, Verdict)> {
    let begin = Instant::now();
    let first = fragmenter.now()?.spread();
    let mut seen = Seen { least: first, most: first, corrections: 0 };
    let mut looked = begin;
    loop {
        if let Some(child) = &mut command
            && let Some(status) = child.try_wait()?
        {
            return Ok((seen, Verdict::Status(child::exit_status(status))));
        }
        if args.time.is_some_and(|time| begin.elapsed() >= time) {
            return Ok((seen, Verdict::Yes));
        }
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            let spread = fragmenter.now()?.spread();
            (seen.least, seen.most) = (seen.least.min(spread), seen.most.max(spread));
            let before = fragmenter.held();
            if args.hold && fragmenter.reach(goal, &|_| interrupt::requested())? != Reached::Stopped
            {
                seen.corrections += u64::from(fragmenter.held() != before);
            }
        }
        // A command gets Ctrl-C itself.
        if interrupt::wait(SHORT) && command.is_none() {
            return Ok((seen, Verdict::Yes));
        }
    }
}

/// Counts pageblocks; `None` if it was interrupted.
fn blocks() -> anyhow::Result<Option<Pageblocks>> {
    let Some(made) = forecast::take(Path::new("/"))? else { return Ok(None) };
    let of =
        |of: &Forecast| of.orders.iter().find(|range| range.order == of.pageblock_order).copied();
    let Some(range) = of(&made) else { bail!("{}: no pageblocks", made.file.display()) };
    Ok(Some(Pageblocks { all: range.blocks, unmovable: range.held }))
}

fn state(spread: &Spread, unmovable: u64, blocks: u64) -> serde_json::Value {
    json!({
        "free_percent": spread.free_share(), "spread_percent": spread.spread(),
        "unmovable_percent": Share::part(unmovable, blocks),
        "managed_pages": spread.managed, "free_pages": spread.free(), "scattered_pages": spread.scattered,
        "pageblocks": blocks, "unmovable_pageblocks": unmovable,
    })
}

fn one_line(value: &serde_json::Value) -> String {
    format!("{value}\n")
}

/// Describes the state before, the goal, and the state now.
fn text(
    goal: &Goal,
    (was, before): (&Spread, Pageblocks),
    (is, after): (&Spread, Pageblocks),
    held: Held,
    reached: Reached,
) -> String {
    let mut table = Table::new().text("").number("before").number("goal").number("now").text("of");
    let mib = |pages: u64| grouped(pages >> 8);
    let row = |name: &str, [before, goal, now]: [Share; 3], of: String| {
        [name.to_owned(), before.to_string(), goal.to_string(), now.to_string(), of]
    };
    let managed = format!("{} MiB", mib(is.managed));
    table.row(row("free", [was.free_share(), goal.free, is.free_share()], managed));
    let scattered = [was.spread(), goal.spread, is.spread()];
    table.row(row("in blocks below 2 MiB", scattered, "free memory".to_owned()));
    let unmovable = [
        Share::part(before.unmovable, before.all),
        goal.unmovable,
        Share::part(after.unmovable + held.pinned, after.all),
    ];
    let all = format!("{} pageblocks", grouped(after.all));
    table.row(row("with a page that does not move", unmovable, all));
    let mut text = table.print();
    text += &format!(
        "Held until this ends: {} MiB in {} pageblocks, a page of {} of them pinned.\n",
        mib(held.pages),
        grouped(held.pageblocks),
        grouped(held.pinned)
    );
    if before.unmovable > goal.unmovable.of(before.all) {
        text +=
            "More pages do not move than was asked for: they are not this program's, and stay.\n";
    }
    if reached != Reached::Yes {
        text += "The state was not reached: no pageblock came without compaction, or others took what was given back.\n";
    }
    text
}
