//! `pageblock compare`, and the comparison that commands print of the runs they make.

use pageblock_measure::Run;
use pageblock_measure::compare::common::Options;
use pageblock_measure::compare::full::FullComparison;
use pageblock_measure::compare::published::Table;
use pageblock_plan::compare::{compared, load, published_table};
use pageblock_report::chosen::Tables;
use pageblock_report::json;

use crate::args::CompareArgs;
use crate::plan::RunFormat;
use crate::{Verdict, output};

pub(crate) fn run(args: &CompareArgs) -> anyhow::Result<Verdict> {
    let format = RunFormat::new(args.json, args.published)?;
    let groups = load(&args.files, args.force)?;
    // Written only after the comparison is made: one that cannot be leaves no folder.
    let write = |runs: &[Run]| match &args.mmtests {
        Some(folder) => pageblock_plan::mmtests::write(runs, folder),
        None => Ok(()),
    };
    let all = groups.concat();
    if format == RunFormat::Runs {
        write(&all)?;
        output::print(&pageblock_measure::run::saved::to_json(&all))?;
        return Ok(Verdict::Yes);
    }
    let options = Options { stars: args.stars.into(), ..Options::default() };
    let compare = |runs: Vec<Run>| {
        let published = args.published.then(|| published_table(&runs)).transpose()?;
        compared(runs, &options, published)
    };
    let comparisons = groups.into_iter().map(compare).collect::<Result<Vec<_>, _>>()?;
    write(&all)?;
    output::print(&printed(&comparisons, format, &Tables::parse(&args.tables.tables)))?;
    Ok(Verdict::Yes)
}

/// Prints comparisons, one after the other.
fn printed(comparisons: &[FullComparison], format: RunFormat, tables: &Tables) -> String {
    match format {
        RunFormat::Comparison => json::one_or_several(comparisons),
        _ => {
            let texts: Vec<String> = comparisons.iter().map(|of| tables.print(of)).collect();
            texts.join("\n")
        }
    }
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
    Ok(printed(&[compared(runs, options, published)?], format, tables))
}
