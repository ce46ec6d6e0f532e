//! Compaction of a zone, by a task for itself or by anyone else.
//!
//! Source: mm/compaction.c, mm/migrate.c, by version; `docs/linux` has the changes in full.

choices! {
    /// How the migration scanner goes through a pageblock.
    MigrationScanner {
        /// Up to 3.17: it looks at every frame, also inside blocks.
        ByFrame = "by_frame",
        /// From 3.18 (99c0fd5e51c4): it goes from block to block.
        ByBlock = "by_block",
    }
    /// How the free scanner goes through pageblocks, and where it resumes.
    FreeScanner {
        /// Up to 3.13: it empties whole pageblocks and resumes at the highest one that gave something.
        FromHighest = "from_highest",
        /// 3.14 to 3.18: it empties whole pageblocks and resumes at the last one.
        FromLast = "from_last",
        /// 3.19 and 4.0: it empties whole pageblocks and resumes below the last one.
        BelowLast = "below_last",
        /// From 4.1: it stops inside a pageblock once it has enough, and resumes there.
        AsNeeded = "as_needed",
    }
    /// The watermark that must hold for compaction to take a free block.
    IsolateMark {
        /// Up to 4.0: the low watermark plus the block, CMA pages not counted.
        Low = "low",
        /// From 4.1 here (Linux: from 4.9): the minimum plus the block, CMA pages counted.
        Min = "min",
    }
    /// When the two scanners have met.
    Meeting {
        /// Up to 4.0: at the same frame.
        ByFrame = "by_frame",
        /// From 4.1: in the same pageblock.
        ByPageblock = "by_pageblock",
    }
    /// The watermark that must hold before compaction ends with success.
    FinishMark {
        /// Up to 3.18: the low watermark plus the block, whatever the request may use.
        ZoneLow = "zone_low",
        /// 3.19 and 4.0: the low watermark, as the request sees it.
        RequestLow = "request_low",
        /// 4.1 to 4.7: the low watermark plus the block, as the request sees it.
        RequestLowAndBlock = "request_low_and_block",
        /// From 4.8: none.
        Off = "off",
    }
    /// Which free block ends compaction with success.
    FinishBlock {
        /// Up to 4.0: one on the list of the request's type.
        OwnList = "own_list",
        /// From 4.1 (2149cdaef6c0): also one of another type that the request could claim.
        Claimable = "claimable",
    }
    /// When compaction frees its CPU's lists, so that what it emptied merges.
    DrainLists {
        /// Up to 3.18: once, at the end.
        AtEnd = "at_end",
        /// From 3.19: whenever the migration scanner has passed a block of the order.
        AsItGoes = "as_it_goes",
    }
    /// Which pageblock the last batch of content is remembered for.
    LastMigrated {
        /// Up to 5.0: that where a batch began of which something was moved.
        Moved = "moved",
        /// 5.1 to 6.5: that where the last batch began.
        Start = "start",
        /// From 6.6: that where the last batch ended.
        Block = "block",
    }
    /// What follows when a page cannot be moved.
    AfterFailure {
        /// Up to 4.6: the scanner goes on.
        GoOn = "go_on",
        /// 4.7 to 6.5 (fdd048e12c9a): an asynchronous task goes on with the next block of its order.
        NextBlock = "next_block",
        /// From 6.6: the rest of the pageblock is moved all the same, so that no search leads here again.
        FinishPageblock = "finish_pageblock",
    }
    /// What ends compaction when the free scanner finds nothing to move to.
    WithoutRoom {
        /// Up to 3.13: it ends.
        Ends = "ends",
        /// From 3.14: it ends unless the scanners have met, which is an ordinary end.
        EndsUnlessMet = "ends_unless_met",
    }
    /// What a skip hint says of a pageblock.
    SkipHints {
        /// Up to 5.0: nothing was found in it. All hints are forgotten together.
        NothingFound = "nothing_found",
        /// 5.1 to 6.5: it was visited, from its first frame on. Only hints of pageblocks that a sample shows to be
        /// worthwhile are forgotten.
        FirstFrame = "first_frame",
        /// From 6.6: the same, for any visit that began at the start of the pageblock.
        FromStart = "from_start",
    }
    /// What happens to a pageblock that a search of the free lists led the migration scanner to.
    SearchedBlock {
        /// 5.1 to 6.5: the hint that the search leaves makes the scanner skip it.
        Skipped = "skipped",
        /// From 6.6 (7efc3b726103): it is scanned.
        Scanned = "scanned",
    }
    /// When a pageblock is marked as full after a search took pages around a free block.
    AroundHint {
        /// 5.1 to 6.5: when it gave less than was wanted.
        Short = "short",
        /// From 6.6: when it was scanned to its end.
        AtEnd = "at_end",
    }
    /// Whether a zone should be compacted (`compaction_suitable`).
    Suitability {
        /// Up to 3.18: by the low watermark of the zone, whatever the request may use.
        Zone = "zone",
        /// 3.19 to 4.3: the request's watermark is checked last, by the fragmentation index.
        IndexFirst = "index_first",
        /// 4.4 to 4.7: the request's watermark is checked first.
        RequestFirst = "request_first",
        /// From 4.8: the same; the minimum watermark is enough for orders up to 3.
        MinForCheap = "min_for_cheap",
    }
    /// What remembers that compaction failed.
    Deferral {
        /// Up to 3.17: the preferred zone, for all zones of the request.
        PreferredZone = "preferred_zone",
        /// From 3.18: each zone for itself.
        EachZone = "each_zone",
    }
    /// When direct compaction does not go on to the next zone.
    DirectEnd {
        /// Up to 3.17: when the zone meets its low watermark for the order.
        LowWatermark = "low_watermark",
        /// From 3.18: when compaction of the zone succeeded.
        Success = "success",
    }
    /// When direct compaction counts as a stall (`compact_stall`).
    StallCount {
        /// Up to 3.18: when it begins, also if too little is free to compact.
        OnEntry = "on_entry",
        /// From 3.19: when some zone was compacted.
        WhenTried = "when_tried",
    }
    /// Which pageblocks an asynchronous direct compaction empties.
    AsyncSource {
        /// Up to 4.11: movable ones.
        Movable = "movable",
        /// From 4.12: those of the request's own type.
        OwnType = "own_type",
    }
    /// Which free blocks compaction does not move content to.
    CompactTarget {
        /// 3.10: none is too large.
        AcceptLarge = "accept_large",
        /// Up to 6.7: those of the pageblock order.
        RejectPageblock = "reject_pageblock",
        /// From 6.8: those of the wanted order.
        RejectOrder = "reject_order",
    }
    /// For which orders the fragmentation index decides whether to compact.
    ExtfragIndex {
        /// Up to 4.8.
        AllOrders = "all_orders",
        /// From 4.9.
        Costly = "costly",
    }
    /// How vmstat counts the scanners' work (`compact_migrate_scanned`, `compact_free_scanned`).
    CompactCounts {
        /// Up to 5.19: visits.
        Looks = "looks",
        /// 6.0 to 6.3: visits, and every page of the free blocks taken.
        Taken = "taken",
        /// From 6.4 (56d48d8dbefb): every page, also of the blocks skipped as a whole.
        Pages = "pages",
    }
}

group! {
    /// compaction of a zone (mm/compaction.c)
    compaction: Compaction
    choice {
        /// How the migration scanner goes through a pageblock.
        migration_scanner: MigrationScanner = MigrationScanner::ByFrame,
        /// How the free scanner goes through pageblocks.
        free_scanner: FreeScanner = FreeScanner::FromHighest,
        /// The free scanner's saved position goes back up to pages that were not used.
        /// From 3.19.
        free_scanner_goes_back: bool = false,
        /// The free scanner stops where the watermark does not let it take more.
        /// From 4.8 (a4f04f2c6955); before, it goes on to the end without taking anything.
        free_scanner_stops: bool = false,
        /// The watermark for taking a free block.
        isolate_mark: IsolateMark = IsolateMark::Low,
        /// When the scanners have met.
        meeting: Meeting = Meeting::ByFrame,
        /// Scanners that met start at the zone's ends the next time.
        /// From 3.14 (55b7c4c99f6a); before, they stay where they met until kswapd sleeps.
        restart_after_meeting: bool = false,
        /// Saved positions are reset before they are read, when compaction restarts after failures.
        /// From 3.14.
        reset_before_read: bool = false,
        /// The watermark for success.
        finish_mark: FinishMark = FinishMark::ZoneLow,
        /// The free block for success.
        finish_block: FinishBlock = FinishBlock::OwnList,
        /// Compaction stops only between pageblocks.
        /// From 5.1.
        finish_pageblock: bool = false,
        /// On a second visit all the rest of a pageblock is isolated at once.
        /// From 5.1.
        take_rest: bool = false,
        /// Which pageblock the last batch is remembered for.
        last_migrated: LastMigrated = LastMigrated::Moved,
        /// What follows a page that cannot be moved.
        after_failure: AfterFailure = AfterFailure::GoOn,
        /// A free page taken for content that could not be moved is kept for other content.
        /// From 3.16 (68711a746345); before, it is freed.
        keep_target: bool = false,
        /// What the free scanner's failure ends.
        without_room: WithoutRoom = WithoutRoom::Ends,
        /// The page for which no room was found counts as failed.
        /// From 4.7 (dfef2ef4027b).
        no_room_counts: bool = false,
        /// When CPU lists are drained.
        drain_lists: DrainLists = DrainLists::AtEnd,
        /// An asynchronous compaction marks unmovable pageblocks as skipped for synchronous ones too.
        /// Up to 3.13 (50b5b094e683).
        async_hides: bool = true,
        /// What skip hints say.
        skip_hints: SkipHints = SkipHints::NothingFound,
        /// The asynchronous and the synchronous position of the migration scanner advance together over pageblocks
        /// without content.
        /// From 5.1.
        positions_in_step: bool = false,
        /// The free lists are searched for room, and for nearly empty pageblocks.
        /// From 5.1 (70b44595eafe, 5a811889de10).
        fast_search: bool = false,
        /// The free scanner samples pageblocks after one without room.
        /// From 5.1 (4fca9730c51d).
        sampling: bool = false,
        /// What happens to a pageblock that a search found.
        searched_block: SearchedBlock = SearchedBlock::Skipped,
        /// A search without result falls back to the middle of the range only if content may go there.
        /// From 6.6 here.
        middle_must_fit: bool = false,
        /// When a pageblock counts as full after a search.
        around_hint: AroundHint = AroundHint::Short,
        /// Whether a zone should be compacted.
        suitability: Suitability = Suitability::Zone,
        /// What remembers failures.
        deferral: Deferral = Deferral::PreferredZone,
        /// When direct compaction ends.
        direct_end: DirectEnd = DirectEnd::LowWatermark,
        /// When direct compaction counts as a stall.
        stall_count: StallCount = StallCount::OnEntry,
        /// Direct compaction needs a request that may enter file systems.
        /// Up to 4.0 here (Linux: 4.9).
        needs_fs: bool = true,
        /// Light synchronous compaction takes pages that it has to wait for.
        /// Up to 4.7 here.
        sync_light_waits: bool = true,
        /// Which pageblocks asynchronous direct compaction empties.
        async_source: AsyncSource = AsyncSource::Movable,
        /// Free blocks that content is not moved to.
        compact_target: CompactTarget = CompactTarget::AcceptLarge,
        /// Orders for which the fragmentation index decides.
        extfrag_index: ExtfragIndex = ExtfragIndex::AllOrders,
        /// How the scanners' work is counted.
        compact_counts: CompactCounts = CompactCounts::Looks,
    }
    number {}
}
