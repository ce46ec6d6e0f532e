//! What is wrong with a machine's memory, as text.

use pageblock_doctor::checkup::{
    Checkup, Failures, Finding, Fragmented, Hurts, Rates, Severity, ZoneHealth,
};
use pageblock_doctor::class::{Class, Confidence};

use crate::table::Table;
use crate::text::cell;

/// Prints an examination: the answer and the findings, and with `details` everything that they stand on.
#[must_use]
pub fn print(of: &Checkup, details: bool) -> String {
    let mut text = answer(of);
    for finding in &of.findings {
        text.push('\n');
        text += &print_finding(finding, details);
    }
    text.push('\n');
    text += &orders(of);
    if details {
        text += &zones(of);
        text += &settings(of);
    }
    if let Some(rates) = &of.rates {
        text += &print_rates(rates, details);
    }
    for missing in &of.missing {
        text += &format!("Missing: {}: {}\n", missing.file, missing.why);
    }
    if !details {
        text +=
            "--details prints zones, watermarks, pageblocks by type, and more of each finding.\n";
    }
    text
}

const fn percent(thousandths: u64) -> u64 {
    thousandths.div_ceil(10)
}

/// Returns the size of a block of an order.
fn size(of: &Checkup, order: usize) -> String {
    match of.page_kb << order.min(20) {
        kb if kb >= 1024 => format!("{} MiB", kb / 1024),
        kb => format!("{kb} KiB"),
    }
}

fn answer(of: &Checkup) -> String {
    let version = of.version.as_deref().unwrap_or("a kernel of unknown version");
    let mib = |pages: u64| pages * of.page_kb / 1024;
    let managed: Option<u64> = of.zones.iter().map(ZoneHealth::managed).sum();
    let mut text = match (of.free, managed) {
        (Some(free), Some(all)) => {
            format!("{version}: {} MiB of {} MiB free\n", mib(free), mib(all))
        }
        (Some(free), None) => format!("{version}: {} MiB free\n", mib(free)),
        (None, _) => format!("{version}: free memory not known\n"),
    };
    if let Some([from, to]) = &of.examined {
        text += &format!("Examined:      {from} to {to}\n");
    }
    let order = usize::from(of.pageblock_order);
    let share = |order: usize| of.unusable.get(order).map_or(0, |&share| percent(share));
    let large = format!("{} % of free memory is in blocks below {}", share(order), size(of, order));
    text += &match of.fragmented {
        Fragmented::Unknown => "Fragmented?    not known: no buddyinfo\n".to_owned(),
        Fragmented::No => format!("Fragmented?    no: {large}\n"),
        Fragmented::Partly => format!("Fragmented?    partly: {large}\n"),
        Fragmented::Yes => format!("Fragmented?    yes: {large}\n"),
        Fragmented::Badly => {
            format!("Fragmented?    badly: {large}, {} % below {}\n", share(3), size(of, 3))
        }
    };
    let why = of.why.join("; ");
    text += &match of.hurts {
        Hurts::Yes => format!("Does it hurt?  yes: {why}\n"),
        Hurts::Did => format!("Does it hurt?  it did: {why}\n"),
        Hurts::No => format!("Does it hurt?  no: {why}\n"),
        Hurts::Unknown => format!("Does it hurt?  not known: {why}\n"),
    };
    for event in recent(of) {
        text += &format!("Recently:      {event}\n");
    }
    let first = of.findings.iter().find_map(|finding| Some((finding, finding.commands.first()?)));
    text + &match first {
        Some((finding, command)) => {
            format!("First:         {}\n               for: {}\n", command.run, finding.symptom)
        }
        None if of.findings.is_empty() => format!("First:         {}\n", nothing_found(of)),
        None => format!("First:         {}\n", of.findings[0].symptom),
    }
}

/// The events of the log that are among the first lines.
const RECENT: usize = 3;

/// Returns a class in the words of docs/explain.md.
fn word(class: Class) -> String {
    let json = serde_json::to_value(class).unwrap_or_default();
    json.as_str().unwrap_or_default().replace('_', " ")
}

/// Returns the last OOM kill and the last failures that the log has, with their times.
fn recent(of: &Checkup) -> Vec<String> {
    let Some(log) = &of.log else { return Vec::new() };
    let mut events = Vec::new();
    if let Some(kill) = &log.last_kill {
        let whose = if kill.of_cgroup { ", of a cgroup at its limit," } else { "" };
        let task = cell(&kill.task);
        let when = kill.ago(of.uptime);
        events.push(format!("the OOM killer ended {task}{whose} {when} ({} in all)", log.kills));
    }
    let failures = log.failures.iter().filter(|failures| {
        // A kill's own report says no more than the kill.
        log.last_kill.is_none() || !matches!(failures.class, Class::Shortage | Class::Cgroup)
    });
    for own in failures {
        let (Failures { class, order, count, .. }, when) = (own, own.last_ago(of.uptime));
        let reports = if *count == 1 { "report" } else { "reports" };
        let last = if *count == 1 { "" } else { "the last " };
        events.push(format!("{count} {reports} of order {order} ({}), {last}{when}", word(*class)));
    }
    let more = events.len().saturating_sub(RECENT);
    events.truncate(RECENT);
    if more > 0 {
        events.push(format!("{more} more kinds of failures: pageblock explain"));
    }
    events
}

/// Returns what to do where nothing was found.
fn nothing_found(of: &Checkup) -> &'static str {
    match (of.fragmented, of.hurts) {
        _ if of.missing.iter().any(|missing| missing.file == "/proc/vmstat") => {
            "copy zoneinfo, vmstat, meminfo and buddyinfo of /proc twice while it is used: they tell whether it hurts"
        }
        (Fragmented::No, _) | (_, Hurts::No) => "nothing to do",
        (_, Hurts::Unknown) => "take two samples under load: they show whether it hurts",
        _ => "`pageblock forecast` (as root): what compaction could give",
    }
}

fn print_finding(of: &Finding, details: bool) -> String {
    let severity = match of.severity {
        Severity::Notice => "Notice",
        Severity::Warning => "Warning",
        Severity::Critical => "Critical",
    };
    let confidence = match of.confidence {
        Confidence::High => "",
        Confidence::Medium => " (likely)",
        Confidence::Low => " (a guess)",
    };
    let mut text = format!("{severity}: {}\n", of.symptom);
    for evidence in &of.evidence {
        text += &format!("  seen:  {evidence}\n");
    }
    text += &format!("  cause: {}{confidence}\n", of.cause);
    let shown = if details { of.commands.len() } else { 1 };
    for command in of.commands.iter().take(shown) {
        text += &format!("  do:    {}\n", command.run);
        text += &format!("         risk: {}\n", command.risk);
        if let Some(undo) = &command.undo {
            text += &format!("         undo: {undo}\n");
        }
    }
    for advice in &of.does_nothing {
        text += &format!("  not:   {} ({})\n", advice.what, advice.why);
    }
    text
}

/// Prints the share of free memory that is too scattered, by order and zone.
fn orders(of: &Checkup) -> String {
    let zones: Vec<&ZoneHealth> =
        of.zones.iter().filter(|zone| !zone.free_blocks.is_empty()).collect();
    if zones.is_empty() {
        return String::new();
    }
    let mut table = Table::new().text("free memory too scattered for order, %");
    for order in 1..of.unusable.len() {
        table = table.number(&order.to_string());
    }
    let row = |name: String, shares: &[u64]| -> Vec<String> {
        let cells = shares.iter().skip(1).map(|&share| percent(share).to_string());
        std::iter::once(name).chain(cells).collect()
    };
    for zone in &zones {
        let name = format!("node {} {}", zone.node, zone.zone);
        // Without free memory there is no share.
        let none = zone.free_blocks.iter().all(|&blocks| blocks == 0);
        match none {
            true => table.row([name, "no free block".to_owned()]),
            false => table.row(row(name, &zone.unusable)),
        }
    }
    if zones.len() > 1 {
        table.row(row("all".to_owned(), &of.unusable));
    }
    table.print()
}

fn zones(of: &Checkup) -> String {
    let mut table =
        Table::new().text("zone [pages]").number("managed").number("free").number("per-CPU lists");
    table = table
        .number("min")
        .number("low")
        .number("high")
        .number("boost")
        .number("CMA")
        .text("lowmem reserve");
    for zone in &of.zones {
        let Some(told) = &zone.accounts else { continue };
        let reserve: Vec<String> = told.lowmem_reserve.iter().map(ToString::to_string).collect();
        let [min, low, high] = told.watermarks;
        table.row([
            format!("node {} {}", zone.node, zone.zone),
            told.managed.to_string(),
            zone.free.to_string(),
            told.on_cpu_lists.to_string(),
            min.to_string(),
            low.to_string(),
            high.to_string(),
            told.boost.to_string(),
            told.cma.to_string(),
            reserve.join("/"),
        ]);
    }
    let told = of.zones.iter().any(|zone| zone.accounts.is_some());
    let mut text = if told { format!("\n{}", table.print()) } else { String::new() };
    for zone in of.zones.iter().filter(|zone| !zone.blocks_by_type.is_empty()) {
        let types = zone.blocks_by_type.iter().filter(|(_, blocks)| **blocks > 0);
        let types: Vec<String> = types.map(|(name, blocks)| format!("{name} {blocks}")).collect();
        text += &format!("pageblocks of node {} {}: {}\n", zone.node, zone.zone, types.join(", "));
    }
    for zone in &of.zones {
        let orders = zone.fragmentation.iter().enumerate();
        let failing: Vec<String> = orders
            .filter_map(|(order, index)| {
                let index = (*index)? as f64 / 1000.0;
                Some(format!("order {order}: {index:.3}"))
            })
            .collect();
        if !failing.is_empty() && zone.free > 0 {
            text += &format!(
                "fragmentation index of node {} {} where a request would fail (0 memory is short, 1 fragmented): {}\n",
                zone.node,
                zone.zone,
                failing.join(", ")
            );
        }
    }
    text
}

fn settings(of: &Checkup) -> String {
    let mut text = String::new();
    if let Some(enabled) = &of.huge.enabled {
        let defrag = of.huge.defrag.as_deref().unwrap_or("?");
        text += &format!("transparent_hugepage: enabled={enabled} defrag={defrag}\n");
    }
    let sizes: Vec<String> = of
        .huge
        .sizes
        .iter()
        .filter_map(|size| Some(format!("{} kB {}", size.kb, size.enabled.as_ref()?)))
        .collect();
    if !sizes.is_empty() {
        text += &format!("large folios: {}\n", sizes.join(", "));
    }
    if let Some(total) = of.hugetlb.total {
        text += &format!("hugetlb pages: {total} of {} kB\n", of.hugetlb.kb.unwrap_or(0));
    }
    if let Some(pressure) = &of.pressure {
        let [ten, minute, five] = pressure.some;
        text += &format!(
            "tasks waited for memory: {ten} % of 10 s, {minute} % of 60 s, {five} % of 300 s\n"
        );
    }
    if let Some(log) = &of.log {
        let failures: u64 = log.failures.iter().map(|f| f.count).sum();
        text += &format!(
            "kernel log: {} lines, {failures} allocation failures or OOM reports\n",
            log.lines
        );
    }
    text
}

fn print_rates(rates: &Rates, details: bool) -> String {
    let all = [
        ("direct compaction", rates.compact_stall),
        ("in vain", rates.compact_fail),
        ("direct reclaim", rates.direct_reclaim),
        ("huge-page faults", rates.thp_alloc),
        ("without one", rates.thp_fallback),
        ("large-folio faults", rates.folio_alloc),
        ("without one of that size", rates.folio_fallback),
        ("kswapd pages scanned", rates.kswapd_scanned),
        ("freed", rates.kswapd_freed),
        ("direct pages scanned", rates.direct_scanned),
        ("kcompactd pages scanned", rates.kcompactd_scanned),
        ("pages swapped out", rates.swapped_out),
        ("caches dropped by hand", rates.dropped_caches),
    ];
    let shown = all.into_iter().filter(|(_, rate)| details || *rate > 0.0);
    let shown: Vec<String> = shown.map(|(name, rate)| format!("{name} {rate:.1}")).collect();
    let mut text = match shown.is_empty() {
        true => {
            format!("In {:.1} s: no compaction, no reclaim, no huge-page fault\n", rates.seconds)
        }
        false => format!("In {:.1} s, a second: {}\n", rates.seconds, shown.join(", ")),
    };
    let busy = rates.daemons.iter().filter(|(_, cpu)| details || **cpu >= 1.0);
    let busy: Vec<String> = busy.map(|(name, cpu)| format!("{name} {cpu:.0} %")).collect();
    if !busy.is_empty() {
        text += &format!("CPU time: {}\n", busy.join(", "));
    }
    text
}
