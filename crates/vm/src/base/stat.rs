//! The counters of `/proc/vmstat` that this crate maintains.

macro_rules! vmstat {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// Counters since the machine was created, under the kernel's names.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct VmStat { $($(#[doc = $doc])* pub $name: u64,)* }

        impl VmStat {
            /// Iterates over the name and value of every counter.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }
        }
    };
}

vmstat! {
    /// Faults.
    pgfault,
    /// Faults that waited for a disk.
    pgmajfault,
    /// Pages of active lists that reclaim scanned.
    pgrefill,
    /// Pages that kswapd scanned.
    pgscan_kswapd,
    /// Pages that direct reclaim scanned.
    pgscan_direct,
    /// Times that direct reclaim was throttled until kswapd made progress.
    pgscan_direct_throttle,
    /// Pages that kswapd freed.
    pgsteal_kswapd,
    /// Pages that direct reclaim freed.
    pgsteal_direct,
    /// Pages that `MADV_PAGEOUT` freed; like in the kernel, the counters of direct reclaim include them.
    pgmadvise_pageout,
    /// Pages that reclaim skipped because the request may not use their zone.
    pgskip,
    /// Pages moved to an active list.
    pgactivate,
    /// Pages moved to an inactive list.
    pgdeactivate,
    /// Pages moved to the tail of their list after their writeback.
    pgrotated,
    /// Direct reclaims.
    allocstall,
    /// Runs of kswapd over its node.
    pageoutrun,
    /// Runs of kswapd for a watermark boost.
    pageoutrun_boosted,
    /// Pages that kswapd freed for boosts: of files only, as it may not swap for them.
    pgsteal_boosted,
    /// Times that kswapd was woken during its nap.
    kswapd_low_wmark_hit_quickly,
    /// Times that the node was no longer balanced when kswapd was about to sleep.
    kswapd_high_wmark_hit_quickly,
    /// Pages of the page cache that direct reclaim freed with inodes.
    pginodesteal,
    /// Pages of the page cache that kswapd freed with inodes.
    kswapd_inodesteal,
    /// Objects that shrinkers scanned.
    slabs_scanned,
    /// Pages that reclaim started to write.
    nr_vmscan_write,
    /// Dirty pages marked for reclaim as soon as they are written.
    nr_vmscan_immediate_reclaim,
    /// Pages made dirty.
    nr_dirtied,
    /// Pages written.
    nr_written,
    /// Pages read back from swap.
    pswpin,
    /// Pages written to swap.
    pswpout,
    /// Pages that zram had no memory for.
    zram_refused,
    /// Pages of files read again after their eviction.
    workingset_refault,
    /// Anonymous pages read back from zram that left a shadow entry (from 5.9).
    workingset_refault_anon,
    /// Refaulted pages that were activated at once.
    workingset_activate,
    /// Refaulted pages that had been active before their eviction.
    workingset_restore,
    /// Index nodes with only shadow entries that were reclaimed.
    workingset_nodereclaim,
    /// Pages migrated.
    pgmigrate_success,
    /// Pages that could not be migrated.
    pgmigrate_fail,
    /// Pages that the migration scanner looked at.
    compact_migrate_scanned,
    /// Pages that the free scanner looked at.
    compact_free_scanned,
    /// Pages isolated.
    compact_isolated,
    /// Direct compactions.
    compact_stall,
    /// Direct compactions without success.
    compact_fail,
    /// Direct compactions after which the request was served.
    compact_success,
    /// Times that kcompactd was woken.
    compact_daemon_wake,
    /// Pages that kcompactd's migration scanner looked at.
    compact_daemon_migrate_scanned,
    /// Pages that kcompactd's free scanner looked at.
    compact_daemon_free_scanned,
    /// Huge pages allocated by faults.
    thp_fault_alloc,
    /// Faults that fell back from a huge page to small ones.
    thp_fault_fallback,
    /// Huge pages that khugepaged allocated.
    thp_collapse_alloc,
    /// Huge pages that khugepaged failed to allocate.
    thp_collapse_alloc_failed,
    /// Huge pages split for reclaim.
    thp_split_page,
    /// Faults that allocated a size between a page and a huge page (sysfs, sum of `hugepages-*/stats`).
    anon_fault_alloc,
    /// Faults that failed to allocate such a size (sysfs, likewise).
    anon_fault_fallback,
    /// Hugetlb pages that the pool allocated.
    htlb_buddy_alloc_success,
    /// Hugetlb pages that the pool failed to allocate.
    htlb_buddy_alloc_fail,
    /// Reclaims of the local node that freed enough.
    zone_reclaim_success,
    /// Reclaims of the local node that did not free enough.
    zone_reclaim_failed,
    /// Processes killed by the OOM killer.
    oom_kill,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_the_kernels_names() {
        let stat = VmStat { pgscan_direct: 3, ..VmStat::default() };
        assert!(stat.iter().any(|c| c == ("pgscan_direct", 3)));
        assert_eq!(stat.iter().map(|(_, n)| n).sum::<u64>(), 3);
    }
}
