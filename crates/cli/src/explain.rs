//! `pageblock explain`: the reports in a kernel's log.

use std::io::IsTerminal;
use std::path::Path;

use pageblock_doctor::Explained;
use pageblock_plan::log;
use pageblock_report::explain as print;

use crate::args::ExplainArgs;
use crate::{Verdict, output};

pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<Verdict> {
    let Explained { found, lines } = read(&args.file)?;
    output::print(&match args.json {
        true => serde_json::to_string_pretty(&found)? + "\n",
        false => print::print(&found, lines),
    })?;
    Ok(if found.is_empty() { Verdict::No } else { Verdict::Yes })
}

fn read(path: &Path) -> anyhow::Result<Explained> {
    if path != Path::new("-") {
        return Ok(log::explain(path)?);
    }
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        output::note("explain: paste a log, then press Ctrl-D\n");
    }
    Ok(log::explain_from(stdin, "standard input")?)
}
