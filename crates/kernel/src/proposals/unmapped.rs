//! Pageblocks outside the direct map: free lists by `freetype_t`, the migratetype and an unmapped flag of each pageblock
//! (`ALLOC_UNMAPPED`, before `__GFP_UNMAPPED`; Brendan Jackman, RFC of February 2026, v4 of 26 patches).
//!
//! A request for unmapped memory is served from unmapped pageblocks, all others from mapped ones. Only a wholly free
//! pageblock changes its flag, and it keeps the flag when it is free again. At first all are mapped. How blocks are chosen,
//! and what it costs: [`segregated`](super::segregated).
//!
//! *Which requests*: the series' users (`secretmem`, `guest_memfd`) are in no workload here. Taken is the largest use that is
//! planned, address space isolation: anonymous pages are unmapped (`__GFP_ZERO` and movable), what files and the kernel
//! hold is mapped. Huge pages take whole pageblocks, whatever their flag.
//!
//! *Left out*: the cost of a change (TLB shootdown, outside the zone's lock), and that a request which may not block fails
//! rather than change a pageblock. Where no wholly free pageblock is left, the series reclaims and compacts for one; here
//! the request takes what Linux takes, of a pageblock with the other flag. Compaction moves pages across flags. A fallback that finds another
//! block than Linux judges its pageblock by order alone.

use pageblock::request::Gfp;

use super::segregated::{Class, Segregated};

/// The policy.
pub type Unmapped = Segregated<Flag>;

/// Whether the direct map has a pageblock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Flag {
    /// It has.
    #[default]
    Mapped,
    /// It has not.
    Unmapped,
}

impl Class for Flag {
    const UNOPENED: Option<Self> = Some(Self::Mapped);
    const LASTING: bool = true;

    fn of(gfp: Gfp) -> Self {
        if gfp.has(Gfp::ZERO) && gfp.has(Gfp::MOVABLE) { Self::Unmapped } else { Self::Mapped }
    }
}
