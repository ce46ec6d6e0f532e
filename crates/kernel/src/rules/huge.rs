//! Huge pages: settings, and rules that differ between versions.
//!
//! Source: mm/huge_memory.c, mm/khugepaged.c, mm/hugetlb.c, mm/mempolicy.c.

pageblock::switches! {
    /// transparent huge pages and hugetlb (mm/huge_memory.c, mm/khugepaged.c, mm/hugetlb.c)
    huge: Huge
    choice {
        /// transparent_hugepage/enabled.
        thp_enabled: ThpEnabled {
            /// For every mapping.
            Always = "always",
            /// For mappings with `MADV_HUGEPAGE`.
            Madvise = "madvise",
            /// For no mapping.
            Never = "never",
        } = ThpEnabled::Always,
        // What a fault may do for a huge page.
        /// transparent_hugepage/defrag.
        thp_defrag: ThpDefrag {
            /// It reclaims and compacts. The default up to 4.5.
            Always = "always",
            /// It wakes kswapd and kcompactd.
            Defer = "defer",
            /// It reclaims and compacts for mappings with `MADV_HUGEPAGE`, else wakes kswapd and kcompactd.
            DeferMadvise = "defer+madvise",
            /// It reclaims and compacts for mappings with `MADV_HUGEPAGE`, else does nothing. The default from 4.6.
            Madvise = "madvise",
            /// Nothing.
            Never = "never",
        } = ThpDefrag::Always,
        /// The nodes on which a fault allocates a huge page.
        thp_placement: ThpPlacement {
            /// Up to 4.19, and 5.0 to 5.3: on the local node only.
            Local = "local",
            /// 4.20-rc1 to rc5 (ac5b2c18911f, reverted): on any node if the fault may reclaim.
            LocalUnlessReclaim = "local_unless_reclaim",
            /// From 5.4: on the local node without retries, then on any node if the fault may reclaim.
            TwoSteps = "two_steps",
        } = ThpPlacement::Local,
        /// transparent_hugepage/khugepaged/defrag: khugepaged reclaims and compacts.
        khugepaged_defrag: bool = true,
        /// Sizes between a page and a huge page can be used.
        /// From 6.8; the settings of sizes are ignored before.
        mthp: bool = false,
        /// hugepages-16kB/enabled.
        hugepages_16kb: SizeEnabled {
            /// As `transparent_hugepage/enabled` says.
            Inherit = "inherit",
            /// For every mapping.
            Always = "always",
            /// For mappings with `MADV_HUGEPAGE`.
            Madvise = "madvise",
            /// For no mapping.
            Never = "never",
        } = SizeEnabled::Never,
        /// hugepages-32kB/enabled.
        hugepages_32kb: SizeEnabled = SizeEnabled::Never,
        /// hugepages-64kB/enabled.
        hugepages_64kb: SizeEnabled = SizeEnabled::Never,
        /// hugepages-128kB/enabled.
        hugepages_128kb: SizeEnabled = SizeEnabled::Never,
        /// hugepages-256kB/enabled.
        hugepages_256kb: SizeEnabled = SizeEnabled::Never,
        /// hugepages-512kB/enabled.
        hugepages_512kb: SizeEnabled = SizeEnabled::Never,
        /// hugepages-1024kB/enabled.
        hugepages_1024kb: SizeEnabled = SizeEnabled::Never,
        /// hugetlb pages are movable.
        /// From 3.12 (86cdb465cf3a).
        hugetlb_movable: bool = false,
        /// After hugetlb failed on a node, the next attempts there do not retry until one succeeds.
        /// From 5.4 (f60858f9d327).
        hugetlb_remembers: bool = false,
    }
    number {
        /// transparent_hugepage/khugepaged/pages_to_scan.
        khugepaged_pages_to_scan: 1..=4294967295 = 4096,
        /// transparent_hugepage/khugepaged/scan_sleep_millisecs.
        khugepaged_scan_sleep_ms: 0..=4294967295 = 10000,
        /// transparent_hugepage/khugepaged/alloc_sleep_millisecs.
        khugepaged_alloc_sleep_ms: 0..=4294967295 = 60000,
        /// transparent_hugepage/khugepaged/max_ptes_none.
        khugepaged_max_ptes_none: 0..=511 = 511,
    }
}

impl Huge {
    /// Returns the setting for an order between a page and a huge page; `Never` for an order without a setting.
    #[must_use]
    pub const fn size_enabled(&self, order: u8) -> SizeEnabled {
        match order {
            2 => self.hugepages_16kb,
            3 => self.hugepages_32kb,
            4 => self.hugepages_64kb,
            5 => self.hugepages_128kb,
            6 => self.hugepages_256kb,
            7 => self.hugepages_512kb,
            8 => self.hugepages_1024kb,
            _ => SizeEnabled::Never,
        }
    }
}
