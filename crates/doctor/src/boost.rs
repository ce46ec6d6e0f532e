//! The boost of watermarks in kernels that do not print it (5.0 to 5.13, and some later ones).
//!
//! `low` and `high` are above `min` by the same distance, which is at least a quarter of `min` without the boost (1.8.4 and
//! 1.8.5 of the rules of watermarks): the part of `min` above four distances is a boost. If the distance is larger,
//! and `min` rises from report to report while the distance stays, this may be a boost or a larger `vm.min_free_kbytes`: a boost
//! grows by whole pageblocks up to 1.5 times `high` (`boost_watermark`), and a setting raises every zone.

use std::collections::BTreeMap;

use pageblock::layout::ZoneKind;

use crate::interfaces::has_boost;
use crate::log::{Report, Zone};

/// The largest error of integer divisions, in pages.
const ROUNDING_PAGES: u64 = 8;

/// A zone of one machine: another size or distance means another machine, or another setting.
type Key = (u32, ZoneKind, Option<u64>, u64);

/// Finds the boosts that the reports of a log do not print.
pub(crate) fn infer(reports: &mut [Report]) {
    let mut least: BTreeMap<Key, u64> = BTreeMap::new();
    for zone in reports.iter().flat_map(|report| &report.memory.zones) {
        if let (Some(key), Some(min)) = (key(zone), zone.min) {
            let known = least.entry(key).or_insert(min);
            *known = min.min(*known);
        }
    }
    for report in reports {
        if !has_boost(report.version.as_deref()) || report.memory.has_no_letters() {
            continue;
        }
        let rounding = ROUNDING_PAGES * report.memory.page_kb();
        let rose = |zone: &Zone| {
            let (key, min) = (key(zone)?, zone.min?);
            Some(min > least.get(&key)? + rounding)
        };
        let rises: Vec<bool> = report.memory.zones.iter().filter_map(rose).collect();
        let all_rose = rises.len() > 1 && rises.iter().all(|rose| *rose);
        for zone in report.memory.zones.iter_mut().filter(|zone| zone.boost.is_none()) {
            let (Some(key), Some(min)) = (key(zone), zone.min) else { continue };
            let own = min.saturating_sub(4 * key.3);
            let before = least.get(&key).copied().unwrap_or(min).min(min);
            let risen =
                if is_step(min - before, before + 2 * key.3, rounding) { min - before } else { 0 };
            let risen = if all_rose { 0 } else { risen };
            zone.inferred_boost = Some(own.max(risen)).filter(|boost| *boost > rounding);
        }
    }
}

/// The size of a pageblock, or a part of it, on every machine, in kB.
const PAGEBLOCK_KB: u64 = 2048;

/// Returns whether a rise of `min` can be a boost: whole pageblocks, or 1.5 times `high`, both in kB.
const fn is_step(risen: u64, high: u64, rounding: u64) -> bool {
    let over = risen % PAGEBLOCK_KB;
    let is_whole = over <= rounding || PAGEBLOCK_KB - over <= rounding;
    is_whole || risen.abs_diff(high / 2 * 3) <= rounding
}

/// Returns what a boost leaves unchanged in a zone; `None` if watermarks were not printed, or no kernel has such ones.
fn key(zone: &Zone) -> Option<Key> {
    let (min, low, high) = (zone.min?, zone.low?, zone.high?);
    let distance = low.checked_sub(min)?;
    let is_even = high.checked_sub(low)?.abs_diff(distance) <= ROUNDING_PAGES;
    is_even.then_some((zone.node, zone.kind, zone.managed, distance))
}

#[cfg(test)]
mod tests {
    use crate::explain;

    fn boosts(version: &str, mins: &[u64], distance: u64) -> Vec<Option<u64>> {
        let report = |min: &u64| {
            let (low, high) = (min + distance, min + 2 * distance);
            format!(
                "app: page allocation failure: order:0, mode:0x0(GFP_KERNEL)\nCPU: 0 PID: 1 Comm: app Not tainted {version} #1\n\
                 Mem-Info:\nNode 0 Normal free:9000kB min:{min}kB low:{low}kB high:{high}kB managed:800000kB\n\
                 Node 0 Normal: 2250*4kB (U) = 9000kB\n"
            )
        };
        let log: String = mins.iter().map(report).collect();
        explain(&log).iter().map(|found| found.report.memory.zones[0].inferred_boost).collect()
    }

    /// Two zones that rise together: the setting did it, though one rises by whole pageblocks.
    #[test]
    fn a_setting_raises_every_zone() {
        let report = |mins: [u64; 2]| {
            let zone = |name: &str, min: u64, managed: u64| {
                let (low, high) = (min + 9000, min + 18_000);
                format!(
                    "Node 0 {name} free:90000kB min:{min}kB low:{low}kB high:{high}kB managed:{managed}kB\n"
                )
            };
            format!(
                "app: page allocation failure: order:0, mode:0x0(GFP_KERNEL)\nCPU: 0 PID: 1 Comm: app Not tainted 5.4.1 #1\n\
                 Mem-Info:\n{}{}",
                zone("DMA32", mins[0], 800_000),
                zone("Normal", mins[1], 1_600_000)
            )
        };
        let of = |second: [u64; 2]| {
            let log = report([2000, 4000]) + &report(second);
            let found = explain(&log);
            found[1].report.memory.zones.iter().map(|zone| zone.inferred_boost).collect::<Vec<_>>()
        };
        assert_eq!(of([4048, 8096]), [None, None]);
        assert_eq!(of([2000, 8096]), [None, Some(4096)]);
    }

    #[test]
    fn marks_tell_the_boost_that_is_not_printed() {
        for (version, mins, distance, expected) in [
            // 4 * 1000 is all that `min` can be without a boost.
            ("5.4.1", &[4000][..], 1000, &[None][..]),
            ("5.4.1", &[16_260 + 36_580], 4065, &[Some(36_580)]),
            // The distance is that of vm.watermark_scale_factor: a second report shows it.
            ("5.4.1", &[4000, 8096], 9000, &[None, Some(4096)]),
            // The largest boost: 1.5 times `high`.
            ("5.4.1", &[4000, 37_000], 9000, &[None, Some(33_000)]),
            // No pageblock has 4000 kB: vm.min_free_kbytes was raised.
            ("5.4.1", &[4000, 8000], 9000, &[None, None]),
            ("4.19.1", &[4000, 8096], 1000, &[None, None]),
        ] {
            assert_eq!(boosts(version, mins, distance), expected, "{version} {mins:?}");
        }
    }
}
