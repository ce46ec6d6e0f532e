//! `pageblock compare`, and the comparison that commands print of the runs they make.

use pageblock_measure::Run;
use pageblock_measure::compare::common::Options;
use pageblock_measure::compare::published::Table;
use pageblock_plan::compare::{compared, load, published_table};
use pageblock_report::chosen::Tables;
use pageblock_report::json;

use crate::args::CompareArgs;
use crate::plan::RunFormat;
use crate::{Verdict, output};

pub(crate) fn run(args: &CompareArgs) -> anyhow::Result<Verdict> {
    let format = RunFormat::new(args.json, args.published)?;
    let runs = load(&args.files, args.force)?;
    let published = if args.published { Some(published_table(&runs)?) } else { None };
    let options = Options { stars: args.stars.into(), ..Options::default() };
    let tables = Tables::parse(&args.tables.tables);
    output::print(&text(runs, format, &tables, &options, published)?)?;
    Ok(Verdict::Yes)
}

/// Prints runs, or their comparison, with the `published` table beside it. Seeds that not every policy ran are
/// excluded from the comparison.
pub(crate) fn text(
    runs: Vec<Run>,
    format: RunFormat,
    tables: &Tables,
    options: &Options,
    published: Option<&Table>,
) -> anyhow::Result<String> {
    if format == RunFormat::Runs {
        return Ok(pageblock_measure::run::saved::to_json(&runs));
    }
    let comparison = compared(runs, options, published)?;
    Ok(match format {
        RunFormat::Comparison => json::to_json(&comparison),
        _ => tables.print(&comparison),
    })
}
