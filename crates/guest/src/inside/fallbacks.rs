//! Counts of fallbacks to other types: histograms where the kernel has them, else the events as it prints them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::load::rest;

/// The largest order that fallbacks ask for.
const ORDER_MAX: u8 = 10;
/// The buffer of each CPU where events are printed, in KiB.
const BUFFER_KIB: &str = "2048";
/// How long events are waited for that were recorded and not read yet.
const DRAINS: Duration = Duration::from_secs(1);

/// Requested order, requested type, found type, found order: how many, and how many of them change the block's owner.
static PRINTED: Mutex<BTreeMap<[u64; 4], (u64, u64)>> = Mutex::new(BTreeMap::new());

/// Returns the folder of tracing.
fn tracing() -> Option<PathBuf> {
    let roots = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].map(PathBuf::from);
    roots.into_iter().find(|root| event(root).is_dir())
}

fn event(root: &Path) -> PathBuf {
    root.join("events/kmem/mm_page_alloc_extfrag")
}

/// Lets the kernel count fallbacks.
pub(super) fn count() -> Result<(), String> {
    let root =
        tracing().ok_or("this kernel has no event kmem/mm_page_alloc_extfrag (CONFIG_FTRACE)")?;
    if event(&root).join("hist").exists() {
        return by_histogram(&event(&root))
            .map_err(|error| format!("histograms of fallbacks: {error}"));
    }
    by_print(&root).map_err(|error| format!("events of fallbacks: {error}"))
}

/// A histogram has up to three keys, so there is one for each order that is requested.
fn by_histogram(event: &Path) -> std::io::Result<()> {
    (0..=ORDER_MAX).try_for_each(|order| {
        let histogram = format!(
            "hist:keys=alloc_migratetype,fallback_migratetype,fallback_order:vals=change_ownership:size=512 if alloc_order == {order}"
        );
        File::options().append(true).open(event.join("trigger"))?.write_all(histogram.as_bytes())
    })
}

/// Reads the events as they come.
fn by_print(root: &Path) -> std::io::Result<()> {
    fs::write(root.join("buffer_size_kb"), BUFFER_KIB)?;
    let pipe = BufReader::new(File::open(root.join("trace_pipe"))?);
    fs::write(event(root).join("enable"), "1")?;
    std::thread::spawn(move || {
        for fields in pipe.lines().map_while(Result::ok).filter_map(|line| fields(&line)) {
            let ([key @ .., owned], mut printed) = (fields, lock());
            let count = printed.entry(key).or_default();
            count.0 += 1;
            count.1 += owned;
        }
    });
    Ok(())
}

fn lock() -> std::sync::MutexGuard<'static, BTreeMap<[u64; 4], (u64, u64)>> {
    PRINTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns requested order, requested type, found type, found order and ownership of a printed event.
fn fields(line: &str) -> Option<[u64; 5]> {
    let (_, text) = line.split_once("mm_page_alloc_extfrag: ")?;
    let value = |name: &str| {
        let mut words = text.split_whitespace().filter_map(|word| word.split_once('='));
        words.find(|(key, _)| *key == name)?.1.parse().ok()
    };
    Some([
        value("alloc_order")?,
        value("alloc_migratetype")?,
        value("fallback_migratetype")?,
        value("fallback_order")?,
        value("change_ownership").unwrap_or(0),
    ])
}

/// Returns the number of fallbacks so far.
pub(crate) fn hits() -> u64 {
    let Some(text) = tracing().and_then(|root| fs::read_to_string(event(&root).join("hist")).ok())
    else {
        return lock().values().map(|(count, _)| count).sum();
    };
    let hits = |line: &str| line.trim().strip_prefix("Hits:")?.trim().parse::<u64>().ok();
    text.lines().filter_map(hits).sum()
}

/// Returns the counts so far, as the kernel prints histograms.
pub(super) fn text() -> String {
    let Some(root) = tracing() else { return String::new() };
    if let Ok(text) = fs::read_to_string(event(&root).join("hist")) {
        return text;
    }
    rest(DRAINS);
    let mut text = String::new();
    let mut order = None;
    for ([alloc_order, alloc, fallback, fallback_order], (count, owned)) in lock().iter() {
        if order.replace(*alloc_order) != Some(*alloc_order) {
            let _ = writeln!(text, "# trigger info: printed if alloc_order == {alloc_order}");
        }
        let _ = writeln!(
            text,
            "{{ alloc_migratetype: {alloc}, fallback_migratetype: {fallback}, fallback_order: {fallback_order} }} hitcount: {count}  change_ownership: {owned}"
        );
    }
    let _ = writeln!(text, "Dropped: {}", dropped(&root));
    text
}

/// Returns the events that the buffers had no room for.
fn dropped(root: &Path) -> u64 {
    let Ok(cpus) = fs::read_dir(root.join("per_cpu")) else { return 0 };
    let of_cpu = |text: String| -> u64 {
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        let lost = lines.filter(|(name, _)| ["overrun", "dropped events"].contains(name));
        lost.filter_map(|(_, count)| count.trim().parse::<u64>().ok()).sum()
    };
    let stats = cpus.filter_map(|cpu| fs::read_to_string(cpu.ok()?.path().join("stats")).ok());
    stats.map(of_cpu).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_events_are_read() {
        let line = "  sh-1 [000] d..1 1.5: mm_page_alloc_extfrag: page=0000 pfn=0x12 alloc_order=1 fallback_order=4 \
                    pageblock_order=9 alloc_migratetype=2 fallback_migratetype=1 fragmenting=1 change_ownership=0";
        assert_eq!(fields(line), Some([1, 2, 1, 4, 0]));
        assert_eq!(fields("mm_page_alloc: page=1"), None);
    }
}
