//! Sysctls, except those that the allocator reads itself.

pageblock::switches! {
    /// settings of /proc/sys/vm that the allocator does not read
    sysctl: Sysctl
    choice {}
    number {
        /// vm.swappiness.
        swappiness: 0..=200 = 60,
        /// vm.dirty_ratio, percent of dirtyable memory.
        dirty_ratio: 0..=100 = 20,
        /// vm.dirty_background_ratio, percent of dirtyable memory.
        dirty_background_ratio: 0..=100 = 10,
        /// vm.dirty_expire_centisecs: data that has been dirty for this long is written.
        dirty_expire_centisecs: 0..=8640000 = 3000,
        /// vm.dirty_writeback_centisecs: how often the flusher looks for such data; 0 means never.
        dirty_writeback_centisecs: 0..=8640000 = 500,
        /// vm.vfs_cache_pressure, percent.
        vfs_cache_pressure: 0..=10000 = 100,
        /// vm.extfrag_threshold, thousandths of the fragmentation index.
        extfrag_threshold: 0..=1000 = 500,
        /// vm.compaction_proactiveness, percent; 0 is off.
        compaction_proactiveness: 0..=100 = 20,
    }
}
