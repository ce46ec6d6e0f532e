//! Kernel versions as rows of a table: what changed around the allocator since the row before.
//!
//! The allocator's own part of each row is in [`pageblock::preset`], under the same name.

use pageblock::preset as allocator;

use crate::rules::compaction::{
    AfterFailure, AroundHint, AsyncSource, CompactCounts, CompactGap, CompactTarget, Deferral,
    DirectEnd, DrainLists, ExtfragIndex, FinishBlock, FinishMark, FreeScanner, IsolateMark,
    LastMigrated, Meeting, MigrationScanner, ReadyMark, SearchedBlock, SkipHints, StallCount,
    Suitability, WithoutRoom,
};
use crate::rules::huge::{ThpDefrag, ThpPlacement};
use crate::rules::kcompactd::{Background, Proactive};
use crate::rules::kswapd::{
    CongestionBy, HintsForgotten, KswapdOrder, KswapdTarget, KswapdWaits, KswapdWake, KswapdWrites,
    NodeBalanced,
};
use crate::rules::reclaim::{
    AnonStart, FileBalance, LruLists, ReclaimUntil, ScanBalance, Workingset,
};
use crate::rules::shrinkers::ShrinkPressure;
use crate::rules::writeback::LogLimit;
use crate::{Kernel, Rules};

/// A named kernel.
#[derive(Debug)]
pub struct Preset {
    /// Its name, `linux-6.12`.
    pub name: &'static str,
    rules: Rules,
}

impl Preset {
    /// Returns a line with what distinguishes it.
    #[must_use]
    pub fn summary(&self) -> &'static str {
        self.allocator().summary
    }

    /// Returns the mainline version of its row; `None` for variants and distributions.
    #[must_use]
    pub fn version(&self) -> Option<(u32, u32)> {
        self.allocator().version()
    }

    /// Returns the resolved kernel.
    #[must_use]
    pub fn kernel(&self) -> Kernel {
        self.rules.around(self.allocator().policy)
    }

    fn allocator(&self) -> &'static allocator::Preset {
        // A test checks that the tables have the same names.
        allocator::find(self.name).expect("both tables have the same names")
    }
}

/// Returns the preset with this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|p| p.name == name)
}

macro_rules! presets {
    ($($row:ident = $name:literal, $base:expr, { $($group:ident { $($switch:ident: $value:expr,)* })* };)*) => {
        $(const $row: Rules = {
            #[allow(unused_mut)]
            let mut rules: Rules = $base;
            $($(rules.$group.$switch = $value;)*)*
            rules
        };)*

        /// Every preset: mainline, oldest first, then distributions.
        pub static PRESETS: &[Preset] = &[$(Preset { name: $name, rules: $row },)*];
    };
}

presets! {
    V3_10 = "linux-3.10", Rules::V3_10, {};
    V3_10_CHENG = "linux-3.10-cheng", V3_10, {};
    V3_11 = "linux-3.11", V3_10, {
        kswapd {
            kswapd_target: KswapdTarget::ZoneHigh,
            kswapd_writes: KswapdWrites::DirtyTail,
            kswapd_waits: KswapdWaits::Congestion,
        }
        reclaim { anon_counts_twice: true, }
        writeback { max_sectors_kb: 512, }
    };
    V3_12 = "linux-3.12", V3_11, {
        compaction { compact_target: CompactTarget::RejectPageblock, }
        kswapd { kswapd_wake: KswapdWake::ZoneBalanced, }
        huge { hugetlb_movable: true, }
    };
    V3_13 = "linux-3.13", V3_12, {};
    V3_16 = "linux-3.16", V3_13, {
        compaction {
            free_scanner: FreeScanner::FromLast,
            restart_after_meeting: true,
            reset_before_read: true,
            keep_target: true,
            without_room: WithoutRoom::EndsUnlessMet,
            async_hides: false,
        }
        reclaim { workingset: Workingset::Activates, }
        writeback { anon_dirtyable: false, }
    };
    V3_19 = "linux-3.19", V3_16, {
        compaction {
            migration_scanner: MigrationScanner::ByBlock,
            free_scanner: FreeScanner::BelowLast,
            free_scanner_goes_back: true,
            finish_mark: FinishMark::RequestLow,
            drain_lists: DrainLists::AsItGoes,
            suitability: Suitability::IndexFirst,
            deferral: Deferral::EachZone,
            direct_end: DirectEnd::Success,
            stall_count: StallCount::WhenTried,
        }
    };
    V4_2 = "linux-4.2", V3_19, {
        compaction {
            free_scanner: FreeScanner::AsNeeded,
            isolate_mark: IsolateMark::Min,
            meeting: Meeting::ByPageblock,
            finish_mark: FinishMark::RequestLowAndBlock,
            finish_block: FinishBlock::Claimable,
            needs_fs: false,
        }
        kswapd {
            balanced_if_compactable: false,
            kswapd_order: KswapdOrder::AsAsked,
            same_wake_ignored: false,
            hints_forgotten: HintsForgotten::BeforeNap,
            order_kept: true,
        }
    };
    V4_4 = "linux-4.4", V4_2, {
        compaction { suitability: Suitability::RequestFirst, }
        memory { slab_waits: false, }
    };
    V4_8 = "linux-4.8", V4_4, {
        compaction {
            after_failure: AfterFailure::NextBlock,
            no_room_counts: true,
            finish_mark: FinishMark::Off,
            suitability: Suitability::MinForCheap,
            sync_light_waits: false,
            free_scanner_stops: true,
        }
        kcompactd { kcompactd: Background::On, }
        kswapd {
            kswapd_wake: KswapdWake::AnyZone,
            node_balanced: NodeBalanced::AnyZone,
            kswapd_target: KswapdTarget::NodeHigh,
            kswapd_writes: KswapdWrites::Never,
            congestion_by: CongestionBy::Node,
        }
        reclaim {
            lru: LruLists::Node,
            file_balance: FileBalance::BySize,
            file_needs_share: true,
            tiny_file_needs_anon: true,
            used_counts_rotated: false,
            anon_counts_twice: false,
            writes_are_uses: false,
            workingset: Workingset::Deactivates,
        }
        writeback { max_sectors_kb: 1024, }
        memory { zsmalloc_movable: true, }
        huge { thp_defrag: ThpDefrag::Madvise, }
    };
    V4_9 = "linux-4.9", V4_8, {
        compaction { extfrag_index: ExtfragIndex::Costly, }
        memory { vmap_stack: true, }
    };
    V4_12 = "linux-4.12", V4_9, {
        compaction { async_source: AsyncSource::OwnType, }
        kswapd { hopeless_nodes: true, }
        reclaim { unwritten_activates: true, scans_eligible: true, }
    };
    V4_15 = "linux-4.15", V4_12, {
        memory { page_table_isolation: true, }
    };
    V4_19 = "linux-4.19", V4_15, {
        kcompactd { kcompactd_wake_if_balanced: true, }
        shrinkers { shrink_pressure: ShrinkPressure::Priority, slab_min_scan: true, }
    };
    V4_20 = "linux-4.20", V4_19, {
        shrinkers { keeps_inodes_with_pages: true, }
        huge { thp_placement: ThpPlacement::LocalUnlessReclaim, }
    };
    V5_0 = "linux-5.0", V4_20, {
        shrinkers { slab_min_scan: false, keeps_inodes_with_pages: false, }
        writeback { multi_queue: true, }
        huge { thp_placement: ThpPlacement::Local, }
    };
    V5_1 = "linux-5.1", V5_0, {
        compaction {
            finish_pageblock: true,
            take_rest: true,
            last_migrated: LastMigrated::Start,
            skip_hints: SkipHints::FirstFrame,
            positions_in_step: true,
            fast_search: true,
            sampling: true,
        }
    };
    V5_2 = "linux-5.2", V5_1, {};
    V5_4 = "linux-5.4", V5_2, {
        reclaim { reclaim_until: ReclaimUntil::Suitable, }
        huge { thp_placement: ThpPlacement::TwoSteps, hugetlb_remembers: true, }
    };
    V5_8 = "linux-5.8", V5_4, {
        reclaim {
            scan_balance: ScanBalance::Cost,
            anon_start: AnonStart::Inactive,
            refault_counts_anon: true,
        }
        writeback { log_limit: LogLimit::Capped, }
    };
    V5_10 = "linux-5.10", V5_8, {
        kcompactd { proactive: Proactive::TenBelow, }
    };
    V5_13 = "linux-5.13", V5_10, {};
    V5_14 = "linux-5.14", V5_13, {};
    V5_15 = "linux-5.15", V5_14, {};
    V5_17 = "linux-5.17", V5_15, {
        kswapd { kswapd_waits: KswapdWaits::Pages, }
    };
    V5_19 = "linux-5.19", V5_17, {};
    V6_1 = "linux-6.1", V5_19, {
        compaction { compact_counts: CompactCounts::Taken, }
    };
    V6_3 = "linux-6.3", V6_1, {
        memory { zsmalloc_chain: 8, }
    };
    V6_4 = "linux-6.4", V6_3, {
        compaction { compact_counts: CompactCounts::Pages, }
    };
    V6_6 = "linux-6.6", V6_4, {
        compaction {
            skip_hints: SkipHints::FromStart,
            after_failure: AfterFailure::FinishPageblock,
            last_migrated: LastMigrated::Block,
            searched_block: SearchedBlock::Scanned,
            middle_must_fit: true,
            around_hint: AroundHint::AtEnd,
        }
    };
    V6_7 = "linux-6.7", V6_6, {};
    V6_8 = "linux-6.8", V6_7, {
        compaction { compact_target: CompactTarget::RejectOrder, }
        memory { slab_exists: false, }
        huge { mthp: true, }
    };
    V6_9 = "linux-6.9", V6_8, {
        compaction { moves_folios: true, }
    };
    V6_10 = "linux-6.10", V6_9, {};
    V6_12 = "linux-6.12", V6_10, {};
    V6_13 = "linux-6.13", V6_12, {};
    V6_14 = "linux-6.14", V6_13, {};
    V6_15 = "linux-6.15", V6_14, {
        compaction { ready_mark: ReadyMark::HighAndDistance, }
        kcompactd { proactive: Proactive::HalfBelow, }
    };
    V6_17 = "linux-6.17", V6_15, {};
    V6_18 = "linux-6.18", V6_17, {};
    V6_19 = "linux-6.19", V6_18, {};
    V7_2 = "linux-7.2", V6_19, {
        compaction { compact_gap: CompactGap::Capped, async_source: AsyncSource::MovableForWhole, }
    };
    V7_3 = "linux-7.3", V7_2, {};
    DEBIAN_6_1 = "debian-6.1", V6_1, {};
    DEBIAN_6_12 = "debian-6.12", V6_12, {};
    DEBIAN_7_2 = "debian-7.2", V7_2, {};
}
