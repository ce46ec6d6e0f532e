//! The counters of `/proc/vmstat` that this crate moves.

macro_rules! vmstat {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// Counts since the machine was made, under the kernel's names.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct VmStat { $($(#[doc = $doc])* pub $name: u64,)* }

        impl VmStat {
            /// Name and count of every counter.
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
    /// Pages looked at on active lists.
    pgrefill,
    /// Pages that kswapd looked at.
    pgscan_kswapd,
    /// Pages that tasks looked at.
    pgscan_direct,
    /// Times that a task waited for kswapd.
    pgscan_direct_throttle,
    /// Pages that kswapd reclaimed.
    pgsteal_kswapd,
    /// Pages that tasks reclaimed.
    pgsteal_direct,
    /// Pages freed because their program gave them up (`MADV_PAGEOUT`); in the kernel's counters of tasks' reclaim too.
    pgmadvise_pageout,
    /// Pages passed over for their zone.
    pgskip,
    /// Pages moved to an active list.
    pgactivate,
    /// Pages moved to an inactive list.
    pgdeactivate,
    /// Pages moved to the tail when they were written.
    pgrotated,
    /// Times that a task had to reclaim.
    allocstall,
    /// Rounds of balancing.
    pageoutrun,
    /// Of these, rounds for a watermark boost.
    pageoutrun_boosted,
    /// Pages that kswapd reclaimed for boosts: of files, as it may not swap for them.
    pgsteal_boosted,
    /// Times that kswapd was woken again within its nap.
    kswapd_low_wmark_hit_quickly,
    /// Times that the node was short again at once.
    kswapd_high_wmark_hit_quickly,
    /// Page cache dropped with inodes by tasks.
    pginodesteal,
    /// Page cache dropped with inodes by kswapd.
    kswapd_inodesteal,
    /// Objects that shrinkers looked at.
    slabs_scanned,
    /// Pages that reclaim began to write.
    nr_vmscan_write,
    /// Pages marked to be reclaimed when written.
    nr_vmscan_immediate_reclaim,
    /// Pages made dirty.
    nr_dirtied,
    /// Pages written.
    nr_written,
    /// Pages read back from swap.
    pswpin,
    /// Pages written to swap.
    pswpout,
    /// Pages that swap in memory had no memory for.
    zram_refused,
    /// Pages of files read again after their eviction.
    workingset_refault,
    /// Anonymous pages read back from swap in memory that left a trace of their eviction (from 5.9).
    workingset_refault_anon,
    /// Of both, pages that were activated at once.
    workingset_activate,
    /// Of those, pages that had been active before.
    workingset_restore,
    /// Index nodes that held nothing but the traces of evicted pages, reclaimed.
    workingset_nodereclaim,
    /// Pages moved.
    pgmigrate_success,
    /// Pages that could not be moved.
    pgmigrate_fail,
    /// Pages that the migration scanner looked at.
    compact_migrate_scanned,
    /// Pages that the free scanner looked at.
    compact_free_scanned,
    /// Pages isolated.
    compact_isolated,
    /// Times that a task compacted.
    compact_stall,
    /// Of those, without success.
    compact_fail,
    /// Of those, with a page.
    compact_success,
    /// Times that kcompactd was woken.
    compact_daemon_wake,
    /// Pages that its migration scanner looked at.
    compact_daemon_migrate_scanned,
    /// Pages that its free scanner looked at.
    compact_daemon_free_scanned,
    /// Huge pages given to faults.
    thp_fault_alloc,
    /// Faults that wanted a huge page and got small ones.
    thp_fault_fallback,
    /// Huge pages that khugepaged got.
    thp_collapse_alloc,
    /// Huge pages that khugepaged could not get.
    thp_collapse_alloc_failed,
    /// Huge pages split for reclaim.
    thp_split_page,
    /// Faults of a size between a page and a huge page (sysfs, sum of `hugepages-*/stats`).
    anon_fault_alloc,
    /// Such blocks that were not to be had (sysfs, likewise).
    anon_fault_fallback,
    /// Hugetlb pages that the pool got.
    htlb_buddy_alloc_success,
    /// Hugetlb pages that it did not get.
    htlb_buddy_alloc_fail,
    /// Reclaims of the own node that freed enough.
    zone_reclaim_success,
    /// Reclaims of the own node that did not.
    zone_reclaim_failed,
    /// Processes killed for want of memory.
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
