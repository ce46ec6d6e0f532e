//! `pageblock sweep`: simulations of a grid, a row each.

use std::path::{Path, PathBuf};

use pageblock_plan::sweep::{Grid, Journal, run as run_all};
use pageblock_plan::{jobs, text};

use crate::args::sweep::SweepArgs;
use crate::progress::terminal;
use crate::{Verdict, interrupt, output};

/// The size limit of a file with a grid.
const FILE_BYTES: u64 = 1 << 20;

pub(crate) fn run(args: &SweepArgs) -> anyhow::Result<Verdict> {
    let at_a_time = jobs::at_a_time(args.jobs)?;
    let name = output::in_line(&args.file.display().to_string());
    let mut grid = Grid::from_toml(&text::read_text(&args.file, "a grid", FILE_BYTES)?, &name)?;
    let loads = grid.read_files()?;
    let cells = grid.cells(&loads)?;
    if args.count {
        output::print(&format!("{}\n", cells.len()))?;
        return Ok(Verdict::Yes);
    }
    let folder = args.out.clone().unwrap_or_else(|| beside(&args.file));
    let mut journal = Journal::open(&folder, &grid, cells, loads)?;
    let before = journal.done();
    interrupt::watch_quietly();
    let whole = run_all(&mut journal, at_a_time, terminal().as_ref())?;
    let (done, all) = (journal.done(), journal.len());
    let place = output::in_line(&folder.display().to_string());
    if !whole {
        output::note(&format!(
            "Interrupted: {done} of {all} runs are in {place}; the same command goes on\n"
        ));
        return Ok(Verdict::Interrupted);
    }
    let table = journal.finish()?;
    let were = if before > 0 { format!(", {before} of them done before") } else { String::new() };
    output::print(&format!(
        "{}: {all} runs{were}\n",
        output::in_line(&table.display().to_string())
    ))?;
    Ok(Verdict::Yes)
}

/// Returns the folder beside a file that has its name.
fn beside(file: &Path) -> PathBuf {
    file.with_extension("sweep")
}
