//! `pageblock excerpt`: writes the start of a large recording as a small one.

use pageblock_recording::Recording;

use crate::args::ExcerptArgs;
use crate::{Verdict, output};

pub(crate) fn run(args: &ExcerptArgs) -> anyhow::Result<Verdict> {
    let recording = Recording::open(&args.recording)?;
    let written = recording.write_excerpt(&args.folder, args.events)?;
    output::print(&format!("{written} events in {}\n", args.folder.display()))?;
    Ok(Verdict::Yes)
}
