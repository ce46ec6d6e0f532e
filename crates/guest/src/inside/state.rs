//! The kernel's own counts: files of `/proc`, and histograms of fallbacks.

use std::fs;
use std::path::Path;

use crate::message::Files;

/// The files of `/proc` that are reported; those that a kernel lacks are left out.
const FILES: [&str; 9] = [
    "vmstat",
    "buddyinfo",
    "pagetypeinfo",
    "zoneinfo",
    "meminfo",
    "version",
    "swaps",
    "partitions",
    "pressure/memory",
];
/// The largest order that fallbacks ask for.
const ORDER_MAX: u8 = 10;

/// Reads the files.
pub(super) fn files() -> Files {
    let read = |name: &&str| {
        Some(((*name).to_owned(), fs::read_to_string(Path::new("/proc").join(name)).ok()?))
    };
    FILES.iter().filter_map(read).collect()
}

/// The folder of the event of fallbacks.
fn event() -> Option<&'static Path> {
    ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].into_iter().find_map(|root| {
        let event = match root.contains("debug") {
            false => "/sys/kernel/tracing/events/kmem/mm_page_alloc_extfrag",
            true => "/sys/kernel/debug/tracing/events/kmem/mm_page_alloc_extfrag",
        };
        Path::new(event).is_dir().then_some(Path::new(event))
    })
}

/// Lets the kernel count fallbacks: a histogram has up to three keys, so there is one for each order that is requested.
pub(super) fn count_fallbacks() -> Result<(), String> {
    let event =
        event().ok_or("this kernel has no event kmem/mm_page_alloc_extfrag: CONFIG_FTRACE")?;
    for order in 0..=ORDER_MAX {
        let histogram = format!(
            "hist:keys=alloc_migratetype,fallback_migratetype,fallback_order:vals=change_ownership:size=512 if alloc_order == {order}"
        );
        fs::OpenOptions::new()
            .append(true)
            .open(event.join("trigger"))
            .and_then(|mut file| std::io::Write::write_all(&mut file, histogram.as_bytes()))
            .map_err(|error| {
                format!("this kernel counts no fallbacks (CONFIG_HIST_TRIGGERS): {error}")
            })?;
    }
    Ok(())
}

/// Returns the histograms of fallbacks.
pub(super) fn fallbacks() -> String {
    event().and_then(|event| fs::read_to_string(event.join("hist")).ok()).unwrap_or_default()
}

/// Returns the number of fallbacks so far.
pub(crate) fn fallback_hits() -> u64 {
    let hits = |line: &str| line.trim().strip_prefix("Hits:")?.trim().parse::<u64>().ok();
    fallbacks().lines().filter_map(hits).sum()
}

/// Returns a counter of `/proc/vmstat`.
pub(crate) fn counter(name: &str) -> Option<u64> {
    line("/proc/vmstat", name)
}

/// Returns a value of `/proc/meminfo`, whose names end in a colon.
pub(crate) fn meminfo_kb(name: &str) -> Option<u64> {
    line("/proc/meminfo", name)
}

fn line(file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let mut words = text.lines().map(str::split_whitespace);
    words.find_map(
        |mut words| if words.next() == Some(name) { words.next()?.parse().ok() } else { None },
    )
}
