//! How many objects a shrinker scans, in proportion to what reclaim does to pages.
//!
//! Source: `do_shrink_slab` (mm/vmscan.c, mm/shrinker.c).

/// The cost of recreating an object, in seeks (`DEFAULT_SEEKS`).
const SEEKS: u64 = 2;

/// The pressure that reclaim puts on a shrinker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pressure {
    /// The priority of reclaim (from about 4.16).
    Priority(u32),
    /// The share of the eligible pages that reclaim scanned (before).
    Scanned { scanned: u64, eligible: u64 },
}

/// The caller of the shrinkers (`struct shrink_control`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ShrinkControl {
    pub(crate) cpu: usize,
    pub(crate) kswapd: bool,
    /// File systems may be entered (`__GFP_FS`).
    pub(crate) fs: bool,
}

/// Returns how many of `freeable` objects to scan: `deferred` are left over from earlier calls, and at least
/// `least` are scanned if there are so many.
#[must_use]
pub(crate) fn scan_target(freeable: u64, deferred: u64, pressure: Pressure, least: u64) -> u64 {
    let delta: u64 = match pressure {
        Pressure::Priority(priority) => (freeable >> priority) * 4 / SEEKS,
        Pressure::Scanned { scanned, eligible } => {
            (4 * scanned / SEEKS).saturating_mul(freeable) / (eligible + 1)
        }
    };
    let delta = delta.max(least.min(freeable));
    let mut total = deferred + delta;
    if delta < freeable / 4 {
        total = total.min(freeable / 2);
    }
    total.min(freeable * 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_follows_the_priority_or_the_share_scanned() {
        assert_eq!(scan_target(4096, 0, Pressure::Priority(12), 0), 2);
        assert_eq!(scan_target(4096, 100, Pressure::Priority(2), 0), 2048 + 100);
        // Under light pressure, deferred work never empties a cache.
        assert_eq!(scan_target(4096, 1 << 20, Pressure::Priority(12), 0), 2048);
        assert_eq!(scan_target(4096, 1 << 20, Pressure::Priority(0), 0), 8192);
        assert_eq!(scan_target(4096, 0, Pressure::Priority(12), 1024), 1024);
        assert_eq!(scan_target(500, 0, Pressure::Priority(12), 1024), 500);
        let scanned = Pressure::Scanned { scanned: 100, eligible: 999 };
        assert_eq!(scan_target(5000, 0, scanned, 0), 1000);
    }
}
