//! How reclaim chooses pages.
//!
//! Source: mm/vmscan.c, mm/workingset.c, mm/swap.c, by version.

choices! {
    /// Whose LRU lists there are.
    LruLists {
        /// Up to 4.7: those of each zone.
        Zone = "zone",
        /// From 4.8: those of each node.
        Node = "node",
    }
    /// When inactive pages of files are too few.
    FileBalance {
        /// Up to 4.7: when they are fewer than the active ones.
        Half = "half",
        /// From 4.8 here: by a ratio that grows with the lists.
        BySize = "by_size",
    }
    /// How anonymous memory and files are weighed.
    ScanBalance {
        /// Up to 5.7: by the pages that scanning put back.
        Rotated = "rotated",
        /// From 5.8: by the cost of reclaiming them.
        Cost = "cost",
    }
    /// Where new anonymous pages start.
    AnonStart {
        /// Up to 5.7 here (Linux: 5.8): on the active list.
        Active = "active",
        /// From 5.8 here (Linux: 5.9): on the inactive list.
        Inactive = "inactive",
    }
    /// What the shadow of an evicted page does.
    Workingset {
        /// Up to 3.14: there is none.
        Off = "off",
        /// 3.15 to 4.7: a page that was evicted too early returns to the active list.
        Activates = "activates",
        /// From 4.8: the active list shrinks, too.
        Deactivates = "deactivates",
    }
}

group! {
    /// choice of pages to reclaim (mm/vmscan.c, mm/workingset.c)
    reclaim: Reclaim
    choice {
        /// Whose LRU lists there are.
        lru: LruLists = LruLists::Zone,
        /// When inactive pages of files are too few.
        file_balance: FileBalance = FileBalance::Half,
        /// How anonymous memory and files are weighed.
        scan_balance: ScanBalance = ScanBalance::Rotated,
        /// Files alone are scanned only where the priority gives them a share.
        /// From 4.8 here.
        file_needs_share: bool = false,
        /// When few pages of files are left, anonymous memory is scanned only where its inactive list is long enough.
        /// From 4.8 here (Linux: 4.12).
        tiny_file_needs_anon: bool = false,
        /// Active pages that were used count as rotated.
        /// Up to 4.7.
        used_counts_rotated: bool = true,
        /// Scanned anonymous pages count twice towards what kswapd scans.
        /// 3.11 to 4.7: pages that are mapped or have a place in swap.
        anon_counts_twice: bool = false,
        /// Pages that must be written first leave the inactive list.
        /// From 4.12.
        unwritten_activates: bool = false,
        /// The share of a list that is scanned depends on its pages of zones that help.
        /// From 4.11 (71ab6cfe88dc).
        scans_eligible: bool = false,
        /// A write to a page of a file counts as a use.
        /// Up to 4.6 (bbddabe2e436).
        writes_are_uses: bool = true,
        /// Where new anonymous pages start.
        anon_start: AnonStart = AnonStart::Active,
        /// What shadows do.
        workingset: Workingset = Workingset::Off,
        /// Anonymous memory counts in the refault distance of files.
        /// From 5.8 here (Linux: 5.9).
        refault_counts_anon: bool = false,
    }
    number {}
}
