//! Who asked for pages, who holds them, and who waited, as text.

use pageblock_measure::value::call_sites::{CallSite, CallSites, StillHeld, Wait, WaitFor};

use crate::forecast::grouped;
use crate::table::Table;
use crate::text::cell;

/// The call sites and holders that are printed.
pub const SITES: usize = 15;

/// Prints the call sites with the most events and pages, who still holds pages, and who waited.
#[must_use]
pub fn print(of: &CallSites) -> String {
    let CallSites { fallbacks, requests, held: still, waits: waited } = of;
    let mut text = String::new();
    if fallbacks.is_empty() && requests.is_empty() {
        text += "no stacks are recorded (pageblock record --stacks)\n";
    } else {
        text += "who took pages of blocks of another type (mm_page_alloc_extfrag)\n";
        if fallbacks.is_empty() {
            text += "nobody\n";
        } else {
            let columns = Table::new().number("events").number("claimed").number("pages");
            text += &rows(columns.text("type").text("call site"), fallbacks, |site| {
                vec![site.events, site.claimed, site.pages]
            });
        }
        text += "\nwho asked for pages (mm_page_alloc, those with a stack)\n";
        let columns = Table::new().number("events").number("pages");
        text += &rows(columns.text("type").text("call site"), requests, |site| {
            vec![site.events, site.pages]
        });
    }
    text.push('\n');
    text += &held(still);
    text.push('\n');
    text + &waits(waited)
}

/// Prints who still holds pages that do not move.
#[must_use]
pub fn held(of: &StillHeld) -> String {
    let mut text = format!(
        "who still holds pages that do not move: {} were asked for, {} are held, in {} pageblocks\n",
        grouped(of.asked),
        grouped(of.held),
        grouped(of.blocks),
    );
    text.extend(lost(of).map(|line| line + "\n"));
    if of.held == 0 {
        return text;
    }
    let columns = Table::new().number("asked").number("held").number("pageblocks").number("alone");
    let mut table = columns.text("type").text("command").text("slab").text("call site");
    let holders = || of.holders.iter().filter(|holder| holder.held > 0);
    for holder in holders().take(SITES) {
        let numbers = [holder.asked, holder.held, holder.blocks, holder.alone].map(grouped);
        table.row(numbers.into_iter().chain([
            holder.migratetype.to_owned(),
            cell(&holder.process).into_owned(),
            holder.slab.unwrap_or_default().to_owned(),
            site(&holder.functions),
        ]));
    }
    text += &table.print();
    text + &more(holders().count())
}

/// Prints who waited for compaction or reclaim of its own.
#[must_use]
pub fn waits(of: &[Wait]) -> String {
    if of.is_empty() {
        return "nobody waited for compaction or reclaim of its own\n".to_owned();
    }
    let sum = |what: fn(&Wait) -> u64| of.iter().map(what).sum::<u64>();
    let mut text = format!(
        "who waited for compaction or reclaim of its own: {} times, {} ms\n",
        grouped(sum(|wait| wait.times)),
        ms(sum(|wait| wait.total_us)),
    );
    let columns = Table::new().number("times").number("in vain").number("all [ms]");
    let columns = columns.number("longest [ms]").number("order").text("for");
    let mut table = columns.text("command").text("call site");
    for wait in of.iter().take(SITES) {
        table.row([
            grouped(wait.times),
            grouped(wait.in_vain),
            ms(wait.total_us),
            ms(wait.longest_us),
            wait.order.to_string(),
            match wait.waited_for {
                WaitFor::Compaction => "compaction".to_owned(),
                WaitFor::Reclaim => "reclaim".to_owned(),
            },
            cell(&wait.process).into_owned(),
            site(&wait.functions),
        ]);
    }
    text += &table.print();
    text + &more(of.len())
}

fn ms(us: u64) -> String {
    format!("{:.1}", us as f64 / 1000.0)
}

/// Prints a call site: its functions, the innermost first.
#[must_use]
pub fn site(functions: &[String]) -> String {
    match functions {
        [] => "(no stack)".to_owned(),
        functions => functions.join(" <- "),
    }
}

/// Warns of lost events, by which frees may be missing; nothing where none is lost.
#[must_use]
pub fn lost(of: &StillHeld) -> Option<String> {
    (of.lost > 0).then(|| {
        let lost = grouped(of.lost);
        format!("{lost} events were lost: frees may be among them, and then fewer pages are held")
    })
}

fn more(all: usize) -> String {
    match all.saturating_sub(SITES) {
        0 => String::new(),
        more => format!("and {more} more\n"),
    }
}

fn rows(mut table: Table, sites: &[CallSite], numbers: fn(&CallSite) -> Vec<u64>) -> String {
    for site in sites.iter().take(SITES) {
        let numbers = numbers(site).into_iter().map(|number| number.to_string());
        let words = [site.migratetype.to_owned(), site.functions.join(" <- ")];
        table.row(numbers.chain(words));
    }
    table.print() + &more(sites.len())
}
