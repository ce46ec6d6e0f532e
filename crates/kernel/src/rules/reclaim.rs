//! The choice of pages to reclaim.
//!
//! Source: mm/vmscan.c, mm/workingset.c, mm/swap.c, by version.

pageblock::switches! {
    /// choice of pages to reclaim (mm/vmscan.c, mm/workingset.c)
    reclaim: Reclaim
    choice {
        /// Whether LRU lists belong to zones or nodes, or are generations.
        lru: LruLists {
            /// Up to 4.7: active and inactive lists of each zone.
            Zone = "zone",
            /// From 4.8: those of each node.
            Node = "node",
            /// From 6.1, and in no preset (`LRU_GEN_ENABLED` has no default; ac35a4902374): generations of each node's pages.
            Mglru = "mglru",
        } = LruLists::Zone,
        /// When the inactive file list is too short.
        file_balance: FileBalance {
            /// Up to 4.7: when it is shorter than the active list.
            Half = "half",
            /// From 4.8 here: by a ratio that grows with the lists.
            BySize = "by_size",
        } = FileBalance::Half,
        /// How scanning is balanced between anonymous and file pages.
        scan_balance: ScanBalance {
            /// Up to 5.7: by the share of scanned pages that were rotated.
            Rotated = "rotated",
            /// 5.8 to 6.2 here (Linux: 6.1): by the pages written, and those read again that had been in use.
            Io = "io",
            /// 6.3 to 7.2 here (Linux: from 6.2, 0538a82c39e9): by the same times 32, and pages that were scanned in vain.
            Cost = "cost",
            /// From 7.3: by the same, which halves at each scan until it is at most a quarter of the lists.
            Counters = "counters",
        } = ScanBalance::Rotated,
        /// Reclaim is limited to file pages only if the inactive file list yields pages at this priority.
        /// From 4.8 here.
        file_needs_share: bool = false,
        /// When few file pages are left, anonymous memory is scanned only if its inactive list is long enough.
        /// From 4.8 here (Linux: 4.12).
        tiny_file_needs_anon: bool = false,
        /// Referenced active pages count as rotated.
        /// Up to 4.7.
        used_counts_rotated: bool = true,
        /// Scanned anonymous pages count twice towards kswapd's scan count.
        /// 3.11 to 4.7: pages that are mapped or in the swap cache.
        anon_counts_twice: bool = false,
        /// Dirty pages that reclaim does not write at once are activated.
        /// From 4.12.
        unwritten_activates: bool = false,
        /// Only pages of eligible zones count for the share of a list that is scanned.
        /// From 4.11 (71ab6cfe88dc).
        scans_eligible: bool = false,
        /// A write to a file page marks it accessed.
        /// Up to 4.6 (bbddabe2e436).
        writes_are_uses: bool = true,
        /// Where new anonymous pages start.
        anon_start: AnonStart {
            /// Up to 5.7 here (Linux: 5.8): on the active list.
            Active = "active",
            /// From 5.8 here (Linux: 5.9): on the inactive list.
            Inactive = "inactive",
        } = AnonStart::Active,
        /// When reclaim for a block has freed enough for compaction.
        /// From 5.4 (1c6c15971e47): as soon as compaction is suitable.
        reclaim_until: ReclaimUntil {
            /// Up to 5.3: when it has reclaimed twice the block, and compaction is suitable.
            Gap = "gap",
            /// From 5.4: when compaction is suitable.
            Suitable = "suitable",
        } = ReclaimUntil::Gap,
        /// What shadow entries do.
        workingset: Workingset {
            /// Up to 3.14: there are no shadow entries.
            Off = "off",
            /// 3.15 to 4.7: a page that was evicted too early is activated when it refaults.
            Activates = "activates",
            /// From 4.8: the active list shrinks, too.
            Deactivates = "deactivates",
        } = Workingset::Off,
        /// Evicted anonymous pages leave shadow entries, too.
        /// From 5.8 here (Linux: 5.9, aae466b0052e).
        anon_workingset: bool = false,
        /// Anonymous memory counts in the refault distance of files.
        /// From 5.8 here (Linux: 5.9).
        refault_counts_anon: bool = false,
    }
    number {}
}
