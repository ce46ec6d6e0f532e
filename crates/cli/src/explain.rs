//! `pageblock explain`: the reports in a kernel's log.

use std::io::{IsTerminal, Read};

use pageblock_doctor::group::grouped;
use pageblock_doctor::window::Window;
use pageblock_plan::logs::{Logs, explain_all};
use pageblock_report::explain as print;

use crate::args::ExplainArgs;
use crate::{Verdict, output};

pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<Verdict> {
    let window = Window { since: args.since, until: args.until, at: args.at };
    let Logs { found, lines, notes, .. } = explain_all(&args.files, stdin, &window)?;
    for note in notes {
        output::note(&format!("explain: {note}\n"));
    }
    output::print(&match args.json {
        true => serde_json::to_string_pretty(&grouped(&found))? + "\n",
        false => print::print(&found, lines),
    })?;
    Ok(if found.is_empty() { Verdict::No } else { Verdict::Yes })
}

fn stdin() -> Box<dyn Read + Send> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        output::note("explain: paste a log, then press Ctrl-D\n");
    }
    Box::new(stdin)
}
