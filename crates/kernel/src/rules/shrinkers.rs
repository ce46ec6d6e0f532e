//! Shrinkers: how many objects reclaim frees from the caches of dentries, inodes and buffers.
//!
//! Source: `shrink_slab`, `do_shrink_slab` (mm/vmscan.c), `inode_lru_isolate` (fs/inode.c).

pageblock::switches! {
    /// caches of dentries, inodes and buffers (mm/vmscan.c, fs/inode.c)
    shrinkers: Shrinkers
    choice {
        /// What a shrinker's scan count depends on.
        shrink_pressure: ShrinkPressure {
            /// Up to 4.15: the share of LRU pages that was scanned.
            Scanned = "scanned",
            /// From 4.16 (9092c71bb724): the priority of reclaim.
            Priority = "priority",
        } = ShrinkPressure::Scanned,
        /// A shrinker scans at least a batch of objects, however low the pressure.
        /// 4.19 and 4.20 (172b06c32b94, reverted for 5.0 by a9a238e83fbb).
        slab_min_scan: bool = false,
        /// What becomes of an unused inode that has pages in the page cache.
        cached_inodes: CachedInodes {
            /// It is freed in its turn, and its clean pages with it.
            Freed = "freed",
            /// 4.20 (a76cf1a474d7, reverted for 5.0 by 69056ee6a8a3): it is passed over if it has more than one.
            PassedOver = "passed_over",
            /// From 5.17 here (51b8c1fe250d: 5.16): it is listed when its last page and index node are gone.
            Unlisted = "unlisted",
        } = CachedInodes::Freed,
    }
    number {}
}
