//! The public numbers of a zone.

use crate::base::frame::{FrameRange, Order, Pfn, pages};
use crate::base::geometry::Geometry;
use crate::base::ids::NodeId;
use crate::base::layout::{MAX_NR_ZONES, ZoneKind};
use crate::base::mobility::Migratetype;
use crate::policy::Policy;
use crate::policy::source::PolicySource;
use crate::table::map::{FrameState, PageMap};
use crate::table::movement::Movements;
use crate::table::usage::BlockUsage;
use crate::zone::capture::CaptureSlot;
use crate::zone::retune::CacheTuning;
use crate::zone::tuning::Watermarks;
use crate::zone::{Zone, ZoneCounters};

impl<'m, P: PolicySource> Zone<'m, P> {
    /// Returns the zone's node.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Returns which of the node's zones it is.
    #[must_use]
    pub fn kind(&self) -> ZoneKind {
        self.kind
    }

    /// Returns the zone's frames, holes included.
    #[must_use]
    pub fn span(&self) -> FrameRange {
        self.span
    }

    /// Returns the number of pages that exist.
    #[must_use]
    pub fn present(&self) -> u64 {
        self.present
    }

    /// Returns the number of pages that the allocator manages (`managed_pages`).
    #[must_use]
    pub fn managed(&self) -> u64 {
        self.managed
    }

    /// Returns the watermarks in pages, without the boost.
    #[must_use]
    pub fn watermarks(&self) -> Watermarks {
        self.watermarks
    }

    /// Returns the pages that are added to each watermark until kswapd has reclaimed them
    /// (`watermark_boost`).
    #[must_use]
    pub fn boost(&self) -> u64 {
        self.boost
    }

    /// Returns the pages that are kept from requests, by the highest zone that a request may use.
    #[must_use]
    pub fn lowmem_reserve(&self) -> &[u64; MAX_NR_ZONES] {
        &self.lowmem_reserve
    }

    /// Returns the pages that are left of this round of the fair zone allocator (`NR_ALLOC_BATCH`, 3.12 to
    /// 4.7). Not kept under other policies.
    #[must_use]
    pub fn alloc_batch(&self) -> i64 {
        self.alloc_batch
    }

    /// Returns whether kswapd is to be woken for the boost (`ZONE_BOOSTED_WATERMARK`).
    #[must_use]
    pub fn boosted(&self) -> bool {
        self.boosted
    }

    /// Returns whether the zone is marked as below its high watermark (`ZONE_BELOW_HIGH`).
    #[must_use]
    pub fn below_high(&self) -> bool {
        self.below_high
    }

    /// Returns whether kswapd is reclaiming in the zone (`ZONE_RECLAIM_ACTIVE`).
    #[must_use]
    pub fn reclaim_active(&self) -> bool {
        self.reclaim_active
    }

    /// Returns whether the batch of this round is spent (`ZONE_FAIR_DEPLETED`).
    #[must_use]
    pub fn fair_depleted(&self) -> bool {
        self.fair_depleted
    }

    /// Returns the capture slot of the task that compacts this zone (`task_capc`).
    #[must_use]
    pub fn capture(&self) -> Option<CaptureSlot> {
        self.capture
    }

    /// Returns the free pages, without those in isolated blocks (`NR_FREE_PAGES`).
    #[must_use]
    pub fn free_pages(&self) -> u64 {
        self.free_pages
    }

    /// Returns the free pages on the lists of a type; CMA is `NR_FREE_CMA_PAGES`, highatomic `nr_free_highatomic`.
    #[must_use]
    pub fn free_pages_of(&self, mt: Migratetype) -> u64 {
        self.free_by_type[mt as usize]
    }

    /// Returns the free pages in blocks of the pageblock order or larger (`NR_FREE_PAGES_BLOCKS`).
    #[must_use]
    pub fn free_pages_in_blocks(&self) -> u64 {
        self.free_in_blocks
    }

    /// Returns the pages in highatomic blocks, free or not (`nr_reserved_highatomic`).
    #[must_use]
    pub fn reserved_highatomic(&self) -> u64 {
        self.reserved_highatomic
    }

    /// Returns the number of free blocks of an order (`nr_free`, a column of `/proc/buddyinfo`).
    #[must_use]
    pub fn nr_free(&self, order: Order) -> u64 {
        if order > self.geometry.max_order { 0 } else { self.area.nr_free(order) }
    }

    /// Returns the number of free blocks of an order and list type (`/proc/pagetypeinfo`).
    #[must_use]
    pub fn nr_free_of(&self, order: Order, mt: Migratetype) -> u64 {
        if order > self.geometry.max_order { 0 } else { u64::from(self.area.list(order, mt).len()) }
    }

    /// Returns the free blocks of one list, from its head; under packed placement those smaller than a pageblock by
    /// their frames, upwards.
    pub fn free_list(&self, order: Order, mt: Migratetype) -> impl Iterator<Item = Pfn> {
        let linked = self.chain_of(order, mt).map(|chain| chain.iter(&self.map));
        let whole = self.whole_chain(order, mt).map(|chain| chain.iter(self.packing.links()));
        let small = self.packed_blocks(order, mt).into_iter().flatten();
        let whole = whole.into_iter().flatten();
        linked.into_iter().flatten().chain(whole).chain(small).map(|i| self.map.pfn(i))
    }

    /// Returns the same from the list's tail, and downwards.
    pub fn free_list_from_tail(&self, order: Order, mt: Migratetype) -> impl Iterator<Item = Pfn> {
        use crate::table::freelist::ZONE;
        let linked = self.chain_of(order, mt).map(|chain| chain.iter_back(&self.map, ZONE));
        let links = self.packing.links();
        let whole = self.whole_chain(order, mt).map(|chain| chain.iter_back(links, ZONE));
        let small = self.packed_blocks(order, mt).into_iter().flat_map(Iterator::rev);
        let whole = whole.into_iter().flatten();
        linked.into_iter().flatten().chain(whole).chain(small).map(|i| self.map.pfn(i))
    }

    /// Returns what the zone counted by itself; see [`ZoneCounters`].
    #[must_use]
    pub fn counters(&self) -> &ZoneCounters {
        &self.counters
    }

    /// Returns how many pages fallbacks looked at under the zone's lock, to count a pageblock or to move its free
    /// pages; a free block is one look. From 6.10 on each page that cannot claim its pageblock takes a
    /// count of its own.
    #[must_use]
    pub fn block_looks(&self) -> u64 {
        self.block_looks
    }

    /// Returns the policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Returns the orders that the zone was set up with.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns the state of a frame; `None` where the zone has no such frame.
    #[must_use]
    pub fn state(&self, pfn: Pfn) -> Option<FrameState> {
        self.map.index(pfn).map(|i| self.map.state(i))
    }

    /// Returns the type of the pageblock that holds a frame; `None` where the zone has no such frame.
    #[must_use]
    pub fn block_type(&self, pfn: Pfn) -> Option<Migratetype> {
        self.map.index(pfn).map(|i| self.map.block_type(i))
    }

    /// Returns how the frames of the pageblock that holds a frame are used; `None` where the zone has no such frame.
    /// Of a block larger than a pageblock only its first pageblock counts it.
    #[must_use]
    pub fn block_usage(&self, pfn: Pfn) -> Option<BlockUsage> {
        let first = pfn.align_down(self.geometry.pageblock_order);
        self.map.index(first).map(|i| self.map.usage(i))
    }

    /// Does the same, and calls back with the first frame and the pages in this pageblock of each block that cannot be moved.
    #[must_use]
    pub fn block_usage_with_fixed(
        &self,
        pfn: Pfn,
        fixed: &mut impl FnMut(Pfn, u64),
    ) -> Option<BlockUsage> {
        let first = pfn.align_down(self.geometry.pageblock_order);
        let most = self.geometry.pageblock_pages();
        self.map.index(first).map(|i| {
            let each = &mut |at, order| fixed(self.map.pfn(at), pages(order).min(most));
            self.map.usage_with_fixed(i, each)
        })
    }

    /// Returns the pageblocks whose first frame is in the zone: that frame, the type, the skip hint.
    pub fn pageblocks(&self) -> impl Iterator<Item = (Pfn, Migratetype, bool)> {
        (0..self.map.blocks()).filter_map(|block| {
            let i = block << self.geometry.pageblock_order;
            let pfn = self.map.pfn(i);
            let inside = self.span.contains(pfn) && self.map.state(i) != FrameState::Hole;
            inside.then(|| (pfn, self.map.block_type(i), self.map.skip(i)))
        })
    }

    /// Returns a watermark with the boost.
    #[must_use]
    pub fn watermark(&self, mark: crate::base::alloc_flags::Watermark) -> u64 {
        use crate::base::alloc_flags::Watermark::{High, Low, Min};
        self.boost
            + match mark {
                Min => self.watermarks.min,
                Low => self.watermarks.low,
                High => self.watermarks.high,
            }
    }

    /// Returns the movements of free blocks so far, and how many of them disagreed with their pageblocks; `None`
    /// in a build without debug assertions, which does not look.
    #[must_use]
    pub fn movements(&self) -> Option<Movements> {
        self.area.watch.seen()
    }

    /// Returns whether there is too little memory to group by mobility.
    pub(crate) fn mobility_off(&self) -> bool {
        self.mobility_off
    }

    /// Returns whether some pageblock is isolated.
    pub(crate) fn has_isolated_blocks(&self) -> bool {
        self.isolated_blocks > 0
    }

    /// Returns the limits of the zone's CPU caches.
    pub(crate) fn cache_tuning(&self) -> CacheTuning {
        self.cache_tuning
    }

    /// Returns the tables of the zone's frames.
    pub(crate) fn map(&self) -> &PageMap<'m, P> {
        &self.map
    }
}
