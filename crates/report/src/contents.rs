//! What a recording holds, as text.

use std::collections::{BTreeMap, BTreeSet};

use pageblock_measure::Harm;
use pageblock_measure::certificate::contents::{Contents, Statistics};

use crate::table::Table;

/// The commands that are printed.
const COMMANDS: usize = 15;
/// The kinds of events that are printed.
const KINDS: usize = 20;

/// Prints what a recording holds on one screen.
#[must_use]
pub fn print(of: &Contents) -> String {
    let per_event = of.bytes as f64 / of.events.max(1) as f64;
    let mib = of.bytes as f64 / f64::from(1 << 20);
    let mut text = format!(
        "{}: {} events in {:.3} s, {mib:.1} MiB ({per_event:.2} bytes an event)",
        of.recording, of.events, of.seconds
    );
    text += &match of.grade {
        Some(grade) => format!("; grade {grade:?}\n"),
        None => "; not graded yet (pageblock verify)\n".to_owned(),
    };
    text += &match of.lost {
        0 => "no event was lost\n".to_owned(),
        lost => format!("{lost} events were lost\n"),
    };
    text += &match of.not_understood {
        0 => String::new(),
        1 => "1 event was not understood; it is kept, and not replayed\n".to_owned(),
        events => {
            format!("{events} events were not understood; they are kept, and not replayed\n")
        }
    };
    text.push('\n');
    let assumed = if of.kernel_assumed { " (assumed: nothing says it)" } else { "" };
    let kernel: String = of.kernel.chars().take(80).collect();
    let line = |name: &str, value: &str| format!("{name:<12}{value}\n");
    text += &line("kernel", &format!("{kernel}{assumed}"));
    let start = match (of.start_state, of.start_exact) {
        (false, _) => "not recorded: a replay infers it from the events",
        (true, true) => "recorded, exact: with the order of lists and the types of blocks",
        (true, false) => {
            "recorded, from /proc: the order of lists and the types of blocks are inferred"
        }
    };
    text += &line("start state", start);
    text += &line("end state", if of.end_state { "recorded" } else { "not recorded" });
    text += &line(
        "pageblock",
        &format!(
            "order {}, {} KiB with pages of 4 KiB",
            of.pageblock_order,
            4 << of.pageblock_order
        ),
    );
    text += &line(
        "names",
        &format!("{} commands, {} settings of the machine", of.commands, of.settings),
    );
    if !of.zones.is_empty() {
        let mut table =
            Table::new().text("zone").number("node").number("managed [MiB]").number("free [MiB]");
        for zone in &of.zones {
            let mib = |pages: u64| (pages >> 8).to_string();
            table.row([
                zone.zone.clone(),
                zone.node.to_string(),
                mib(zone.managed),
                mib(zone.free),
            ]);
        }
        text.push('\n');
        text += &table.print();
    }
    text
}

/// Prints the events of a recording by kind: on one screen where it can.
#[must_use]
pub fn statistics(of: &Statistics) -> String {
    let rate = of.events as f64 / of.seconds.max(1e-6);
    let mut text = format!(
        "{}: {} events in {:.3} s, {rate:.0} a second; {} fallbacks to another type, {} of them fragment (below \
         order {})\n",
        of.recording,
        of.events,
        of.seconds,
        of.fallbacks.total(),
        of.fallbacks.fragmenting(of.pageblock_order),
        of.pageblock_order
    );
    for (cpu, lost) in &of.lost {
        text += &format!("CPU {cpu} lost {lost} events\n");
    }
    text.push('\n');
    text += &events(of);
    if !of.requests.is_empty() {
        text += "\nRequests by order\n";
        text += &orders(&of.requests);
    }
    if !of.failed.is_empty() {
        text += "\nRequests that got nothing, by order\n";
        text += &orders(&of.failed);
    }
    text += &fallbacks(of);
    text + &commands(of)
}

fn events(of: &Statistics) -> String {
    let mut table =
        Table::new().text("event").number("events").number("share [%]").number("a second");
    let mut kinds: Vec<_> = of.by_event.iter().collect();
    kinds.sort_by_key(|&(name, &events)| (std::cmp::Reverse(events), name));
    let row = |name: &str, events: u64| {
        [
            name.to_owned(),
            events.to_string(),
            format!("{:.2}", 100.0 * events as f64 / of.events.max(1) as f64),
            format!("{:.1}", events as f64 / of.seconds.max(1e-6)),
        ]
    };
    for (name, events) in kinds.iter().take(KINDS) {
        table.row(row(name, **events));
    }
    let rest = kinds.iter().skip(KINDS).map(|(_, events)| **events).sum();
    if rest > 0 {
        table.row(row(&format!("{} others", kinds.len() - KINDS), rest));
    }
    table.print()
}

fn orders(requests: &BTreeMap<String, BTreeMap<u8, u64>>) -> String {
    let all = requests.values().flat_map(BTreeMap::keys);
    let orders: BTreeSet<u8> = all.copied().collect();
    let mut table = Table::new().text("type");
    for order in &orders {
        table = table.number(&order.to_string());
    }
    for (mt, counts) in requests {
        let count = |order: &u8| counts.get(order).map_or(String::new(), u64::to_string);
        table.row([mt.clone()].into_iter().chain(orders.iter().map(count)));
    }
    table.print()
}

fn fallbacks(of: &Statistics) -> String {
    if of.fallbacks.total() == 0 {
        return String::new();
    }
    let mut rows: BTreeMap<(&str, &str), [u64; 5]> = BTreeMap::new();
    for (key, events) in of.fallbacks.iter() {
        let row = rows.entry((key.alloc_mt.name(), key.fallback_mt.name())).or_default();
        row[0] += events;
        row[1] += if key.fragmenting(of.pageblock_order) { events } else { 0 };
        let harm = Harm::ALL.iter().position(|harm| *harm == key.harm()).unwrap_or(0);
        row[2 + harm] += events;
    }
    let mut table =
        Table::new().text("requested").text("taken from").number("fallbacks").number("fragmenting");
    for harm in Harm::ALL {
        table = table.number(harm.name());
    }
    for ((to, from), counts) in rows {
        table
            .row([to.to_owned(), from.to_owned()].into_iter().chain(counts.map(|n| n.to_string())));
    }
    format!("\nFallbacks\n{}", table.print())
}

fn commands(of: &Statistics) -> String {
    if of.commands.is_empty() {
        return String::new();
    }
    let mut table = Table::new()
        .text("command")
        .number("requests")
        .number("pages")
        .number("not movable [pages]")
        .number("fragmenting fallbacks");
    for command in of.commands.iter().take(COMMANDS) {
        table.row([
            command.command.clone(),
            command.requests.to_string(),
            command.pages.to_string(),
            command.unmovable_pages.to_string(),
            command.fragmenting.to_string(),
        ]);
    }
    let mut text = format!("\nCommands\n{}", table.print());
    if of.commands.len() > COMMANDS {
        text += &format!("and {} more (--json has all)\n", of.commands.len() - COMMANDS);
    }
    text
}
