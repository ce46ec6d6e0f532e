//! What `top`, earlyoom, and the head of `slabtop` print of memory, and what ZFS prints of its cache.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::state::MOST_KB;

/// The first lines of `top`: `MiB Mem :  7823.5 total,  123.4 free`, `KiB Swap:`, `Mem:  8056268k total`.
static TOP: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(?:([KMG])iB )?(Mem|Swap) ?: +(\d.*)$"));
static PAIR: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(\d+)(?:\.(\d)\d*)?([kmgKMG])?\+? (total|free|avail Mem)\b"));
/// `ARC size (current):  98.0 %  30.7 GiB` of `arc_summary`; `ARC Size: 98.00% 30.70 GiB` of older versions.
static ARC: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^ARC [Ss]ize(?: \(current\))?:\s+[<>]?\s*[\d.]+\s*%\s+(\d+)(?:\.(\d)\d*)?\s+([KMGT])iB\s*$",
    )
});
/// The row of `arcstats`: `size  4  32963502080`.
static ARC_SIZE: LazyLock<Regex> = LazyLock::new(|| pattern(r"^size\s+4\s+(\d{6,15})\s*$"));

/// A line of earlyoom: `mem avail:  56 of 15881 MiB ( 0.35%), swap free: 2555 of 4095 MiB (62.38%)`.
static EARLYOOM: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"mem avail: +(\d+) of +(\d+) MiB.*?(?:swap free: +(\d+) of +(\d+) MiB|$)")
});
/// ` Active / Total Size (% used)       : 13421.63K / 13500.55K (99.4%)`.
static SLABTOP: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^Active / Total Size .*/ (\d+)(?:\.(\d)\d*)?([KMG]) "));
/// `Slab unreclaimable is too large (13424716 kB`, as a check of a node's health says.
static SLAB: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?i)slab unreclaimable\b.*?\b(\d+) ?kB"));
const AVAILABLE: &str = "mem avail: ";
const SLAB_SIZE: &str = "Active / Total Size";

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is valid")
}

/// Returns the fields of `/proc/meminfo`, in kB, that a line of such a program has.
pub(super) fn fields(text: &str) -> Vec<(&'static str, u64)> {
    let number = |found: &Captures<'_>, at: usize| found.get(at)?.as_str().parse::<u64>().ok();
    if text.contains(AVAILABLE)
        && let Some(found) = EARLYOOM.captures(text)
    {
        let names = ["MemAvailable", "MemTotal", "SwapFree", "SwapTotal"];
        let mib = |at: usize| Some(number(&found, at)?.saturating_mul(1 << 10).min(MOST_KB));
        return (1..).zip(names).filter_map(|(at, name)| Some((name, mib(at)?))).collect();
    }
    if text.contains(SLAB_SIZE)
        && let Some(found) = SLABTOP.captures(text)
    {
        let kb = kb(&found[1], found.get(2).map(|tenths| tenths.as_str()), &found[3]);
        return kb.map(|kb| ("Slab", kb)).into_iter().collect();
    }
    if text.contains("unreclaimable")
        && let Some(found) = SLAB.captures(text)
    {
        return number(&found, 1).map(|kb| ("SUnreclaim", kb.min(MOST_KB))).into_iter().collect();
    }
    if !text.contains(" total") {
        return Vec::new();
    }
    let Some(found) = TOP.captures(text) else { return Vec::new() };
    let unit = found.get(1).map(|unit| unit.as_str());
    let is_swap = &found[2] == "Swap";
    let mut fields = Vec::new();
    for pair in PAIR.captures_iter(&found[3]) {
        let Some(unit) = pair.get(3).map(|unit| unit.as_str()).or(unit) else { continue };
        let Some(kb) = kb(&pair[1], pair.get(2).map(|tenths| tenths.as_str()), unit) else {
            continue;
        };
        let field = match (&pair[4], is_swap) {
            ("total", false) => "MemTotal",
            ("free", false) => "MemFree",
            ("total", true) => "SwapTotal",
            ("free", true) => "SwapFree",
            (_, true) => "MemAvailable",
            _ => continue,
        };
        fields.push((field, kb));
    }
    fields
}

/// Returns the size of ZFS's cache in kB.
pub(super) fn arc(text: &str) -> Option<u64> {
    if text.starts_with("ARC") {
        let found = ARC.captures(text)?;
        return kb(&found[1], found.get(2).map(|tenths| tenths.as_str()), &found[3]);
    }
    if !text.starts_with("size ") {
        return None;
    }
    let found = ARC_SIZE.captures(text)?;
    Some(found[1].parse::<u64>().ok()? >> 10)
}

/// Returns a number with a unit in kB.
fn kb(whole: &str, tenths: Option<&str>, unit: &str) -> Option<u64> {
    let unit = match unit {
        "k" | "K" => 1,
        "m" | "M" => 1 << 10,
        "g" | "G" => 1 << 20,
        _ => 1_u64 << 30,
    };
    let whole: u64 = whole.parse().ok()?;
    let tenths: u64 = tenths.map_or(Some(0), |tenths| tenths.parse().ok())?;
    Some(whole.saturating_mul(unit).saturating_add(tenths * unit / 10).min(MOST_KB))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_such_lines_is_read() {
        for row in r#"
[("MemTotal", 8011264), ("MemFree", 126361)] | MiB Mem :   7823.5 total,    123.4 free,   7300.1 used,    400.0 buff/cache
[("SwapTotal", 2097152), ("SwapFree", 0), ("MemAvailable", 123596)] | MiB Swap:   2048.0 total,      0.0 free,   2048.0 used.    120.7 avail Mem
[("MemTotal", 8056268), ("MemFree", 146268)] | KiB Mem:   8056268 total,  7910000 used,   146268 free,    12000 buffers
[("MemTotal", 8056268), ("MemFree", 146268)] | Mem:   8056268k total,  7910000k used,   146268k free,    12000k buffers
[] | Mem:   8056268 total
[("MemAvailable", 57344), ("MemTotal", 16262144), ("SwapFree", 2616320), ("SwapTotal", 4193280)] | mem avail:    56 of 15881 MiB ( 0.35%), swap free: 2555 of 4095 MiB (62.38%)
[("Slab", 13500)] | Active / Total Size (% used)       : 13421.63K / 13500.55K (99.4%)
[("SUnreclaim", 9000)] | Slab unreclaimable is too large (9000 kB > 5000 kB).
"#
        .trim()
        .lines()
        {
            let (fields, text) = row.split_once(" | ").expect("a row has two parts");
            assert_eq!(format!("{:?}", super::fields(text)), fields, "{text}");
        }
    }

    #[test]
    fn the_cache_of_zfs_is_read() {
        for (text, kb) in [
            ("ARC size (current):                     98.0 %   30.7 GiB", Some(32_191_283)),
            ("ARC Size:                       99.99%  4.00    GiB", Some(4 << 20)),
            ("size                            4    32963502080", Some(32_190_920)),
            ("ARC size is large", None),
        ] {
            assert_eq!(arc(text), kb, "{text}");
        }
    }
}
