//! `pageblock metrics`: the state of memory for Prometheus.

use std::path::Path;

use anyhow::{Context, bail};
use pageblock_doctor::checkup::{Sample, checkup};
use pageblock_doctor::forecast::forecast;
use pageblock_doctor::proc::tree::Tree;
use pageblock_files::Access;
use pageblock_report::metrics::{metrics, obtainable};

use crate::args::MetricsArgs;
use crate::{Verdict, output};

pub(crate) fn run(args: &MetricsArgs) -> anyhow::Result<Verdict> {
    let tree = Tree::new(args.root.as_deref().unwrap_or(Path::new("/")));
    let sample = Sample::read(&tree, false);
    if sample.zones.is_empty() && sample.free_blocks.is_empty() && sample.vmstat.is_empty() {
        bail!(
            "{}: no zoneinfo, buddyinfo or vmstat; expected a tree with proc, or a folder with its files",
            tree.root().display()
        );
    }
    let mut text = metrics(&sample, &checkup(&sample, None));
    if args.forecast {
        let made = forecast(tree.root(), &|_| (), &|_| false)?;
        text += &obtainable(&made);
    }
    match &args.out {
        // The collector runs as another user, and may read at any time.
        Some(path) => pageblock_files::write(path, text.as_bytes(), Access::Everyone)
            .with_context(|| path.display().to_string())?,
        None => output::print(&text)?,
    }
    Ok(Verdict::Yes)
}
