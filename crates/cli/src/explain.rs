//! `pageblock explain`: the reports in a kernel's log.

use std::io::IsTerminal;
use std::path::Path;

use pageblock_plan::log;
use pageblock_report::explain as print;

use crate::args::ExplainArgs;
use crate::{Verdict, output};

pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<Verdict> {
    let bytes = read(&args.file)?;
    let log = String::from_utf8_lossy(&bytes);
    let found = pageblock_doctor::explain(&log);
    output::print(&match args.json {
        true => serde_json::to_string_pretty(&found)? + "\n",
        false => print::print(&found, log.lines().count()),
    })?;
    Ok(if found.is_empty() { Verdict::No } else { Verdict::Yes })
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    if path != Path::new("-") {
        return Ok(log::read(path)?);
    }
    let mut stdin = std::io::stdin().lock();
    if stdin.is_terminal() {
        output::note("explain: paste a log, then press Ctrl-D\n");
    }
    Ok(log::read_from(&mut stdin, "standard input")?)
}
