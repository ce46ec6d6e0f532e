//! The switches: each with its values, what kernels did and from which release on, and the value of 3.10.

switches! {
    /// the page allocator (mm/page_alloc.c)
    #[non_exhaustive]
    allocator: Policy
    choice {
        /// What is kept back for requests that must not fail.
        reserve: Reserve {
            /// Up to 4.3: up to two blocks a zone, the last fallback.
            MigrateReserve = "migrate_reserve",
            /// 4.4 to 6.7: blocks are reserved as high-order atomic requests come; at most 1 % of the zone and a block.
            Highatomic = "highatomic",
            /// From 6.8: none where 1 % is less than a block, else 1 % rounded up to blocks.
            HighatomicRounded = "highatomic_rounded",
            /// 7.2: an empty CPU list sends the request to the zone, where the reserve is tried first.
            HighatomicFirst = "highatomic_first",
            /// From 7.3: only requests below the low watermark reserve.
            HighatomicBelowLow = "highatomic_below_low",
            /// Nothing: for embedders ([`Policy::default`]).
            Off = "off",
        } = Reserve::MigrateReserve,
        /// Distance between the watermarks.
        wmark_gap: WmarkGap {
            /// Up to 4.5: a quarter and a half of the minimum.
            Quarter = "quarter",
            /// From 4.6: at least `watermark_scale_factor` of the zone.
            Scale = "scale",
            /// None, and `min_free_kbytes` is what it says, 0 too. Before a request fails, the CPU drains its own lists if they hold as many pages.
            /// For embedders, who reclaim nothing ([`Policy::default`]).
            None = "none",
        } = WmarkGap::Quarter,
        /// How a watermark check treats orders and reserves.
        wmark_check: WmarkCheck {
            /// Up to 4.3: the demand halves with each order.
            HalvePerOrder = "halve_per_order",
            /// 4.4 to 6.2: some list must hold a large enough block.
            ListExists = "list_exists",
            /// From 6.3: reserve flags combine in sequence.
            FlagsCombine = "flags_combine",
            /// From 6.13 (and in 6.12.y): only free highatomic pages are subtracted, not all reserved ones.
            FreeHighatomic = "free_highatomic",
        } = WmarkCheck::HalvePerOrder,
        // `zone_watermark_fast`, before the full check.
        /// The quick check for order 0.
        wmark_fast: WmarkFast {
            /// Up to 4.6: none.
            Off = "off",
            /// 4.7 to 5.9: CMA pages are subtracted.
            Cma = "cma",
            /// From 5.10: all unusable pages are subtracted; boosted zones are retried without the boost.
            Unusable = "unusable",
        } = WmarkFast::Off,
        /// Whether movable zones share in min_free_kbytes.
        movable_wmark: MovableWmark {
            /// Up to 6.5.
            Shared = "shared",
            /// From 6.6: they get a small fixed minimum, as high memory does.
            Small = "small",
        } = MovableWmark::Shared,
        /// Watermark boost after a fragmenting fallback.
        boost: Boost {
            /// Up to 4.20.
            Off = "off",
            /// 5.0 to 5.6: in every zone.
            EveryZone = "every_zone",
            /// 5.7 to 5.10: not in zones smaller than four pageblocks.
            LargeZones = "large_zones",
            /// From 5.11 (and in 5.10.y): kswapd is woken only if the boost happened.
            WakeIfBoosted = "wake_if_boosted",
        } = Boost::Off,
        /// Spreading over zones before fragmenting one.
        nofragment: Nofragment {
            /// Up to 5.0.
            Off = "off",
            /// From 5.1: the fast path first takes no part of a block of another type.
            On = "on",
            /// `vm.defrag_mode` of 6.15 and later: for every request, in the slow path too.
            DefragMode = "defrag_mode",
        } = Nofragment::Off,
        /// The fair zone allocator.
        fair: Fair {
            /// Before 3.12 and from 4.8.
            Off = "off",
            /// 3.12: batches of all zones, reset in the slow path.
            AllZones = "all_zones",
            /// 3.13 and 3.14: only among the zones of the local node.
            LocalNode = "local_node",
            /// 3.15 and 3.16: a fair pass, then one without.
            FairPass = "fair_pass",
            /// 3.17 to 4.7: a flag marks spent zones.
            SpentFlag = "spent_flag",
        } = Fair::Off,
        /// Passing over nodes whose kswapd runs.
        skip_active_node: SkipActiveNode {
            /// Up to 6.17.
            Off = "off",
            /// From 6.18.
            On = "on",
        } = SkipActiveNode::Off,
        /// Growth of CPU lists stops under the high watermark.
        below_high: BelowHigh {
            /// Up to 6.6.
            Off = "off",
            /// From 6.7.
            On = "on",
        } = BelowHigh::Off,
        /// When movable requests use CMA blocks.
        cma: CmaUse {
            /// Up to 4.0: the first candidate of the fallback.
            InFallback = "in_fallback",
            /// 4.1 to 5.6: before the fallback.
            BeforeFallback = "before_fallback",
            /// From 5.7: before all else when they are over half of what is free.
            HalfRule = "half_rule",
            /// Before all else, always: phone vendors' kernels.
            First = "first",
        } = CmaUse::InFallback,
        /// Which block of another type a fallback takes.
        fallback_pick: FallbackPick {
            /// Up to 4.12: the largest.
            Largest = "largest",
            /// The smallest that serves.
            Smallest = "smallest",
            /// 4.13 to 6.14: the largest; the smallest for movable requests that cannot claim the block.
            LargestThenSmallestM = "largest_then_smallest_m",
            /// From 6.15: claim from the largest down, else steal from the smallest up.
            ClaimThenSteal = "claim_then_steal",
            /// ChengYi He, 2015: the largest, but the smallest if none is over `hybrid_threshold`.
            Hybrid = "hybrid",
        } = FallbackPick::Largest,
        /// What a fallback does with the pageblock and the remainder.
        claim_rule: ClaimRule {
            /// 3.10: free pages of the block move; the rest goes to the requested type. The event prints the new type.
            RestTakenEventAfter = "rest_taken_event_after",
            /// 3.12: the rest always goes to the requested type.
            RestTaken = "rest_taken",
            /// 3.13 to 3.19: the rest stays with its type unless the block was claimed.
            RestStays = "rest_stays",
            /// 3.19.y: the rest follows the moved pages.
            RestFollows = "rest_follows",
            /// 4.0 to 4.11: the rest always goes to the requested type.
            RestTakenByBlock = "rest_taken_by_block",
            /// 4.12 to 6.9: compatible allocated pages count towards the half; moved pages are then split smallest first.
            CompatibleCounts = "compatible_counts",
            /// From 6.10: the type of a list is always the type of its blocks; nothing moves without a claim.
            TypesAgree = "types_agree",
        } = ClaimRule::RestTakenEventAfter,
        /// Which fallbacks try to claim the pageblock.
        claim_pred: ClaimPred {
            /// Up to 3.19: at least half the pageblock order, or a reclaimable request.
            Reclaimable = "reclaimable",
            /// From 4.0: or an unmovable request.
            Kernel = "kernel",
        } = ClaimPred::Reclaimable,
        /// Orders that have CPU lists.
        pcp_orders: PcpOrders {
            /// Up to 5.13: order 0.
            Order0 = "0",
            /// From 5.14: orders 0 to 3 and the pageblock order.
            CostlyAndThp = "0-3+thp",
        } = PcpOrders::Order0,
        /// What follows a CPU list that could not be refilled.
        pcp_empty: PcpEmpty {
            /// Up to 6.0: the attempt fails.
            Fails = "fails",
            /// From 6.1: it goes on to the zone, as it does where the trylock of the CPU lists fails.
            Zone = "zone",
        } = PcpEmpty::Fails,
        /// What mm_page_alloc_zone_locked prints.
        trace_refill: TraceRefill {
            /// Up to 5.17: the requested type, and whether the order is 0.
            Request = "request",
            /// From 5.18: the type of the list, and whether the order has a CPU list.
            List = "list",
        } = TraceRefill::Request,
        /// CPU lists for the pageblock order.
        pcp_thp_lists: PcpThpLists {
            /// 5.14 to 5.19: one a type.
            Three = "three",
            /// 6.0 to 6.9: one.
            One = "one",
            /// From 6.10: movable, and all others.
            Two = "two",
        } = PcpThpLists::Three,
        /// How large CPU lists grow.
        pcp_high: PcpHigh {
            /// Up to 5.13: six batches.
            SixBatch = "six_batch",
            /// 5.14 to 6.6: the low watermark shared by the CPUs.
            LowWmark = "low_wmark",
            /// From 6.7: tuned between that and an eighth of the zone shared by the CPUs.
            Autotune = "autotune",
        } = PcpHigh::SixBatch,
        /// How much CPU lists give back at a time.
        pcp_free: PcpFree {
            /// Up to 5.13: a batch.
            Batch = "batch",
            /// 5.14 to 5.17: doubled with each consecutive time.
            FreeFactor = "free_factor",
            /// 5.18 to 6.6: freeing high orders in a row empties the lists.
            FreeHigh = "free_high",
            /// The same with `pcp_batch_scale_max` as the limit of the doubling: 6.1 as Debian ships it.
            FreeHighScaled = "free_high_scaled",
            /// 6.7 to 6.15: as many as were freed in a row.
            FreeCount = "free_count",
            /// 6.16 to 6.18: high orders in a row empty the lists only past half of the minimum.
            FreeCountPastMin = "free_count_past_min",
            /// From 6.19: a batch at a time, each rounded up to whole blocks.
            FreeCountWholeBlocks = "free_count_whole_blocks",
        } = PcpFree::Batch,
        /// The type that a drained page is freed to.
        pcp_type: PcpType {
            /// Up to 6.9: the type that the block had when the page came to the list.
            Cached = "cached",
            /// From 6.10: the type at the drain.
            Reread = "reread",
        } = PcpType::Cached,
        /// Order in which CPU lists are drained.
        pcp_bulk: PcpBulk {
            /// Up to 5.17: in turn, more pages from the list after empty ones.
            RoundRobin = "round_robin",
            /// From 5.18: the freed list first, each emptied before the next.
            WholeLists = "whole_lists",
        } = PcpBulk::RoundRobin,
        /// Batch size of CPU lists.
        pcp_batch: PcpBatch {
            /// Up to 4.18: a quarter of 512 KiB at most.
            K512 = "k512",
            /// From 4.19: a quarter of 1 MiB at most.
            M1 = "m1",
        } = PcpBatch::K512,
        /// Free pages of a pageblock that changes type outside a fallback.
        retype: Retype {
            /// Up to 6.9: they are moved apart from it, or stay on their list.
            Apart = "apart",
            /// From 6.10: they move with it; a pageblock that a zone's end cuts keeps its type.
            Together = "together",
        } = Retype::Apart,
        /// How a pageblock is isolated.
        isolation: Isolation {
            /// Up to 6.9: free blocks larger than a pageblock are isolated whole, with all pageblocks that they reach.
            WholeBlocks = "whole_blocks",
            /// From 6.10: free blocks are split at its ends.
            Split = "split",
        } = Isolation::WholeBlocks,
        /// Which blocks merge.
        merge_rule: MergeRule {
            /// Up to 3.17: all.
            Free = "free",
            /// 3.18 to 4.5: up to a pageblock when the freed page's block is isolated.
            FreedIsolated = "freed_isolated",
            /// 4.6 to 5.17 (and in 4.4.y): not past a pageblock when one of the two is isolated.
            EitherIsolated = "either_isolated",
            /// 5.18 to 6.9: nor when one of them is highatomic or CMA.
            Mergeable = "mergeable",
            /// 6.10 to 6.18: the buddy's first block takes the type of the freed page; all of them where placement is packed.
            Retype = "retype",
            /// From 6.19: all blocks of the buddy do.
            RetypeAll = "retype_all",
        } = MergeRule::Free,
        /// End of the new list for a block that changes type.
        move_to: MoveTo {
            /// Up to 5.9.
            Head = "head",
            /// From 5.10.
            Tail = "tail",
        } = MoveTo::Head,
        // `FPI_TO_TAIL`.
        /// End of the list for pages that were never used.
        untouched_to: UntouchedTo {
            /// Up to 5.9: as any other.
            Head = "head",
            /// From 5.10.
            Tail = "tail",
        } = UntouchedTo::Head,
        /// Compaction keeps what it freed.
        capture: Capture {
            /// Up to 5.0.
            Off = "off",
            /// 5.1 to 6.9: not from a movable block below the pageblock order.
            NotMovable = "not_movable",
            /// 6.10 to 6.14: from a movable block if the request is movable.
            IfMovable = "if_movable",
            /// From 6.15: reported as an extfrag event.
            IfMovableReported = "if_movable_reported",
        } = Capture::Off,
        /// Blocks over the pageblock order are freed in pieces.
        split_large: SplitLarge {
            /// Up to 6.11.
            Off = "off",
            /// From 6.12.
            On = "on",
        } = SplitLarge::Off,
        /// Which free block serves a request.
        placement: Placement {
            /// Every Linux: the head of the list of the smallest order.
            Linux = "linux",
            /// No Linux: from the fullest pageblock, so that others become free as a whole.
            Packed = "packed",
        } = Placement::Linux,
        /// Order of attempts in the slow path.
        slowpath: Slowpath {
            /// Up to 4.7: compaction before reclaim in every round, without a bound.
            CompactEachRound = "compact_each_round",
            /// 4.8 to 7.1: compaction once before the loop; rounds are bounded, and compaction has priorities.
            Priorities = "priorities",
            /// From 7.2: the same in one loop, whose first round may do without reclaim.
            OneLoop = "one_loop",
        } = Slowpath::CompactEachRound,
        /// When a huge page is given up after compaction (order of attempts up to 4.7).
        thp_contended: ThpContended {
            /// Up to 3.15: when compaction was deferred or contended, if it may not wake kswapd.
            Any = "any",
            /// From 3.16: only contention that concerns the task counts, and only for huge pages.
            ByTask = "by_task",
        } = ThpContended::Any,
        /// Whether a page fault compacts synchronously for a huge page (order of attempts up to 4.7).
        thp_waits: ThpWaits {
            /// From 3.16.
            Off = "off",
            /// Up to 3.15.
            On = "on",
        } = ThpWaits::On,
        /// Whether another round wakes kswapd again (order of attempts up to 4.7).
        retry_wakes: RetryWakes {
            /// Up to 4.3, but after the OOM killer.
            Off = "off",
            /// From 4.4.
            On = "on",
        } = RetryWakes::Off,
        /// Which requests reach the OOM killer (order of attempts up to 4.7).
        oom_reach: OomReach {
            /// Up to 4.3: those that may enter file systems, when nothing was reclaimed.
            WithFs = "with_fs",
            /// From 4.4: all that make no progress.
            WithoutProgress = "without_progress",
        } = OomReach::WithFs,
        /// What the OOM killer does for requests that may not enter file systems.
        oom_without_fs: OomWithoutFs {
            /// Up to 4.3: it kills.
            Kills = "kills",
            /// From 4.4: nothing, and the request counts as progressing, as others can reclaim more.
            Progresses = "progresses",
        } = OomWithoutFs::Kills,
        /// All reserves for requests that may not fail, after the OOM killer.
        nofail_reserve: NofailReserve {
            /// Up to 4.3.
            Off = "off",
            /// From 4.4.
            On = "on",
        } = NofailReserve::Off,
        /// Requests that may not fail invoke the OOM killer whatever they are.
        nofail_kills: NofailKills {
            /// From 4.12.
            Off = "off",
            /// Up to 4.11.
            On = "on",
        } = NofailKills::On,
        /// __GFP_RETRY_MAYFAIL keeps from the OOM killer.
        oom_spares_mayfail: OomSparesMayfail {
            /// Up to 4.7.
            Off = "off",
            /// From 4.8 here (Linux: 4.13).
            On = "on",
        } = OomSparesMayfail::Off,
        /// Which requests compact before they reclaim (order of attempts from 4.8).
        compact_first: CompactFirst {
            /// 4.8 to 4.11: those of costly orders.
            Costly = "costly",
            /// From 4.12: also those of other orders that are not movable.
            KernelBlocks = "kernel_blocks",
        } = CompactFirst::Costly,
        /// Light retries give up after compaction was skipped (order of attempts from 4.8).
        skipped_gives_up: SkippedGivesUp {
            /// Up to 4.11.
            Off = "off",
            /// From 4.12 here (Linux: 5.10).
            On = "on",
        } = SkippedGivesUp::Off,
        /// Requests that may not do I/O and so cannot compact (order of attempts from 4.8).
        without_io: WithoutIo {
            /// Up to 6.8: they are treated as others; without a check against an endless loop of costly ones.
            AsOthers = "as_others",
            /// From 6.9 (803de9000f33; also in 6.1.y): they do not begin with compaction, and costly ones do not retry.
            NoCompaction = "no_compaction",
        } = WithoutIo::AsOthers,
        /// After which direct compactions a request tries the free lists again, which counts as a stall.
        compact_try: CompactTry {
            /// Up to 5.0, and in 7.2: those that were neither skipped nor deferred.
            WhenCompacted = "when_compacted",
            /// 5.1 to 5.12 (e05741fb10c3): all.
            Always = "always",
            /// 5.13 (06dac2f467fe) to 7.0: those that were not skipped.
            UnlessSkipped = "unless_skipped",
        } = CompactTry::WhenCompacted,
        // With `__GFP_NORETRY`, as the first attempt at a huge page is.
        /// A request for one node gives up after compaction failed (order of attempts from 4.8).
        thisnode_gives_up: ThisnodeGivesUp {
            /// Up to 6.18: it reclaims once.
            Off = "off",
            /// From 6.19 (9c9828d3ead6; also in 5.10.y, 6.1.y, 6.12.y, 6.18.y): it does not reclaim.
            On = "on",
        } = ThisnodeGivesUp::Off,
        /// The last highatomic block is given back before reclaim is given up (order of attempts from 4.8).
        force_unreserve: ForceUnreserve {
            /// Up to 4.8; here up to 4.11.
            Off = "off",
            /// From 4.9; here from 4.12.
            On = "on",
        } = ForceUnreserve::Off,
        /// The reserves of an OOM victim.
        oom_reserve: OomReserve {
            /// Up to 4.13; here up to 4.11: all.
            All = "all",
            /// From 4.14; here from 4.12: half of the minimum.
            Half = "half",
        } = OomReserve::All,
        /// Which requests may use the highatomic reserve in the slow path.
        highatomic_high: HighatomicHigh {
            /// Up to 6.14: all of an order above 0.
            All = "all",
            /// From 6.15 here: those with `__GFP_HIGH`.
            WithHigh = "with_high",
        } = HighatomicHigh::All,
        /// Whole pageblocks as the aim of reclaim under vm.defrag_mode.
        defrag_blocks: DefragBlocks {
            /// Up to 7.2.
            Off = "off",
            /// From 7.3 and in 7.2.13: of requests that are not movable.
            On = "on",
            /// No Linux: of all requests (Weiner, 26 June 2026).
            All = "all",
        } = DefragBlocks::Off,
        /// What a request does under vm.defrag_mode that found no whole pageblock.
        defrag_last: DefragLast {
            /// From 6.15: it splits blocks of other types.
            Splits = "splits",
            /// Announced in e3aa7df331bc as vm.defrag_mode=2: it fails, or calls the OOM killer.
            Fails = "fails",
        } = DefragLast::Splits,
        /// Retries of requests that work for whole pageblocks.
        defrag_retries: DefragRetries {
            /// In 7.2.13 (and 7.3-rc7): those of the requested order.
            Request = "request",
            /// From 7.3: no progress counts, order 0 compacts again, and skipped compaction allows others, with new counts.
            Block = "block",
        } = DefragRetries::Request,
    }
    number {
        /// Largest order for which `hybrid` takes the smallest block.
        hybrid_threshold: 0..=14 = 3,
        /// vm.min_free_kbytes; 0 computes it from the size of memory.
        min_free_kbytes: 0..=1073741824 = 0,
        /// Largest computed min_free_kbytes.
        min_free_kbytes_max: 128..=262144 = 65536,
        /// vm.extra_free_kbytes of Android's kernels: how much higher kswapd starts and stops.
        extra_free_kbytes: 0..=1073741824 = 0,
        /// vm.watermark_scale_factor, in 1/10000 of the zone.
        watermark_scale_factor: 1..=3000 = 10,
        /// vm.watermark_boost_factor, in 1/10000 of the high watermark; 0 is off.
        watermark_boost_factor: 0..=1000000 = 15000,
        /// vm.percpu_pagelist_high_fraction (percpu_pagelist_fraction up to 5.13); 0 is off.
        percpu_pagelist_high_fraction: 0..=1000000 = 0,
        /// CONFIG_PCP_BATCH_SCALE_MAX: how often a batch may double.
        pcp_batch_scale_max: 0..=6 = 5,
        /// vm.zone_reclaim_mode: 1 zone, 2 write, 4 unmap.
        zone_reclaim_mode: 0..=7 = 0,
        /// Share of a pageblock, free or of the request's kind, from which a fallback claims it, in percent.
        claim_share: 0..=100 = 50,
        /// Least order of a block by which an unmovable request claims the pageblock; 15: as `claim_pred` says.
        claim_order_unmovable: 0..=15 = 15,
        /// Least order of a block by which a movable request claims the pageblock; 15: as `claim_pred` says.
        claim_order_movable: 0..=15 = 15,
        /// Least order of a block by which a reclaimable request claims the pageblock; 15: as `claim_pred` says.
        claim_order_reclaimable: 0..=15 = 15,
        /// Pageblocks by which a fallback of an unmovable request raises the boost; 0 is off.
        boost_unmovable: 0..=64 = 1,
        /// Pageblocks by which a fallback of a movable request raises the boost; 0 is off.
        boost_movable: 0..=64 = 1,
        /// Pageblocks by which a fallback of a reclaimable request raises the boost; 0 is off.
        boost_reclaimable: 0..=64 = 1,
        /// Blocks that a refill of CPU lists of order 0 takes, in percent of Linux's number.
        pcp_refill_0: 1..=1000 = 100,
        /// Blocks that a refill of CPU lists of order 1 takes, in percent of Linux's number.
        pcp_refill_1: 1..=1000 = 100,
        /// Blocks that a refill of CPU lists of order 2 takes, in percent of Linux's number.
        pcp_refill_2: 1..=1000 = 100,
        /// Blocks that a refill of CPU lists of order 3 takes, in percent of Linux's number.
        pcp_refill_3: 1..=1000 = 100,
        /// Blocks that a refill of CPU lists of the pageblock order takes, in percent of Linux's number.
        pcp_refill_thp: 1..=1000 = 100,
        /// Pages that the lists of a CPU may hold, in percent of Linux's number.
        pcp_high_share: 1..=1000 = 100,
        /// Rounds of reclaim without progress before a request gives up (order of attempts from 4.8).
        reclaim_retries: 0..=1000 = 16,
        /// Rounds of compaction with progress before a request gives up; a quarter for costly orders.
        compact_retries: 0..=1000 = 16,
    }
}
