//! The page size, derived from amounts that a machine's files have both in pages and in kB.

use std::ops::Range;

use pageblock_measure::value::uninitialised::{self, Uninitialised};
use pageblock_recording::MemInfo;

use super::zoneinfo::Zone;

/// The page sizes of Linux in kB.
const SIZES: [u64; 3] = [4, 16, 64];

/// Returns the size of a page in kB: what `MemTotal` has for each managed page. Where that is near to no size, as some
/// kernels count memory in `MemTotal` that no zone manages yet, what only x86 prints tells it, else the size of a huge
/// page.
#[must_use]
pub fn page_kb(meminfo: &MemInfo, zones: &[Zone]) -> u64 {
    let total = meminfo.get("MemTotal").unwrap_or(0);
    let fits = |&kb: &u64| (0.8..1.25).contains(&share_managed(total, kb, zones));
    let by_architecture = || meminfo.get("DirectMap4k").map(|_| 4);
    let by_huge_page = || match meminfo.get("Hugepagesize")? {
        32_768 => Some(16),
        524_288 => Some(64),
        _ => None,
    };
    let known = SIZES.into_iter().find(fits).or_else(by_architecture).or_else(by_huge_page);
    known.unwrap_or(SIZES[0])
}

/// Returns the share of `MemTotal` (in kB) that the zones manage if a page has this size in kB.
#[must_use]
fn share_managed(total: u64, page_kb: u64, zones: &[Zone]) -> f64 {
    let managed: u64 = zones.iter().map(|zone| zone.managed).sum();
    managed as f64 * page_kb as f64 / total.max(1) as f64
}

/// Returns the part of `MemTotal` (in kB) that the zones do not manage yet; `None` if they manage all.
#[must_use]
pub fn uninitialised(total: u64, page_kb: u64, zones: &[Zone]) -> Option<Uninitialised> {
    let managed: u64 = zones.iter().map(|zone| zone.managed).sum();
    Uninitialised::find(total, managed.saturating_mul(page_kb))
}

/// Returns the frames of a zone that may be uninitialised, on a machine that has such memory.
#[must_use]
pub fn uninitialised_frames(zone: &Zone) -> Range<u64> {
    uninitialised::frames(zone.end(), zone.present, zone.managed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(managed: u64, lines: &[(&str, u64)]) -> u64 {
        let text: String = lines.iter().map(|(name, kb)| format!("{name}: {kb} kB\n")).collect();
        page_kb(&MemInfo::parse(&text), &[Zone { managed, ..Zone::default() }])
    }

    #[test]
    fn memory_tells_the_size_of_a_page() {
        assert_eq!(told(6_171_021, &[("MemTotal", 24_684_084)]), 4);
        assert_eq!(told(262_144, &[("MemTotal", 4_194_304)]), 16);
        assert_eq!(told(65_536, &[("MemTotal", 4_194_304)]), 64);
    }

    #[test]
    fn memory_that_no_zone_manages_misleads_nobody() {
        let total = ("MemTotal", 24_684_084);
        assert_eq!(told(2_284_083, &[total, ("DirectMap4k", 26_624), ("Hugepagesize", 2048)]), 4);
        assert_eq!(told(400_000, &[total, ("Hugepagesize", 524_288)]), 64);
        assert_eq!(told(2_284_083, &[total]), 4);
    }
}
