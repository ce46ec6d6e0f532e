//! `pageblock demo`: the shipped recording, replayed and drawn.

use pageblock_picture::page::Page;
use pageblock_plan::shipped;
use pageblock_plan::subjects::{self, Pictured, Sources};
use pageblock_report::chosen::Tables;

use crate::args::report::DemoArgs;
use crate::progress::terminal;
use crate::{Verdict, interrupt, output};

/// The kernels beside the recorded one: the last before freelist hygiene, and the first with it.
const KERNELS: [&str; 2] = ["linux-6.9", "linux-6.10"];

pub(crate) fn run(args: &DemoArgs) -> anyhow::Result<Verdict> {
    if let Some(folder) = &args.extract {
        shipped::write(folder)?;
        let folder = subjects::quoted(&folder.display().to_string());
        output::print(&format!(
            "{folder} has the recording: pageblock replay {folder} --policy linux-6.10\n"
        ))?;
        return Ok(Verdict::Yes);
    }
    pageblock_measure::value::file::can_save(&args.out)?;
    interrupt::watch();
    let scratch = shipped::unpacked()?;
    let policies = crate::plan::named(&KERNELS.map(str::to_owned))?;
    let sources = Sources {
        sources: vec![scratch.path().join(shipped::NAME)],
        policies,
        ..Sources::default()
    };
    let Pictured { title, mut subjects, comparisons, holders, .. } =
        subjects::load(&sources, true, &terminal())?;
    let Some(comparison) = comparisons.first() else {
        return Ok(Verdict::Interrupted);
    };
    output::print(&text(&Tables::None.below(&comparison.summary, "")))?;
    // The folder that it was read from is gone when the page is read.
    for subject in &mut subjects {
        subject.command = "pageblock demo".to_owned();
    }
    let command = super::report::command_line();
    let page = Page { title, command, subjects, comparisons, holders, ..Page::default() };
    pageblock_measure::value::file::save_bytes(&args.out, page.html().as_bytes())?;
    let place = args.out.canonicalize().unwrap_or_else(|_| args.out.clone());
    output::print(&format!(
        "\nPictures: file://{}\nNext: pageblock doctor examines this machine; pageblock alone lists what else there is.\n",
        output::in_line(&place.display().to_string()),
    ))?;
    Ok(if interrupt::requested() { Verdict::Interrupted } else { Verdict::Yes })
}

/// Says above a summary what it is of.
fn text(summary: &str) -> String {
    format!(
        "A recorded Debian kernel of 640 MiB, 650000 events ({}), and the same requests under two other\nkernels ({}):\n\n{summary}",
        shipped::NAME,
        KERNELS.join(", ")
    )
}
