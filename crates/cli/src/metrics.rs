//! `pageblock metrics`: the state of memory for Prometheus.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, bail};
use pageblock_doctor::checkup::{Sample, checkup};
use pageblock_doctor::proc::tree::Tree;
use pageblock_report::metrics::metrics;

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
    let text = metrics(&sample, &checkup(&sample, None));
    match &args.out {
        Some(path) => write(path, &text).with_context(|| path.display().to_string())?,
        None => output::print(&text)?,
    }
    Ok(Verdict::Yes)
}

/// Writes a file whole or not at all: the collector may read it at any time.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt;

    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
    file.write_all(text.as_bytes())?;
    // The collector runs as another user.
    file.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))?;
    file.persist(path)?;
    Ok(())
}
