//! What a reclaimer wants, and what it has found (`struct scan_control`).

use pageblock::frame::Order;
use pageblock::layout::ZoneKind;
use pageblock::slowpath::PAGE_ALLOC_COSTLY_ORDER;
use pageblock_kernel::rules::kswapd::{CongestionBy, Kswapd, KswapdTarget};

use crate::base::shrink::ShrinkControl;
pub(super) use crate::pagecache::lru::SWAP_CLUSTER_MAX;

/// The priority at which reclaim starts: it scans the 4096th part of each list.
pub(super) const DEF_PRIORITY: u32 = 12;

/// What a reclaimer wants and has found.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScanControl {
    pub(super) cpu: usize,
    pub(super) order: Order,
    pub(super) priority: u32,
    pub(super) nr_to_reclaim: u64,
    /// The highest zone that the request may use.
    pub(super) highest: ZoneKind,
    pub(super) kswapd: bool,
    pub(super) may_swap: bool,
    /// Pages may be written and unmapped; a kswapd that reclaims for a boost may not.
    pub(super) may_write: bool,
    /// File systems may be entered (`__GFP_FS`).
    pub(super) fs: bool,
    pub(super) nr_scanned: u64,
    pub(super) nr_reclaimed: u64,
    /// It has the means to promote pages without moving them (`mm_walk`): kswapd, and a task that walked page tables.
    pub(super) walks: bool,
    /// Enough was scanned of some zone at this priority (kswapd of 3.11 to 4.7).
    pub(super) enough_scanned: bool,
    pub(super) stat: ReclaimStat,
}

/// What inactive pages were found to be, in pages (`struct reclaim_stat`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct ReclaimStat {
    pub(super) taken: u64,
    pub(super) unqueued_dirty: u64,
    pub(super) writeback: u64,
    /// Pages under writeback that were met again although marked for immediate reclaim.
    pub(super) immediate: u64,
    /// Whether a batch was nothing but dirty pages (3.11 to 4.7).
    pub(super) all_dirty: bool,
}

impl ScanControl {
    /// Returns a task's reclaim at the first priority, which may swap and enter file systems.
    pub(super) fn new(cpu: usize, order: Order, highest: ZoneKind, nr_to_reclaim: u64) -> Self {
        Self {
            cpu,
            order,
            priority: DEF_PRIORITY,
            nr_to_reclaim,
            highest,
            kswapd: false,
            may_swap: true,
            may_write: true,
            fs: true,
            nr_scanned: 0,
            nr_reclaimed: 0,
            walks: false,
            enough_scanned: false,
            stat: ReclaimStat::default(),
        }
    }

    /// Returns whether kswapd waits at once, after a batch in which it met a page under writeback again or nothing but
    /// dirty pages, instead of after the node.
    pub(super) fn waits_at_once(&self, rules: &Kswapd) -> bool {
        let waits = self.stat.immediate > 0 || self.stat.all_dirty;
        self.kswapd && waits && rules.congestion_by == CongestionBy::Batch
    }

    /// Returns whether kswapd has a target for each zone.
    pub(super) fn has_zone_target(&self, rules: &Kswapd) -> bool {
        self.kswapd && rules.kswapd_target == KswapdTarget::ZoneHigh
    }

    /// Returns it as the caller of the shrinkers.
    pub(super) const fn shrink_control(&self) -> ShrinkControl {
        ShrinkControl { cpu: self.cpu, kswapd: self.kswapd, fs: self.fs }
    }

    /// Returns whether it reclaims so that compaction has enough free pages (`in_reclaim_compaction`).
    pub(super) const fn for_compaction(&self) -> bool {
        self.order > 0 && (self.order > PAGE_ALLOC_COSTLY_ORDER || self.priority < DEF_PRIORITY - 2)
    }
}

/// Whether a job that runs in steps is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stepped {
    More,
    Done,
}
