//! `pageblock fleet`: many machines, a row each.

use pageblock_plan::{fleet, jobs};
use pageblock_report::fleet as print;
use pageblock_report::json::to_json;

use crate::args::fleet::FleetArgs;
use crate::progress::terminal;
use crate::{Verdict, interrupt, output};

pub(crate) fn run(args: &FleetArgs) -> anyhow::Result<Verdict> {
    let at_a_time = jobs::at_a_time(args.jobs)?;
    if let Some(out) = &args.out {
        pageblock_measure::value::file::can_save(out)?;
    }
    let hosts = fleet::hosts(&args.paths)?;
    interrupt::watch_quietly();
    let Some(rows) = fleet::examine(&hosts, at_a_time, terminal().as_ref())? else {
        return Ok(Verdict::Interrupted);
    };
    if let Some(out) = &args.out {
        fleet::save(out, &rows)?;
    }
    output::print(&if args.json { to_json(&rows) } else { print::print(&rows) })?;
    if let Some(out) = args.out.as_ref().filter(|_| !args.json) {
        output::note(&format!(
            "{}: {} rows\n",
            output::in_line(&out.display().to_string()),
            rows.len()
        ));
    }
    let unread = rows.iter().any(|row| row.error.is_some());
    Ok(if unread { Verdict::No } else { Verdict::Yes })
}
