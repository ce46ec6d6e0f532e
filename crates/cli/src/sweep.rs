//! `pageblock sweep`: simulations of a grid, a row each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pageblock_plan::sweep::{Cell, Grid, Journal, run as run_all, run_by};
use pageblock_plan::{jobs, text};

use crate::args::sweep::SweepArgs;
use crate::progress::terminal;
use crate::{Verdict, interrupt, output};

mod isolated;

use isolated::Limits;

/// The size limit of a file with a grid.
const FILE_BYTES: u64 = 1 << 20;

pub(crate) fn run(args: &SweepArgs) -> anyhow::Result<Verdict> {
    let at_a_time = jobs::at_a_time(args.jobs)?;
    let name = output::in_line(&args.file.display().to_string());
    let mut grid = Grid::from_toml(&text::read_text(&args.file, "a grid", FILE_BYTES)?, &name)?;
    let loads = grid.read_files()?;
    if args.cell {
        return isolated::one(args, &loads, terminal().as_ref());
    }
    let cells = grid.cells(&loads)?;
    if args.count {
        output::print(&format!("{}\n", cells.len()))?;
        return Ok(Verdict::Yes);
    }
    let folder = args.out.clone().unwrap_or_else(|| beside(&args.file));
    let mut journal = Journal::open(&folder, &grid, cells, loads)?;
    let before = journal.done();
    interrupt::watch_quietly();
    let mut failures = 0;
    let whole = match Limits::of(args) {
        None => run_all(&mut journal, at_a_time, terminal().as_ref())?,
        Some(limits) => {
            let file = args.file.clone();
            let one = move |cell: &Cell, _: &_, _: &_| isolated::run(cell, &file, limits);
            run_by(&mut journal, at_a_time, terminal().as_ref(), one, |cell, error| {
                // Ctrl-C ends the processes too: they did not fail.
                if !interrupt::requested() {
                    failures += 1;
                    output::note(&format!("{error}:\n  {}\n", command(cell)));
                }
                Ok(())
            })?
        }
    };
    let (done, all) = (journal.done(), journal.len());
    let place = output::in_line(&folder.display().to_string());
    if !whole {
        output::note(&format!(
            "Interrupted: {done} of {all} runs are in {place}; the same command goes on\n"
        ));
        return Ok(Verdict::Interrupted);
    }
    if failures > 0 {
        output::print(&format!(
            "{failures} of {all} runs failed, {done} are in {place}; the same command tries them again\n"
        ))?;
        return Ok(Verdict::No);
    }
    let table = journal.finish()?;
    let were = if before > 0 { format!(", {before} of them done before") } else { String::new() };
    let early = ended_early(&journal)?;
    output::print(&format!(
        "{}: {all} runs{were}{early}\n",
        output::in_line(&table.display().to_string())
    ))?;
    Ok(Verdict::Yes)
}

/// Says how many runs ended before their workload, by the reason; nothing if none did.
fn ended_early(journal: &Journal) -> anyhow::Result<String> {
    let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
    for row in journal.rows()? {
        if let Some(ended) = row?.ended {
            let reason = ended.split([',', '(']).next().unwrap_or_default().trim();
            *reasons.entry(reason.to_owned()).or_default() += 1;
        }
    }
    let each = reasons.iter().map(|(reason, count)| format!(", {count} ended early ({reason})"));
    Ok(each.collect())
}

/// Returns the command that does a run alone.
fn command(cell: &Cell) -> String {
    let Cell { workload, kernel, machine, scale, seed } = cell;
    format!(
        "pageblock run {workload} --policy {kernel} --machine {machine} --scale {scale} --seeds 1 --first-seed {seed}"
    )
}

/// Returns the folder beside a file that has its name.
fn beside(file: &Path) -> PathBuf {
    file.with_extension("sweep")
}
