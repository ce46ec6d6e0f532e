//! The zones of a request as a table.

use pageblock_doctor::Explanation;
use pageblock_doctor::watermark::{Check, Verdict};

use crate::table::Table;

/// Prints what each zone had, and what it needed.
pub(super) fn zones(of: &Explanation) -> String {
    let order = of.report.order.unwrap_or(0);
    let mut table =
        Table::new().text("zone").number("free [kB]").number("not for it").number("must be left");
    table = table.number(&format!("blocks >= order {order}")).text("").text("lines");
    for zone in &of.zones {
        let lines: Vec<String> = zone.lines.iter().map(ToString::to_string).collect();
        table.row([
            format!("node {} {}", zone.node, zone.kind.name()),
            known(zone.free),
            unusable(zone),
            left(zone),
            known(zone.blocks),
            verdict(zone).to_owned(),
            lines.join(", "),
        ]);
    }
    table.print()
}

fn unusable(zone: &Check) -> String {
    let least = zone.unusable_cma + zone.unusable_highatomic;
    match zone.hidden_highatomic {
        0 => least.to_string(),
        hidden => format!("{least} to {}", least + hidden),
    }
}

fn left(zone: &Check) -> String {
    let mark = known(zone.mark);
    match zone.reserve {
        Some(0) => mark,
        reserve => format!("{mark} + {}", known(reserve)),
    }
}

fn known(number: Option<u64>) -> String {
    number.map_or("?".to_owned(), |number| number.to_string())
}

/// Tells whether it was printed how much is free, and how much must stay free.
pub(super) const fn is_known(zone: &Check) -> bool {
    zone.free.is_some() && zone.mark.is_some() && zone.reserve.is_some()
}

const fn verdict(zone: &Check) -> &'static str {
    match zone.verdict {
        Verdict::Below => "too little is free",
        Verdict::BelowWithoutCma => "too little without CMA",
        Verdict::BelowWithoutHighatomic => "too little without the highatomic reserve",
        Verdict::NoBlock if !is_known(zone) => "no block is large enough",
        Verdict::NoBlock => "enough is free, no block is large enough",
        Verdict::OtherBlocks => "enough is free, in blocks that are not for it",
        Verdict::TooFewLarge => "too little is free in large blocks",
        Verdict::BelowHigh => "too little for an end of the OOM (below high)",
        Verdict::Fits => "would serve it",
        Verdict::Unknown
            if zone.free.is_some() && zone.mark.is_some() && zone.reserve.is_none() =>
        {
            "cannot be told: lowmem_reserve is missing"
        }
        Verdict::Unknown => "not printed",
    }
}
