//! `pageblock plot`: one picture of runs and recordings.

use std::path::Path;

use anyhow::{Context, bail};
use pageblock_picture::plot::{self, Format};
use pageblock_picture::{Opened, plain};
use pageblock_plan::subjects::{self, Pictured};

use crate::args::report::PlotArgs;
use crate::progress::terminal;
use crate::{Verdict, interrupt, output};

pub(crate) fn run(args: &PlotArgs) -> anyhow::Result<Verdict> {
    if !(0.0..=1.0).contains(&args.at) {
        bail!("--at {} is not a share from 0 to 1", args.at);
    }
    let file = args.out.as_deref().map(|path| Ok::<_, anyhow::Error>((path, format(path)?)));
    let file = file.transpose()?;
    if let Some((path, _)) = file {
        pageblock_measure::value::file::can_save(path).context("--out")?;
    }
    interrupt::watch();
    let Pictured { subjects, runs, .. } = subjects::load(&args.of.sources()?, false, &terminal())?;
    let opened = subjects.iter().map(Opened::of).collect::<Result<Vec<_>, _>>()?;
    let opened: Vec<Opened> = opened.into_iter().flatten().collect();
    let points = plot::points(&runs);
    let kind = args.kind.into();
    match file {
        Some((path, format)) => {
            let bytes = plot::draw(kind, format, &opened, &points, args.at)?;
            pageblock_measure::value::file::save_bytes(path, &bytes)?;
        }
        None => output::print(&plain::text(kind, &opened, &points, args.at)?)?,
    }
    Ok(if interrupt::requested() { Verdict::Interrupted } else { Verdict::Yes })
}

/// Returns the form that a file's name asks for.
fn format(path: &Path) -> anyhow::Result<Format> {
    let allowed = "allowed: a name that ends with .svg or .png";
    Format::of(path).with_context(|| format!("--out {}: {allowed}", path.display()))
}
