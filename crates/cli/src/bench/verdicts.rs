//! `pageblock bench verdicts`: how often comparisons are wrong, and what they find.

use pageblock_measure::compare::error_rates::Splits;
use pageblock_plan::NamedPolicy;
use pageblock_plan::verdicts::{Asked, verdicts};
use pageblock_report::error_rates::print;
use pageblock_report::json::to_json;

use super::args::VerdictsArgs;
use crate::progress::terminal;
use crate::{Verdict, interrupt, output};

pub(super) fn run(args: &VerdictsArgs) -> anyhow::Result<Verdict> {
    let asked = Asked {
        workloads: args.workloads.clone(),
        kernel: NamedPolicy::parse(&args.kernel)?,
        other: NamedPolicy::parse(&args.other)?,
        scale: args.scale.clone(),
        pool: args.pool,
        splits: Splits { alarms: args.splits, power: args.splits.div_ceil(4) },
        jobs: args.jobs,
    };
    interrupt::watch();
    let rates = verdicts(&asked, terminal().as_ref())?;
    output::print(&match args.json {
        true => to_json(&rates),
        false => print(&rates),
    })?;
    Ok(if interrupt::requested() { Verdict::Interrupted } else { Verdict::Yes })
}
