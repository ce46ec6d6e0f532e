//! Who asked for pages, as text.

use pageblock_measure::value::call_sites::{CallSite, CallSites};

use crate::table::Table;

/// The call sites that are printed.
const SITES: usize = 15;

/// Prints the call sites with the most events and pages.
#[must_use]
pub fn print(of: &CallSites) -> String {
    let CallSites { fallbacks, requests } = of;
    if fallbacks.is_empty() && requests.is_empty() {
        return "no stacks are recorded (pageblock record --stacks)\n".to_owned();
    }
    let mut text = "who took pages of blocks of another type (mm_page_alloc_extfrag)\n".to_owned();
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
    text + &rows(columns.text("type").text("call site"), requests, |site| {
        vec![site.events, site.pages]
    })
}

fn rows(mut table: Table, sites: &[CallSite], numbers: fn(&CallSite) -> Vec<u64>) -> String {
    for site in sites.iter().take(SITES) {
        let numbers = numbers(site).into_iter().map(|number| number.to_string());
        let words = [site.migratetype.to_owned(), site.functions.join(" <- ")];
        table.row(numbers.chain(words));
    }
    let more = sites.len().saturating_sub(SITES);
    let more = if more > 0 { format!("and {more} more\n") } else { String::new() };
    table.print() + &more
}
