//! The state of a machine's memory in Prometheus's text format, which node_exporter's textfile collector reads.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};

use pageblock_doctor::checkup::{Checkup, FolioSize, Sample, Severity};
use pageblock_doctor::forecast::{Bound, Forecast};

/// Metrics under way.
#[derive(Default)]
struct Text(String);

impl Text {
    /// Begins a metric: its help and its type.
    fn metric(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// Adds a value with labels.
    fn value(&mut self, name: &str, labels: &[(&str, String)], value: impl Display) {
        let label = |(key, value): &(&str, String)| format!("{key}=\"{}\"", escaped(value));
        let labels: Vec<String> = labels.iter().map(label).collect();
        let labels =
            if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Returns the metrics of a machine, by one sample.
#[must_use]
pub fn metrics(sample: &Sample, of: &Checkup) -> String {
    let mut text = Text::default();
    lists(&mut text, of);
    zones(&mut text, of);
    counters(&mut text, sample);
    sizes_and_daemons(&mut text, sample);
    if let Some(pressure) = &sample.pressure {
        let name = "pageblock_memory_pressure_seconds_total";
        text.metric(name, "counter", "Time in which tasks waited for memory (PSI).");
        for (who, us) in [("some", pressure.some_us), ("full", pressure.full_us)] {
            text.value(name, &[("tasks", who.to_owned())], us as f64 / 1e6);
        }
    }
    let name = "pageblock_finding";
    text.metric(name, "gauge", "1 for each finding of pageblock doctor that needs no rates.");
    for finding in &of.findings {
        let severity = match finding.severity {
            Severity::Notice => "notice",
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        };
        let labels = [("name", finding.name.to_owned()), ("severity", severity.to_owned())];
        text.value(name, &labels, 1);
    }
    let name = "pageblock_unreadable_files";
    text.metric(name, "gauge", "Files that could not be read.");
    text.value(name, &[], of.missing.len());
    text.0
}

/// Returns how many huge pages could be had, and by which means.
#[must_use]
pub fn obtainable(of: &Forecast) -> String {
    let mut text = Text::default();
    let name = "pageblock_obtainable_huge_pages";
    let help = "Huge pages that could be had, of free memory and further ones by compaction, reclaim and both.";
    text.metric(name, "gauge", help);
    for made in &of.obtain {
        let bytes = (of.page_kb << made.order) * 1024;
        let free = Bound { at_least: made.free, at_most: made.free };
        let means = [
            ("free", free),
            ("compaction", made.compaction),
            ("reclaim", made.reclaim),
            ("both", made.together),
        ];
        for (by, bound) in means {
            for (which, pages) in [("at_least", bound.at_least), ("at_most", bound.at_most)] {
                let labels = [
                    ("size_bytes", bytes.to_string()),
                    ("by", by.to_owned()),
                    ("bound", which.to_owned()),
                ];
                text.value(name, &labels, pages);
            }
        }
    }
    let name = "pageblock_held_blocks";
    text.metric(
        name,
        "gauge",
        "Blocks of a huge page's size with a page that does not move, or may not.",
    );
    for (order, held) in [(of.pageblock_order, &of.held), (of.gigantic_order, &of.held_gigantic)] {
        let bytes = (of.page_kb << order) * 1024;
        text.value(name, &[("size_bytes", bytes.to_string())], held.blocks());
    }
    text.0
}

fn lists(text: &mut Text, of: &Checkup) {
    let zone = |node: u16, zone: &str, order: usize| {
        [("node", node.to_string()), ("zone", zone.to_owned()), ("order", order.to_string())]
    };
    let name = "pageblock_free_blocks";
    text.metric(name, "gauge", "Free blocks of an order.");
    for own in &of.zones {
        for (order, blocks) in own.free_blocks.iter().enumerate() {
            text.value(name, &zone(own.node, &own.zone, order), blocks);
        }
    }
    let name = "pageblock_unusable_free_ratio";
    let help = "Share of free memory in blocks too small for an order, 0 to 1; absent without free memory.";
    text.metric(name, "gauge", help);
    for own in &of.zones {
        let shares = own.unusable.iter().enumerate();
        for (order, share) in shares.filter(|_| own.free_blocks.iter().any(|&blocks| blocks > 0)) {
            text.value(name, &zone(own.node, &own.zone, order), *share as f64 / 1000.0);
        }
    }
    let name = "pageblock_fragmentation_index_ratio";
    let help = "Why a request of an order would fail, 0 memory is short to 1 fragmented; absent where it would not.";
    text.metric(name, "gauge", help);
    for own in &of.zones {
        for (order, index) in own.fragmentation.iter().enumerate() {
            if let Some(index) = index {
                text.value(name, &zone(own.node, &own.zone, order), *index as f64 / 1000.0);
            }
        }
    }
    let name = "pageblock_blocks";
    text.metric(name, "gauge", "Pageblocks of a type.");
    for own in &of.zones {
        for (kind, blocks) in &own.blocks_by_type {
            let labels = [
                ("node", own.node.to_string()),
                ("zone", own.zone.clone()),
                ("type", kind.to_lowercase()),
            ];
            text.value(name, &labels, blocks);
        }
    }
}

fn zones(text: &mut Text, of: &Checkup) {
    let bytes = |pages: u64| pages * of.page_kb * 1024;
    let labels = |own: &pageblock_doctor::checkup::ZoneHealth| {
        vec![("node", own.node.to_string()), ("zone", own.zone.clone())]
    };
    type Figure = fn(&pageblock_doctor::checkup::ZoneHealth) -> Option<u64>;
    let figures: [(&str, &str, Figure); 4] = [
        ("pageblock_zone_managed_bytes", "Memory given to the allocator.", |own| own.managed()),
        ("pageblock_zone_free_bytes", "Free memory.", |own| Some(own.free)),
        ("pageblock_zone_cpu_lists_bytes", "Free memory on per-CPU lists.", |own| {
            Some(own.accounts.as_ref()?.on_cpu_lists)
        }),
        (
            "pageblock_zone_boost_bytes",
            "Boost of the watermarks after fragmentation events.",
            |own| Some(own.accounts.as_ref()?.boost),
        ),
    ];
    for (name, help, figure) in figures {
        text.metric(name, "gauge", help);
        for own in &of.zones {
            if let Some(pages) = figure(own) {
                text.value(name, &labels(own), bytes(pages));
            }
        }
    }
    let name = "pageblock_zone_watermark_bytes";
    text.metric(name, "gauge", "Watermarks, with the boost.");
    for own in &of.zones {
        let marks = own.accounts.iter().flat_map(|told| told.watermarks);
        for (mark, pages) in ["min", "low", "high"].into_iter().zip(marks) {
            let mut labels = labels(own);
            labels.push(("mark", mark.to_owned()));
            text.value(name, &labels, bytes(pages));
        }
    }
}

/// Counters since boot: the metric, its help, and for each value the label and the names in `/proc/vmstat` that add up to it
/// (those that begin so, where a name ends with `*`).
type Counter = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const COUNTERS: [Counter; 8] = [
    (
        "pageblock_direct_compaction_total",
        "Requests that compacted memory themselves, by result.",
        &[("result=success", "compact_success"), ("result=fail", "compact_fail")],
    ),
    (
        "pageblock_direct_reclaim_total",
        "Requests that reclaimed memory themselves.",
        &[("", "allocstall*")],
    ),
    (
        "pageblock_huge_page_faults_total",
        "Faults that wanted a huge page, by result.",
        &[("result=huge", "thp_fault_alloc"), ("result=fallback", "thp_fault_fallback")],
    ),
    (
        "pageblock_reclaim_scanned_pages_total",
        "Pages that reclaim looked at.",
        &[("by=kswapd", "pgscan_kswapd*"), ("by=direct", "pgscan_direct*")],
    ),
    (
        "pageblock_reclaim_freed_pages_total",
        "Pages that reclaim freed.",
        &[("by=kswapd", "pgsteal_kswapd*"), ("by=direct", "pgsteal_direct*")],
    ),
    (
        "pageblock_compaction_scanned_pages_total",
        "Pages that compaction looked at.",
        &[("scanner=migrate", "compact_migrate_scanned"), ("scanner=free", "compact_free_scanned")],
    ),
    ("pageblock_oom_kills_total", "Tasks that the OOM killer ended.", &[("", "oom_kill")]),
    ("pageblock_swapped_out_pages_total", "Pages that were swapped out.", &[("", "pswpout")]),
];

fn counters(text: &mut Text, sample: &Sample) {
    for (name, help, values) in COUNTERS {
        let sums: BTreeMap<&str, u64> =
            values.iter().filter_map(|(label, key)| Some((*label, sum(sample, key)?))).collect();
        if sums.is_empty() {
            continue;
        }
        text.metric(name, "counter", help);
        for (label, value) in sums {
            let label = label.split_once('=').map(|(key, value)| (key, value.to_owned()));
            text.value(name, label.as_slice(), value);
        }
    }
}

/// Faults by size of folio, and the CPU time of the kernel's threads for memory.
fn sizes_and_daemons(text: &mut Text, sample: &Sample) {
    let results = [("folio", "anon_fault_alloc"), ("fallback", "anon_fault_fallback")];
    let counted = |size: &&FolioSize| results.iter().any(|(_, key)| size.stats.contains_key(*key));
    let sizes: Vec<&FolioSize> = sample.huge.sizes.iter().filter(counted).collect();
    if !sizes.is_empty() {
        let name = "pageblock_folio_faults_total";
        text.metric(name, "counter", "Faults that wanted a large folio of a size, by result.");
        for size in sizes {
            for (result, key) in results {
                if let Some(value) = size.stats.get(key) {
                    let bytes = ("size_bytes", (size.kb * 1024).to_string());
                    text.value(name, &[bytes, ("result", result.to_owned())], value);
                }
            }
        }
    }
    if !sample.daemons.is_empty() {
        let name = "pageblock_daemon_cpu_seconds_total";
        text.metric(name, "counter", "CPU time of kswapd, kcompactd and khugepaged.");
        for (daemon, seconds) in &sample.daemons {
            text.value(name, &[("daemon", daemon.clone())], seconds);
        }
    }
}

/// Returns the sum of the counters with a name; `None` if this kernel has none.
fn sum(sample: &Sample, key: &str) -> Option<u64> {
    let Some(prefix) = key.strip_suffix('*') else { return sample.vmstat.get(key).copied() };
    // `pgscan_direct_throttle` counts waits, not pages.
    let named = sample
        .vmstat
        .iter()
        .filter(|(name, _)| name.starts_with(prefix) && !name.ends_with("_throttle"));
    let mut values = named.map(|(_, &value)| value).peekable();
    values.peek()?;
    Some(values.sum())
}
