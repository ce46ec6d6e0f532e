//! `pageblock forecast`: how many large blocks compaction could make.

use std::cell::Cell;
use std::io::IsTerminal;
use std::path::Path;

use anyhow::bail;
use pageblock_doctor::Error;
use pageblock_doctor::forecast::{Compactor, End, Forecast, Pool, compactor, forecast};
use pageblock_report::forecast as print;
use pageblock_report::json::to_json;

use crate::args::{ForecastArgs, Verify};
use crate::progress::Progress;
use crate::{Verdict, interrupt, output};

/// The columns of a terminal that does not say how many it has, and of files.
const COLUMNS: usize = 80;

pub(crate) fn run(args: &ForecastArgs) -> anyhow::Result<Verdict> {
    interrupt::watch_quietly();
    let root = args.snapshot.as_deref().unwrap_or(Path::new("/"));
    let compactor = (args.verify == Some(Verify::Compaction)).then(compactor).transpose()?;
    let Some(before) = take(root)? else { return Ok(Verdict::Interrupted) };
    if args.trial.remedies {
        return crate::remedies::run(args, root, &before);
    }
    if args.verify.is_none() || !args.json {
        show(args, &before)?;
    }
    match (args.verify, compactor) {
        (Some(Verify::Huge), _) => try_pages(args, &before, before.pageblock_order),
        (Some(Verify::Gigantic), _) => try_pages(args, &before, before.gigantic_order),
        (_, Some(compactor)) => compact(args, root, &before, compactor),
        (_, None) => Ok(Verdict::Yes),
    }
}

/// Compacts all memory, and compares.
fn compact(
    args: &ForecastArgs,
    root: &Path,
    before: &Forecast,
    compactor: Compactor,
) -> anyhow::Result<Verdict> {
    output::note(
        "compacting the memory of this machine: writing 1 to /proc/sys/vm/compact_memory\n",
    );
    compactor.compact()?;
    let Some(after) = take(root)? else { return Ok(Verdict::Interrupted) };
    output::print(&match args.json {
        true => to_json(&serde_json::json!({ "before": before, "after": after })),
        false => format!("\n{}", print::verified(before, &after)),
    })?;
    Ok(Verdict::Yes)
}

/// Asks the kernel for as many huge pages as the forecast has at most, and one step more, and gives them back.
fn try_pages(args: &ForecastArgs, before: &Forecast, order: u8) -> anyhow::Result<Verdict> {
    let Some(obtain) = before.obtain.iter().find(|made| made.order == order) else {
        bail!("no forecast for order {order}")
    };
    let pool = Pool::open(before.page_kb << order)?;
    // One more than the forecast allows shows a forecast that is too low.
    let most = obtain.free + obtain.together.at_most + 1;
    let (file, pages) = pool.put_back_by();
    output::note(&format!(
        "asking for up to {most} huge pages: writing {}; if this is killed: echo {pages} > {}\n",
        file.display(),
        file.display()
    ));
    let progress = Progress::new("huge pages", most, "pages");
    let tried = pool.try_for(most, &|came| {
        progress.set(came);
        interrupt::requested()
    })?;
    drop(progress);
    output::print(&match args.json {
        true => to_json(&serde_json::json!({ "before": before, "tried": tried })),
        false => format!("\n{}", print::tried(obtain, &tried)),
    })?;
    Ok(if tried.end == End::Stopped { Verdict::Interrupted } else { Verdict::Yes })
}

/// Makes the forecast, with a progress bar; `None` if it was interrupted.
pub(crate) fn take(root: &Path) -> anyhow::Result<Option<Forecast>> {
    let progress = Progress::new("frames", 0, "frames");
    let read = Cell::new(0);
    let watch = |frames: u64| {
        read.set(read.get() + frames);
        progress.set(read.get());
        interrupt::requested()
    };
    match forecast(root, &|frames| progress.resize(frames), &watch) {
        Err(Error::Stopped) => Ok(None),
        made => Ok(Some(made?)),
    }
}

pub(crate) fn show(args: &ForecastArgs, forecast: &Forecast) -> anyhow::Result<()> {
    if args.json {
        output::print(&to_json(forecast))?;
        return Ok(());
    }
    output::print(&print::print(forecast))?;
    let terminal = std::io::stdout().is_terminal();
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let width =
        console::Term::stdout().size_checked().map_or(COLUMNS, |(_, columns)| columns.into());
    let style = print::Style {
        width: if terminal { width } else { COLUMNS },
        colors: terminal && !plain,
        whole_map: args.map,
    };
    let map = print::map(forecast, style);
    // The only escapes in it are its own colours, as no name has one.
    match style.colors {
        true => output::write(map.as_bytes())?,
        false => output::print(&map)?,
    }
    Ok(())
}
