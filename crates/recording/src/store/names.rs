//! The names in a table of events: of events and of migratetypes.

use pageblock::mobility::Migratetype;

/// The events of the page allocator and the recorder, in the order of `rows.rs`, then tracepoints that are kept
/// as text. An event that is not here is `other`. At most 128, and new ones at the end.
pub(crate) const EVENTS: &[&str] = &[
    "mm_page_alloc",
    "mm_page_free",
    "mm_page_free_batched",
    "mm_page_alloc_zone_locked",
    "mm_page_pcpu_drain",
    "mm_page_alloc_extfrag",
    "isolate_free_page",
    "alloc_pages_bulk",
    "marker",
    "other",
    "mm_compaction_begin",
    "mm_compaction_end",
    "mm_compaction_isolate_migratepages",
    "mm_compaction_isolate_freepages",
    "mm_compaction_fast_isolate_freepages",
    "mm_compaction_migratepages",
    "mm_compaction_try_to_compact_pages",
    "mm_compaction_finished",
    "mm_compaction_suitable",
    "mm_compaction_deferred",
    "mm_compaction_defer_compaction",
    "mm_compaction_defer_reset",
    "mm_compaction_kcompactd_sleep",
    "mm_compaction_kcompactd_wake",
    "mm_compaction_wakeup_kcompactd",
    "mm_vmscan_kswapd_sleep",
    "mm_vmscan_kswapd_wake",
    "mm_vmscan_wakeup_kswapd",
    "mm_vmscan_balance_pgdat_begin",
    "mm_vmscan_balance_pgdat_end",
    "mm_vmscan_kswapd_reclaim_fail",
    "mm_vmscan_kswapd_clear_hopeless",
    "mm_vmscan_direct_reclaim_begin",
    "mm_vmscan_direct_reclaim_end",
    "mm_vmscan_memcg_reclaim_begin",
    "mm_vmscan_memcg_reclaim_end",
    "mm_vmscan_memcg_softlimit_reclaim_begin",
    "mm_vmscan_memcg_softlimit_reclaim_end",
    "mm_vmscan_memcg_isolate",
    "mm_vmscan_lru_isolate",
    "mm_vmscan_lru_shrink_inactive",
    "mm_vmscan_lru_shrink_active",
    "mm_vmscan_inactive_list_is_low",
    "mm_vmscan_node_reclaim_begin",
    "mm_vmscan_node_reclaim_end",
    "mm_vmscan_reclaim_pages",
    "mm_vmscan_throttled",
    "mm_vmscan_writepage",
    "mm_vmscan_write_folio",
    "mm_shrink_slab_start",
    "mm_shrink_slab_end",
    "mm_migrate_pages",
    "mm_migrate_pages_start",
    "set_migration_pte",
    "remove_migration_pte",
    "set_migration_pmd",
    "remove_migration_pmd",
    "mm_collapse_huge_page",
    "mm_collapse_huge_page_isolate",
    "mm_collapse_huge_page_swapin",
    "mm_khugepaged_scan_pmd",
    "mm_khugepaged_scan_file",
    "mm_khugepaged_collapse_file",
    "mm_alloc_contig_migrate_range_info",
    "mm_setup_per_zone_wmarks",
    "mm_setup_per_zone_lowmem_reserve",
    "mm_calculate_totalreserve_pages",
    "test_pages_isolated",
    "compact_retry",
    "reclaim_retry_zone",
    "oom_score_adj_update",
    "mark_victim",
    "wake_reaper",
    "start_task_reaping",
    "finish_task_reaping",
    "skip_task_reaping",
    "cma_alloc_start",
    "cma_alloc_finish",
    "cma_alloc_busy_retry",
    "cma_release",
    "mm_lru_insertion",
    "mm_lru_activate",
];

/// The migratetypes in the order of their values, and the name of none.
pub(crate) const TYPES: &[&str] = &[
    Migratetype::Unmovable.name(),
    Migratetype::Movable.name(),
    Migratetype::Reclaimable.name(),
    Migratetype::HighAtomic.name(),
    Migratetype::Cma.name(),
    Migratetype::Isolate.name(),
    Migratetype::Reserve.name(),
    "none",
];

/// The place of `none` in [`TYPES`].
pub(crate) const NO_TYPE: i8 = 7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_types_stand_at_their_values() {
        let distinct: std::collections::BTreeSet<_> = EVENTS.iter().collect();
        assert_eq!(distinct.len(), EVENTS.len());
        assert!(EVENTS.len() <= 128);
        for mt in Migratetype::ALL {
            assert_eq!(TYPES[mt as usize], mt.name());
        }
        assert_eq!(TYPES[NO_TYPE as usize], "none");
    }
}
