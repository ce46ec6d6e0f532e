//! What became of remedies, as text.

use pageblock_trial::demand::DemandTrials;
use pageblock_trial::{Confidence, Cost, OrderGain, Remedy, Span, Trials, Verdict};

use crate::forecast::{grouped, size};
use crate::table::Table;

/// The size of a page in kB: only machines with such pages are tried.
const PAGE_KB: u64 = 4;

/// Prints the remedies as a table, and below it why.
#[must_use]
pub fn print(of: &Trials) -> String {
    let mut orders = vec![of.pageblock_order];
    if of.order != of.pageblock_order {
        orders.push(of.order);
    }
    let mut text = format!(
        "\nRemedies, each tried on this state by the allocator and the compaction of {} (kernel {}).\n",
        of.preset, of.version
    );
    if of.order != of.pageblock_order {
        text += &format!("Order {} ({}): {}.\n", of.order, size(of.order, PAGE_KB), of.order_from);
    }
    text.push('\n');
    let mut table = Table::new().text("remedy").text("verdict");
    for &order in &orders {
        table = table.number(&format!("free {}", size(order, PAGE_KB))).number("after");
    }
    table = table.text("cost").text("sure");
    for remedy in &of.remedies {
        let mut cells = vec![remedy.name.clone(), verdict(remedy.verdict).to_owned()];
        for &order in &orders {
            let gain = remedy.effect.as_ref();
            let gain = gain.and_then(|effect| effect.orders.iter().find(|g| g.order == order));
            cells.push(gain.map_or_else(String::new, |gain| grouped(gain.before)));
            cells.push(gain.map_or_else(String::new, |gain| span(gain.after)));
        }
        cells.push(cost(remedy.cost));
        cells.push(remedy.confidence.map_or("", sure).to_owned());
        table.row(cells);
    }
    text += &table.print();
    text.push('\n');
    for remedy in &of.remedies {
        text += &reason(remedy);
    }
    text += &compaction(&of.compaction);
    text += &match of.types_agree {
        Some(percent) => format!(
            "The types of pageblocks are guessed from their pages; {percent} % of free memory below a pageblock agrees with \
             pagetypeinfo.\n"
        ),
        None => "pagetypeinfo is missing: the types of pageblocks are guessed from their pages.\n"
            .to_owned(),
    };
    text
}

fn reason(remedy: &Remedy) -> String {
    let command = match &remedy.command {
        Some(command) if matches!(remedy.verdict, Verdict::Gains | Verdict::MayGain) => {
            format!("  {command}\n")
        }
        _ => String::new(),
    };
    format!("{}: {}.\n{command}", remedy.name, remedy.why)
}

/// Prints what compaction gives at every order.
fn compaction(gains: &[OrderGain]) -> String {
    let mut table = Table::new().number("order").number("size").number("free");
    table = table.number("after compaction");
    for gain in gains {
        table.row([
            gain.order.to_string(),
            size(gain.order, PAGE_KB),
            grouped(gain.before),
            span(gain.after),
        ]);
    }
    format!("\n{}", table.print())
}

const fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Gains => "gains",
        Verdict::MayGain => "may gain",
        Verdict::GainsNothing => "gains nothing",
        Verdict::Worse => "makes it worse",
        Verdict::NotJudged => "not judged",
        Verdict::NotHere => "not in this kernel",
    }
}

const fn sure(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::Low => "low",
        Confidence::Medium => "medium",
        Confidence::High => "high",
    }
}

fn span(of: Span) -> String {
    match of.at_least == of.at_most {
        true => grouped(of.at_least),
        false => format!("{} to {}", grouped(of.at_least), grouped(of.at_most)),
    }
}

fn cost(of: Cost) -> String {
    let mut parts = Vec::new();
    if of.moved.at_most > 0 {
        parts.push(format!("{} pages moved", span(of.moved)));
    }
    if of.dropped > 0 {
        parts.push(format!("{} MiB of cache lost", grouped(of.dropped * PAGE_KB / 1024)));
    }
    if of.kept_free > 0 {
        parts.push(format!("{} MiB kept free", grouped(of.kept_free * PAGE_KB / 1024)));
    }
    parts.join(", ")
}

/// Prints what settings did to the demand of a recording.
#[must_use]
pub fn demand(of: &DemandTrials) -> String {
    let mut table = Table::new().text("setting").text("verdict");
    table = table.number("requests that mix pageblocks").number("slow").number("failed");
    table = table.number(&format!("free {} at the end", size(of.pageblock_order, PAGE_KB)));
    for (at, row) in of.rows.iter().enumerate() {
        let verdict = if at == 0 { "" } else { verdict(row.verdict) };
        table.row([
            row.setting.clone(),
            verdict.to_owned(),
            grouped(row.fragmenting),
            grouped(row.slow),
            grouped(row.failed),
            grouped(row.free_blocks),
        ]);
    }
    let limits = of.rows.iter().find_map(|row| row.limits);
    let limits = limits.map_or_else(String::new, |limits| format!("Sure: low; {limits}.\n"));
    format!(
        "\nSettings, tried on the demand of {} ({} requests and frees):\n\n{}{limits}",
        of.recording,
        grouped(of.requests),
        table.print()
    )
}
