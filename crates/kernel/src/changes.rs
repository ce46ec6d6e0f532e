//! What changed around the allocator, by the kernel that brought it.
//!
//! The kernels are those of [`pageblock::preset`], where the allocator's own changes stand: a kernel that is not named here
//! changed nothing around it.

use pageblock::preset::Preset;

use crate::Kernel;
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
use crate::rules::memory::SlabCpu;
use crate::rules::mglru::{GenAgeing, GenBatch, GenType, GenUses};
use crate::rules::pagecache::{CacheFolios, RaOrder};
use crate::rules::reclaim::{
    AnonStart, FileBalance, LruLists, ReclaimUntil, ScanBalance, Workingset,
};
use crate::rules::scheduler::Scheduler;
use crate::rules::shrinkers::{CachedInodes, ShrinkPressure};
use crate::rules::writeback::LogLimit;

macro_rules! changes {
    ($($name:literal { $($group:ident { $($switch:ident: $value:expr,)* })* })*) => {
        /// What each kernel changed since the one that its row builds on, in the order of the rows.
        static CHANGES: &[(&str, fn(&mut Kernel))] =
            &[$(($name, |kernel| { $($(kernel.$group.$switch = $value;)*)* }),)*];
    };
}

changes! {
    "linux-3.11" {
        kswapd {
            kswapd_target: KswapdTarget::ZoneHigh,
            kswapd_writes: KswapdWrites::DirtyTail,
            kswapd_waits: KswapdWaits::Congestion,
        }
        reclaim { anon_counts_twice: true, }
        writeback { max_sectors_kb: 512, }
    }
    "linux-3.12" {
        compaction { compact_target: CompactTarget::RejectPageblock, }
        kswapd { kswapd_wake: KswapdWake::ZoneBalanced, }
        huge { hugetlb_movable: true, }
    }
    "linux-3.16" {
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
    }
    "linux-3.19" {
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
    }
    "linux-4.2" {
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
    }
    "linux-4.4" {
        compaction { suitability: Suitability::RequestFirst, }
        memory { slab_waits: false, }
    }
    "linux-4.8" {
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
    }
    "linux-4.9" {
        compaction { extfrag_index: ExtfragIndex::Costly, }
        memory { vmap_stack: true, }
    }
    "linux-4.12" {
        compaction { async_source: AsyncSource::OwnType, }
        kswapd { hopeless_nodes: true, }
        reclaim { unwritten_activates: true, scans_eligible: true, }
    }
    "linux-4.15" {
        memory { page_table_isolation: true, }
    }
    "linux-4.19" {
        kcompactd { kcompactd_wake_if_balanced: true, }
        shrinkers { shrink_pressure: ShrinkPressure::Priority, slab_min_scan: true, }
    }
    "linux-4.20" {
        shrinkers { cached_inodes: CachedInodes::PassedOver, }
        huge { thp_placement: ThpPlacement::LocalUnlessReclaim, }
    }
    "linux-5.0" {
        shrinkers { slab_min_scan: false, cached_inodes: CachedInodes::Freed, }
        writeback { multi_queue: true, }
        huge { thp_placement: ThpPlacement::Local, }
    }
    "linux-5.1" {
        compaction {
            finish_pageblock: true,
            take_rest: true,
            last_migrated: LastMigrated::Start,
            skip_hints: SkipHints::FirstFrame,
            positions_in_step: true,
            fast_search: true,
            sampling: true,
        }
    }
    "linux-5.4" {
        reclaim { reclaim_until: ReclaimUntil::Suitable, }
        huge { thp_placement: ThpPlacement::TwoSteps, hugetlb_remembers: true, }
    }
    "linux-5.8" {
        reclaim {
            scan_balance: ScanBalance::Io,
            anon_start: AnonStart::Inactive,
            anon_workingset: true,
            refault_counts_anon: true,
        }
        writeback { log_limit: LogLimit::Capped, }
    }
    "linux-5.10" {
        kcompactd { proactive: Proactive::TenBelow, }
    }
    "linux-5.17" {
        kswapd { kswapd_waits: KswapdWaits::Pages, }
        shrinkers { cached_inodes: CachedInodes::Unlisted, }
    }
    "linux-5.19" {
        pagecache { cache_folios: CacheFolios::Xfs, }
    }
    "linux-6.1" {
        compaction { compact_counts: CompactCounts::Taken, }
    }
    "linux-6.3" {
        reclaim { scan_balance: ScanBalance::Cost, }
        memory { zsmalloc_chain: 8, }
    }
    "linux-6.4" {
        compaction { compact_counts: CompactCounts::Pages, }
    }
    "linux-6.6" {
        compaction {
            skip_hints: SkipHints::FromStart,
            after_failure: AfterFailure::FinishPageblock,
            last_migrated: LastMigrated::Block,
            searched_block: SearchedBlock::Scanned,
            middle_must_fit: true,
            around_hint: AroundHint::AtEnd,
        }
        pagecache { write_folios: true, }
        scheduler { scheduler: Scheduler::Eevdf, }
    }
    "linux-6.8" {
        compaction { compact_target: CompactTarget::RejectOrder, }
        memory { slab_exists: false, }
        huge { mthp: true, }
    }
    "linux-6.9" {
        compaction { moves_folios: true, }
        pagecache { order_1_folios: true, }
    }
    "linux-6.12" {
        scheduler { scheduler: Scheduler::EevdfDelayed, }
    }
    "linux-6.14" {
        mglru {
            gen_uses: GenUses::Second,
            gen_ageing: GenAgeing::ByNumber,
            gen_type: GenType::Refaults,
        }
    }
    "linux-6.15" {
        compaction { ready_mark: ReadyMark::HighAndDistance, }
        kcompactd { proactive: Proactive::HalfBelow, }
    }
    "linux-6.17" {
        pagecache { cache_folios: CacheFolios::Ext4, ra_order: RaOrder::OfStream, }
    }
    "linux-7.0" {
        memory { slab_cpu: SlabCpu::Sheaves, }
    }
    "linux-7.2" {
        compaction { compact_gap: CompactGap::Capped, async_source: AsyncSource::MovableForWhole, }
        mglru { gen_batch: GenBatch::Counted, }
    }
    "linux-7.3" {
        reclaim { scan_balance: ScanBalance::Counters, }
    }
}

impl From<&Preset> for Kernel {
    fn from(preset: &Preset) -> Self {
        let mut kernel = preset.base.map_or(Self::V3_10, Self::from);
        if let Some((_, change)) = CHANGES.iter().find(|(name, _)| *name == preset.name) {
            change(&mut kernel);
        }
        kernel.allocator = preset.policy;
        kernel
    }
}

#[cfg(test)]
mod tests {
    use pageblock::preset::PRESETS;

    use super::CHANGES;

    #[test]
    fn changes_are_of_kernels_and_in_their_order() {
        let mut rows = PRESETS.iter().map(|preset| preset.name);
        for (name, _) in CHANGES {
            assert!(rows.any(|row| row == *name), "{name} is no preset, or not in order");
        }
    }
}
