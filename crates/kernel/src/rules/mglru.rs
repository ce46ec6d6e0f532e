//! Generations of pages (the multi-generational LRU), which a kernel has with `lru=mglru`.
//!
//! Source: mm/vmscan.c (lru_gen), mm/workingset.c, include/linux/mm_inline.h, by version.

pageblock::switches! {
    /// generations of pages, with lru=mglru (lru_gen in mm/vmscan.c, mm/workingset.c)
    mglru: Mglru
    choice {
        /// How uses of a page are counted, and where a page begins.
        gen_uses: GenUses {
            /// Up to 6.13: what was faulted in, or found in use once, is young.
            First = "first",
            /// From 6.14 (4d5d14a01e2c, b1a71694fb00): the first use that is found is noted, the second makes a page young.
            Second = "second",
        } = GenUses::First,
        /// When there is to be a new generation.
        gen_ageing: GenAgeing {
            /// Up to 6.13: with three, if the youngest has half of all pages, or the oldest less than a quarter.
            ByShare = "by_share",
            /// From 6.14 (798c0330c2ca): with three; the oldest of both kinds are independent.
            ByNumber = "by_number",
        } = GenAgeing::ByShare,
        /// How the kind of pages to evict is chosen.
        gen_type: GenType {
            /// Up to 6.13: the older; of equals, by refaults of pages used once.
            Oldest = "oldest",
            /// From 6.14 (37a260870f2c): by refaults of all pages.
            Refaults = "refaults",
        } = GenType::Oldest,
        /// How far one eviction looks.
        gen_batch: GenBatch {
            /// Up to 7.1: at up to 4,096 folios until 64 pages are taken.
            Whole = "whole",
            /// From 7.2 (163bc3d68c9f): at up to 64 folios; a new generation ends the scan.
            Counted = "counted",
        } = GenBatch::Whole,
    }
    number {
        /// /sys/kernel/mm/lru_gen/min_ttl_ms: a process is killed rather than younger pages evicted; 0 is off.
        min_ttl_ms: 0..=86400000 = 0,
    }
}
