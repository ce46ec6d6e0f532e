//! `pageblock report`: runs and recordings on a page.

use pageblock_picture::page::Page;
use pageblock_plan::subjects::{self, Pictured};

use crate::args::report::ReportArgs;
use crate::progress::terminal;
use crate::{Verdict, interrupt, output};

pub(crate) fn run(args: &ReportArgs) -> anyhow::Result<Verdict> {
    pageblock_measure::value::file::can_save(&args.out)?;
    interrupt::watch();
    let Pictured { title, subjects, comparisons, holders, .. } =
        subjects::load(&args.of.sources()?, true, &terminal())?;
    let command = command_line();
    let page = Page { title, command, subjects, comparisons, holders, ..Page::default() };
    let html = page.html();
    pageblock_measure::value::file::save_bytes(&args.out, html.as_bytes())?;
    let drawn = page.subjects.iter().filter(|subject| subject.history.is_some()).count();
    output::note(&format!(
        "{}: {drawn} of {} with pictures, {:.1} MB\n",
        output::in_line(&args.out.display().to_string()),
        page.subjects.len(),
        html.len() as f64 / 1e6
    ));
    if drawn == 0 {
        output::note(
            "No history is kept in these runs: `pageblock run ... --pictures --save FILE` keeps it.\n",
        );
    }
    Ok(if interrupt::requested() { Verdict::Interrupted } else { Verdict::Yes })
}

/// Returns this program's command line, as a shell would take it.
pub(crate) fn command_line() -> String {
    let words = std::env::args_os().skip(1).map(|word| subjects::quoted(&word.to_string_lossy()));
    std::iter::once("pageblock".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}
