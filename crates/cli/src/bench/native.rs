//! `pageblock bench native`, in builds with the feature `bench`: other allocators take as long to build as the rest of
//! the program.

use std::io::IsTerminal;

use pageblock_bench::native::{self, NativeRow};
use pageblock_bench::noise::Noise;
use pageblock_report::json::to_json;
use pageblock_report::table::Table;

use super::native_plan::NativePlan;
use crate::Verdict;
use crate::output::{self, print};
use crate::plan::Format;

pub(super) fn run(plan: &NativePlan) -> anyhow::Result<Verdict> {
    let report = native::run(&plan.plan, &mut say);
    let noise = noise(&report.noise);
    if plan.format == Format::Json {
        output::note(&noise);
        print(&to_json(&report.rows))?;
    } else {
        print(&format!("{}\n{}\n{noise}", times(&report.rows), packings(&report.rows)))?;
    }
    Ok(Verdict::Yes)
}

/// Prints the next step if standard error is a terminal.
fn say(what: &str) {
    if std::io::stderr().is_terminal() {
        output::note(&format!("{what}\n"));
    }
}

fn times(rows: &[NativeRow]) -> String {
    let mut table = Table::new()
        .text("pattern")
        .number("order")
        .number("threads")
        .number("memory [GiB]")
        .text("allocator")
        .number("median [ns]")
        .number("from")
        .number("to");
    for row in rows {
        if let NativeRow::Time {
            allocator,
            pattern,
            order,
            threads,
            memory_gib,
            ns_median,
            ns_low,
            ns_high,
        } = row
        {
            let (order, threads) = (order.to_string(), threads.to_string());
            let times = [ns_median, ns_low, ns_high].map(|ns| format!("{ns:.1}"));
            let [median, low, high] = times;
            let gib = memory_gib.to_string();
            table.row([*pattern, &order, &threads, &gib, allocator, &median, &low, &high]);
        }
    }
    table.print()
}

fn packings(rows: &[NativeRow]) -> String {
    let mut table = Table::new()
        .text("allocator")
        .text("placement")
        .number("2 MiB blocks won back")
        .number("possible");
    for row in rows {
        if let NativeRow::Packing { allocator, placement, blocks_won_back, possible } = row {
            let (won, possible) = (blocks_won_back.to_string(), possible.to_string());
            table.row([*allocator, placement, &won, &possible]);
        }
    }
    table.print()
}

fn noise(noise: &Noise) -> String {
    let Some((median, most)) = noise.slowdown() else { return String::new() };
    let loaded = if most > 1.25 { "; other work disturbed these results" } else { "" };
    format!(
        "noise: a fixed piece of work took {median:.2} times its fastest in the median, and at most {most:.2} \
         times in 9 of 10 of {} samples{loaded}\n",
        noise.samples()
    )
}
