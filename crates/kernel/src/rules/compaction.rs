//! Compaction of a zone, direct or in the background.
//!
//! Source: mm/compaction.c, mm/migrate.c, by version; `docs/linux` has the changes in full.

pageblock::switches! {
    /// compaction of a zone (mm/compaction.c)
    compaction: Compaction
    choice {
        /// How the migration scanner walks a pageblock.
        migration_scanner: MigrationScanner {
            /// Up to 3.17: it visits every frame, also inside blocks.
            ByFrame = "by_frame",
            /// From 3.18 (99c0fd5e51c4): it skips from block to block.
            ByBlock = "by_block",
        } = MigrationScanner::ByFrame,
        // And where it resumes.
        /// How the free scanner walks pageblocks.
        free_scanner: FreeScanner {
            /// Up to 3.13: it isolates whole pageblocks and resumes at the highest one from which pages were isolated.
            FromHighest = "from_highest",
            /// 3.14 to 3.18: it isolates whole pageblocks and resumes at the last one.
            FromLast = "from_last",
            /// 3.19 and 4.0: it isolates whole pageblocks and resumes below the last one.
            BelowLast = "below_last",
            /// From 4.1: it stops inside a pageblock once it has enough, and resumes there.
            AsNeeded = "as_needed",
        } = FreeScanner::FromHighest,
        /// The free scanner's saved position moves back up to target pages that were not used.
        /// From 3.19.
        free_scanner_goes_back: bool = false,
        /// The free scanner stops when the watermark prevents it from isolating more.
        /// From 4.8 (a4f04f2c6955); before, it continues to the end without isolating anything.
        free_scanner_stops: bool = false,
        /// The watermark for isolating a free block.
        isolate_mark: IsolateMark {
            /// Up to 4.0: the low watermark plus the block, without CMA pages.
            Low = "low",
            /// From 4.1 here (Linux: from 4.9): the min watermark plus the block, with CMA pages.
            Min = "min",
        } = IsolateMark::Low,
        /// When the scanners meet.
        meeting: Meeting {
            /// Up to 4.0: at the same frame.
            ByFrame = "by_frame",
            /// From 4.1: in the same pageblock.
            ByPageblock = "by_pageblock",
        } = Meeting::ByFrame,
        /// Scanners that met start at the zone's ends the next time.
        /// From 3.14 (55b7c4c99f6a); before, they stay where they met until kswapd sleeps.
        restart_after_meeting: bool = false,
        /// When compaction restarts after failures, saved positions are reset before they are read.
        /// From 3.14.
        reset_before_read: bool = false,
        /// The watermark for success.
        finish_mark: FinishMark {
            /// Up to 3.18: the low watermark plus the block, whatever the request's flags.
            ZoneLow = "zone_low",
            /// 3.19 and 4.0: the low watermark, with the request's flags.
            RequestLow = "request_low",
            /// 4.1 to 4.7: the low watermark plus the block, with the request's flags.
            RequestLowAndBlock = "request_low_and_block",
            /// From 4.8: none.
            Off = "off",
        } = FinishMark::ZoneLow,
        /// The free block for success.
        finish_block: FinishBlock {
            /// Up to 4.0: one on the list of the request's type.
            OwnList = "own_list",
            /// From 4.1 (2149cdaef6c0): also one of another type that the request could claim.
            Claimable = "claimable",
        } = FinishBlock::OwnList,
        /// Compaction stops only between pageblocks.
        /// From 5.1.
        finish_pageblock: bool = false,
        /// On a second visit the whole rest of a pageblock is isolated at once.
        /// From 5.1.
        take_rest: bool = false,
        /// Which pageblock is recorded with the last batch.
        last_migrated: LastMigrated {
            /// Up to 5.0: the one where the last batch with a migrated page began.
            Moved = "moved",
            /// 5.1 to 6.5: the one where the last batch began.
            Start = "start",
            /// From 6.6: the one where the last batch ended.
            Block = "block",
        } = LastMigrated::Moved,
        /// What happens after a page cannot be migrated.
        after_failure: AfterFailure {
            /// Up to 4.6: the scanner continues.
            GoOn = "go_on",
            /// 4.7 to 6.5 (fdd048e12c9a): asynchronous compaction continues with the next block of its order.
            NextBlock = "next_block",
            /// From 6.6: the rest of the pageblock is migrated too, so that no search leads here again.
            FinishPageblock = "finish_pageblock",
        } = AfterFailure::GoOn,
        /// The target page of a failed migration is kept for other pages.
        /// From 3.16 (68711a746345); before, it is freed.
        keep_target: bool = false,
        /// What happens when the free scanner finds no target page.
        without_room: WithoutRoom {
            /// Up to 3.13: compaction gives up.
            Ends = "ends",
            /// From 3.14: compaction gives up, unless the scanners have met, which completes it.
            EndsUnlessMet = "ends_unless_met",
        } = WithoutRoom::Ends,
        /// The page for which no target was found counts as failed.
        /// From 4.7 (dfef2ef4027b).
        no_room_counts: bool = false,
        // So that the freed pages merge.
        /// When per-CPU lists are drained.
        drain_lists: DrainLists {
            /// Up to 3.18: once, at the end.
            AtEnd = "at_end",
            /// From 3.19: whenever the migration scanner leaves a block of the order.
            AsItGoes = "as_it_goes",
        } = DrainLists::AtEnd,
        /// Asynchronous compaction marks unmovable pageblocks as skipped for synchronous compaction too.
        /// Up to 3.13 (50b5b094e683).
        async_hides: bool = true,
        /// What skip hints mean.
        skip_hints: SkipHints {
            /// Up to 5.0: nothing was found in the pageblock. All hints are reset together.
            NothingFound = "nothing_found",
            /// 5.1 to 6.5: the pageblock was visited from its first frame on. Only hints of pageblocks in which a sample
            /// finds suitable pages are reset.
            FirstFrame = "first_frame",
            /// From 6.6: the same, for any visit that began at the start of the pageblock.
            FromStart = "from_start",
        } = SkipHints::NothingFound,
        /// The migration scanner's asynchronous and synchronous positions advance together over pageblocks
        /// without movable pages.
        /// From 5.1.
        positions_in_step: bool = false,
        /// Fast search: the free lists are searched for target pages and for nearly empty pageblocks.
        /// From 5.1 (70b44595eafe, 5a811889de10).
        fast_search: bool = false,
        /// The free scanner samples pageblocks after one without free pages.
        /// From 5.1 (4fca9730c51d).
        sampling: bool = false,
        /// What happens to a pageblock that a fast search selected.
        searched_block: SearchedBlock {
            /// 5.1 to 6.5: the hint that the search sets makes the scanner skip it.
            Skipped = "skipped",
            /// From 6.6 (7efc3b726103): it is scanned.
            Scanned = "scanned",
        } = SearchedBlock::Skipped,
        /// A fast search without result falls back to the middle of the range only if its pageblock is a suitable target.
        /// From 6.6 here.
        middle_must_fit: bool = false,
        // After the search isolated pages around a free block.
        /// When a pageblock counts as full after a fast search.
        around_hint: AroundHint {
            /// 5.1 to 6.5: when fewer pages than wanted were isolated.
            Short = "short",
            /// From 6.6: when it was scanned to its end.
            AtEnd = "at_end",
        } = AroundHint::Short,
        // `compaction_suitable`.
        /// Whether a zone should be compacted.
        suitability: Suitability {
            /// Up to 3.18: by the zone's low watermark, whatever the request's flags.
            Zone = "zone",
            /// 3.19 to 4.3: the request's watermark is checked after the fragmentation index.
            IndexFirst = "index_first",
            /// 4.4 to 4.7: the request's watermark is checked first.
            RequestFirst = "request_first",
            /// From 4.8: the same; the min watermark is enough for orders up to 3.
            MinForCheap = "min_for_cheap",
        } = Suitability::Zone,
        // `compact_gap`; having reclaimed as many pages, kswapd gives up the order.
        /// The free pages that compaction needs besides the block.
        compact_gap: CompactGap {
            /// Up to 7.1: two blocks of the order.
            ByOrder = "by_order",
            /// From 7.2: the same, but at most 32 pages.
            Capped = "capped",
        } = CompactGap::ByOrder,
        // Besides the gap.
        /// What must be free for direct reclaim to leave a zone to compaction.
        ready_mark: ReadyMark {
            /// Up to 6.14: the high watermark.
            High = "high",
            /// From 6.15: the high watermark and the distance from the min to the low one.
            HighAndDistance = "high_and_distance",
        } = ReadyMark::High,
        /// Where failures are recorded.
        deferral: Deferral {
            /// Up to 3.17: in the preferred zone, for all zones of the request.
            PreferredZone = "preferred_zone",
            /// From 3.18: in each zone separately.
            EachZone = "each_zone",
        } = Deferral::PreferredZone,
        // Before the next zone.
        /// When direct compaction ends.
        direct_end: DirectEnd {
            /// Up to 3.17: when the zone meets its low watermark for the order.
            LowWatermark = "low_watermark",
            /// From 3.18: when compaction of the zone succeeded.
            Success = "success",
        } = DirectEnd::LowWatermark,
        // `compact_stall`.
        /// When direct compaction counts as a stall.
        stall_count: StallCount {
            /// Up to 3.18: when it begins, even if too little memory is free to compact.
            OnEntry = "on_entry",
            /// From 3.19: when at least one zone was compacted.
            WhenTried = "when_tried",
        } = StallCount::OnEntry,
        /// Direct compaction needs a request with __GFP_FS.
        /// Up to 4.0 here (Linux: 4.9).
        needs_fs: bool = true,
        /// Light synchronous compaction migrates pages that it has to wait for.
        /// Up to 4.7 here.
        sync_light_waits: bool = true,
        /// Which pageblocks asynchronous direct compaction migrates from.
        async_source: AsyncSource {
            /// Up to 4.11: movable pageblocks.
            Movable = "movable",
            /// 4.12 to 7.1: pageblocks of the request's type.
            OwnType = "own_type",
            /// From 7.2: the same; movable pageblocks for requests of a pageblock or more.
            MovableForWhole = "movable_for_whole",
        } = AsyncSource::Movable,
        /// Folios smaller than the wanted order are migrated too; free blocks are split only as far as needed.
        /// From 6.9 (733aea0b3a7b, ee6f62fd34f0).
        moves_folios: bool = false,
        /// Which free blocks compaction does not migrate to.
        compact_target: CompactTarget {
            /// 3.10: any size is accepted.
            AcceptLarge = "accept_large",
            /// Up to 6.7: blocks of the pageblock order are rejected.
            RejectPageblock = "reject_pageblock",
            /// From 6.8: blocks of the wanted order are rejected.
            RejectOrder = "reject_order",
        } = CompactTarget::AcceptLarge,
        /// The orders for which the fragmentation index decides.
        extfrag_index: ExtfragIndex {
            /// Up to 4.8: all orders.
            AllOrders = "all_orders",
            /// From 4.9: costly orders.
            Costly = "costly",
        } = ExtfragIndex::AllOrders,
        // `compact_migrate_scanned`, `compact_free_scanned`.
        /// How the scanners' work is counted.
        compact_counts: CompactCounts {
            /// Up to 5.19: visits.
            Looks = "looks",
            /// 6.0 to 6.3: visits, and every page of the free blocks taken.
            Taken = "taken",
            /// From 6.4 (56d48d8dbefb): every page, also of blocks skipped as a whole.
            Pages = "pages",
        } = CompactCounts::Looks,
    }
    number {
        /// Pages that compaction isolates at a time (`COMPACT_CLUSTER_MAX`), and the free scanner's largest stride.
        compact_batch: 1..=512 = 32,
        /// Entries of free lists that a fast search looks at, halved after each one without result.
        fast_search_limit: 0..=4096 = 32,
        /// How often the attempts that are skipped after a failure double (`COMPACT_MAX_DEFER_SHIFT`).
        compact_defer_max: 0..=16 = 6,
    }
}

/// The largest gap of 7.2 in pages (`COMPACT_CLUSTER_MAX`).
const COMPACT_CLUSTER_MAX: u64 = 32;

impl Compaction {
    /// Returns the free pages, besides the block itself, that compaction needs for an order (`compact_gap`).
    #[must_use]
    pub const fn gap(&self, order: u8) -> u64 {
        let gap = 2 << order;
        match self.compact_gap {
            CompactGap::Capped if gap > COMPACT_CLUSTER_MAX => COMPACT_CLUSTER_MAX,
            CompactGap::ByOrder | CompactGap::Capped => gap,
        }
    }
}
