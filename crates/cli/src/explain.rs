//! `pageblock explain`: the reports in a kernel's log.

use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::Path;

use anyhow::{Context, bail};
use pageblock_report::explain as print;

use crate::args::ExplainArgs;
use crate::{Verdict, output};

/// The size of a log above which it is refused: a year of a busy machine's kernel messages.
const LOG_LIMIT_MIB: u64 = 1024;

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
    let mut bytes = Vec::new();
    let limit = LOG_LIMIT_MIB << 20;
    let read =
        |reader: &mut dyn Read, bytes: &mut Vec<u8>| reader.take(limit + 1).read_to_end(bytes);
    let name = path.display().to_string();
    if name == "-" {
        let mut stdin = std::io::stdin().lock();
        if stdin.is_terminal() {
            output::note("explain: paste a log, then press Ctrl-D\n");
        }
        read(&mut stdin, &mut bytes).context("standard input")?;
    } else {
        let mut file = File::open(path).with_context(|| name.clone())?;
        read(&mut file, &mut bytes).with_context(|| name.clone())?;
    }
    if bytes.len() as u64 > limit {
        bail!("{name}: a log of more than {LOG_LIMIT_MIB} MiB; give the part with the report");
    }
    Ok(bytes)
}
