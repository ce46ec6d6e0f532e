//! What a flight recorder saw, as text.

use std::fmt::Write;

use pageblock_doctor::flight::{Around, Bundle, Happened, Row, Timeline};

use crate::table::Table;

/// The most events that are listed.
const EVENTS: usize = 40;

/// Prints what a flight file has.
#[must_use]
pub fn show(of: &Timeline) -> String {
    let mut text = format!(
        "{}: {} samples, {} kB, {} to {}\n",
        of.file,
        of.samples,
        of.bytes.div_ceil(1000),
        of.from,
        of.to
    );
    let version = of.version.as_deref().unwrap_or("a kernel of unknown version");
    text += &match of.boots {
        0 => format!("{version}; longest time without a sample {:.1} s\n", of.longest_gap_s),
        boots => format!(
            "{version}; started {boots} times meanwhile; longest time without a sample {:.1} s\n",
            of.longest_gap_s
        ),
    };
    text += &happened(&of.events);
    text.push('\n');
    text += &rows(&of.rows);
    for damage in &of.damage {
        text += &format!("Damaged: {damage}\n");
    }
    text
}

fn happened(events: &[Happened]) -> String {
    if events.is_empty() {
        return "No failure and no stall.\n".to_owned();
    }
    let mut text = String::new();
    let left_out = events.len().saturating_sub(EVENTS);
    if left_out > 0 {
        text += &format!("({left_out} earlier ones left out)\n");
    }
    for event in &events[left_out..] {
        text += &format!("{}  {}: {}\n", event.time, event.kind.name(), event.text);
    }
    text
}

/// Prints rows, with rates a second.
fn rows(rows: &[Row]) -> String {
    let mut table = Table::new()
        .text("until")
        .number("free MiB")
        .number("available")
        .number("scattered %")
        .number("compact/s")
        .number("reclaim/s")
        .number("kswapd pages/s")
        .number("swapped/s")
        .number("waiting %");
    for row in rows {
        let optional = |value: Option<u64>| value.map_or("-".to_owned(), |value| value.to_string());
        let rate = |pick: &dyn Fn(&pageblock_doctor::checkup::Rates) -> f64, digits: usize| {
            row.rates.as_ref().map_or("-".to_owned(), |rates| format!("{:.digits$}", pick(rates)))
        };
        let waiting = row.rates.as_ref().and_then(|rates| rates.pressure_some);
        table.row([
            row.time.clone(),
            optional(row.free_mib),
            optional(row.available_mib),
            optional(row.unusable.map(|share| share.div_ceil(10))),
            rate(&|rates| rates.compact_stall, 1),
            rate(&|rates| rates.direct_reclaim, 1),
            rate(&|rates| rates.kswapd_scanned, 0),
            rate(&|rates| rates.swapped_out, 0),
            waiting.map_or("-".to_owned(), |percent| format!("{percent:.1}")),
        ]);
    }
    table.print()
        + "scattered: free memory in blocks below a pageblock; waiting: time in which tasks wait for memory (PSI)\n"
}

/// Prints what a mailing list would ask for, in one text.
#[must_use]
pub fn bundle(of: &Bundle) -> String {
    let version = of.checkup.version.as_deref().unwrap_or("a kernel of unknown version");
    let mut text = match &of.event {
        Some(event) => format!(
            "Memory of Linux {version}: {} at {}\n{}\n\n",
            event.kind.name(),
            event.time,
            event.text
        ),
        None => format!("Memory of Linux {version}: no failure and no stall recorded\n\n"),
    };
    let parts = [
        "1. Examination",
        "2. The kernel's log, explained",
        "3. The kernel's log",
        "4. Minute by minute",
        "5. Counters that changed",
        "6. Settings",
        "7. Files before",
        "8. Files after",
    ];
    text += &format!(
        "Before: {}. After: {}. Parts: {}.\n",
        of.before.time,
        of.after.time,
        parts.join("; ")
    );
    text += "Made by `pageblock flight bundle`. It leaves out the names of the host and parameters that do not concern memory.\n";
    let mut part = |title: &str, content: &str| {
        let _ = write!(text, "\n{title}\n{}\n\n{content}", "=".repeat(title.len()));
    };
    part(parts[0], &crate::checkup::print(&of.checkup, true));
    let lines = of.log.lines().count();
    part(parts[1], &crate::explain::print(&of.explanations, lines));
    part(parts[2], if of.log.is_empty() { "No failure in it.\n" } else { &of.log });
    part(parts[3], &(happened(&of.timeline.events) + "\n" + &rows(&of.timeline.rows)));
    part(parts[4], &changed(&of.changed));
    part(parts[5], &settings(&of.after));
    part(parts[6], &files(&of.before));
    part(parts[7], &files(&of.after));
    text
}

fn changed(counters: &[(String, u64, u64)]) -> String {
    let mut table =
        Table::new().text("/proc/vmstat").number("before").number("after").number("change");
    for (name, before, after) in counters {
        let change = i128::from(*after) - i128::from(*before);
        table.row([name.clone(), before.to_string(), after.to_string(), format!("{change:+}")]);
    }
    table.print()
}

/// Tells whether a file is a setting: one line that people change.
fn is_setting(file: &str) -> bool {
    let folders = ["/proc/sys/", "/sys/kernel/mm/"];
    folders.iter().any(|folder| file.starts_with(folder)) && !file.contains("/stats/")
}

fn settings(of: &Around) -> String {
    let settings = of.files.iter().filter(|(file, _)| is_setting(file));
    settings
        .map(|(file, text)| format!("{file}: {}\n", text.trim().replace(['\t', '\n'], " ")))
        .collect()
}

fn files(of: &Around) -> String {
    let mut text = format!("At {}.\n", of.time);
    let (short, long): (Vec<_>, Vec<_>) = of
        .files
        .iter()
        .filter(|(file, _)| !is_setting(file))
        .partition(|(_, text)| text.trim_end().lines().count() <= 1);
    for (file, content) in short {
        text += &format!("{file}: {}\n", content.trim());
    }
    for (file, content) in long {
        text += &format!("\n--- {file}\n{content}");
        if !content.ends_with('\n') {
            text.push('\n');
        }
    }
    for missing in &of.missing {
        text += &format!("Missing: {}: {}\n", missing.file, missing.why);
    }
    text
}
