//! What an administrator sets, and what kernel versions do differently around the allocator.

use pageblock::policy::{Policy, Reclaim};

use crate::compact::CompactCounts;
use crate::inode::{FileObject, XFS_WITH_VECTORS};
use crate::slab::SlabAllocator;
use crate::{hugetlb, khugepaged, mthp};

/// `transparent_hugepage/enabled`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ThpEnabled {
    /// For every mapping.
    #[default]
    Always,
    /// Where the program asks by `MADV_HUGEPAGE`.
    Madvise,
    /// Nowhere.
    Never,
}

/// `transparent_hugepage/defrag`: what a fault may do for a huge page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ThpDefrag {
    /// Reclaim and compact.
    Always,
    /// Wake kswapd and kcompactd.
    Defer,
    /// Reclaim and compact where the program asks by `MADV_HUGEPAGE`, else wake the threads.
    DeferMadvise,
    /// Reclaim and compact where the program asks by `MADV_HUGEPAGE`, else nothing; the default
    /// from 4.6.
    #[default]
    Madvise,
    /// Nothing.
    Never,
}

/// On which nodes a fault looks for a huge page, by version.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ThpPlacement {
    /// Up to 4.19, and 4.20 to 5.3: the local node only, whatever it takes.
    #[default]
    Local,
    /// The local node only, but any node where the fault may reclaim: 4.20-rc1 to rc5
    /// (ac5b2c18911f, reverted), which is what seed 1 measured.
    LocalUnlessReclaim,
    /// From 5.4: the local node without retries, then any node where the fault may reclaim.
    TwoSteps,
}

/// The settings of a machine around its allocator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// `vm.swappiness`.
    pub swappiness: u64,
    /// `vm.dirty_ratio`, percent of dirtyable memory.
    pub dirty_ratio: u64,
    /// `vm.dirty_background_ratio`, percent of dirtyable memory.
    pub dirty_background_ratio: u64,
    /// `vm.dirty_expire_centisecs`: what has been dirty so long is written.
    pub dirty_expire_centisecs: u64,
    /// `vm.dirty_writeback_centisecs`: how often that is looked for.
    pub dirty_writeback_centisecs: u64,
    /// `vm.vfs_cache_pressure`, percent.
    pub vfs_cache_pressure: u64,
    /// `vm.extfrag_threshold`, thousandths.
    pub extfrag_threshold: i64,
    /// `vm.compaction_proactiveness`.
    pub proactiveness: u64,
    /// `transparent_hugepage/enabled`.
    pub thp_enabled: ThpEnabled,
    /// `transparent_hugepage/defrag`.
    pub thp_defrag: ThpDefrag,
    /// Where huge pages are looked for.
    pub thp_placement: ThpPlacement,
    /// khugepaged's settings.
    pub khugepaged: khugepaged::Settings,
    /// The sizes between a page and a huge page (from 6.8).
    pub mthp: mthp::Sizes,
    /// How the pool of hugetlb pages grows.
    pub hugetlb: hugetlb::Rules,
    /// `vm.zone_reclaim_mode`: bits of [`node_reclaim`](crate::node_reclaim).
    pub zone_reclaim_mode: u32,
    /// The slab allocator.
    pub slab: SlabAllocator,
    /// A new slab of a high order is worth direct reclaim (up to 4.2, before 45eb00cd3a03).
    pub slab_waits: bool,
    /// The objects of a file.
    pub file_objects: &'static [FileObject],
    /// Bytes of changes after which the file system's log writes a checkpoint
    /// ([`checkpoint_bytes`](crate::cil::checkpoint_bytes)); 0 where neither its memory nor that of open
    /// files is modelled.
    pub checkpoint_bytes: u64,
    /// Swap space in pages.
    pub swap_pages: u32,
    /// Swap is in memory, compressed ([`crate::zram`]).
    pub zram: bool,
    /// zsmalloc's pages can be moved (from 4.8).
    pub zsmalloc_movable: bool,
    /// The most pages of a zspage: four, from 6.3 eight.
    pub zsmalloc_chain: u32,
    /// Shrinkers scan by the priority of reclaim (from about 4.16), not in proportion to the pages
    /// scanned.
    pub slab_by_priority: bool,
    /// However low the pressure, a shrinker looks at a batch of objects (4.19 and 4.20 only:
    /// 172b06c32b94, reverted for 5.0 by a9a238e83fbb).
    pub slab_min_scan: bool,
    /// An unused inode with more than one page in the page cache is passed over (4.20 only:
    /// a76cf1a474d7, reverted for 5.0).
    pub keeps_inodes_with_pages: bool,
    /// Where there is swap, anonymous memory counts as memory that could be dirty (up to 3.13, before
    /// a1c3bfb2f67e).
    pub anon_dirtyable: bool,
    /// Evicted pages leave traces (from 3.15).
    pub workingset: bool,
    /// How much of a list is scanned depends on its pages of zones that help the request, not on all of the
    /// node's (from 4.11: 71ab6cfe88dc).
    pub scans_eligible: bool,
    /// How vmstat counts what compaction's scanners look at.
    pub compact_counts: CompactCounts,
    /// A write to a page of a file counts as a use of it (up to 4.6, before bbddabe2e436).
    pub writes_are_uses: bool,
    /// The disk's queue has no state of congestion, nor lets a task that waited send several writes when it
    /// is full (from 5.0: a1ce35fa4985).
    pub multi_queue: bool,
    /// kswapd waits for writes until some pages of its node are written (from 5.16: 8cd7c588decf), not for
    /// the disk's queue.
    pub waits_for_pages: bool,
    /// Kernel stacks are pages that are mapped together (from 4.9 on x86-64).
    pub vmap_stack: bool,
    /// Processes have two page tables at the top, side by side (from 4.15, on CPUs that need it, as
    /// those of seed 1 do).
    pub page_table_isolation: bool,
}

impl Config {
    /// The defaults of a mainline version. What a policy switch decides is not here.
    #[must_use]
    pub fn of_version(major: u32, minor: u32) -> Self {
        let version = (major, minor);
        Self {
            swappiness: 60,
            dirty_ratio: 20,
            dirty_background_ratio: 10,
            dirty_expire_centisecs: 3000,
            dirty_writeback_centisecs: 500,
            vfs_cache_pressure: 100,
            extfrag_threshold: 500,
            proactiveness: 20,
            thp_enabled: ThpEnabled::Always,
            thp_defrag: if version >= (4, 6) { ThpDefrag::Madvise } else { ThpDefrag::Always },
            thp_placement: if version == (4, 20) {
                ThpPlacement::LocalUnlessReclaim
            } else if version >= (5, 4) {
                ThpPlacement::TwoSteps
            } else {
                ThpPlacement::Local
            },
            khugepaged: khugepaged::Settings::DEFAULT,
            mthp: mthp::Sizes::of_version(major, minor),
            hugetlb: hugetlb::Rules::of_version(major, minor),
            zone_reclaim_mode: 0,
            slab: SlabAllocator::Slub,
            slab_waits: version < (4, 3),
            file_objects: XFS_WITH_VECTORS,
            checkpoint_bytes: 0,
            swap_pages: 0,
            zram: false,
            zsmalloc_movable: version >= (4, 8),
            zsmalloc_chain: if version >= (6, 3) { 8 } else { 4 },
            slab_by_priority: version >= (4, 16),
            slab_min_scan: ((4, 19)..(5, 0)).contains(&version),
            keeps_inodes_with_pages: version == (4, 20),
            anon_dirtyable: version < (3, 14),
            workingset: version >= (3, 15),
            scans_eligible: version >= (4, 11),
            compact_counts: CompactCounts::of_version(major, minor),
            writes_are_uses: version < (4, 7),
            multi_queue: version >= (5, 0),
            waits_for_pages: version >= (5, 16),
            vmap_stack: version >= (4, 9),
            page_table_isolation: version >= (4, 15),
        }
    }
}

/// Tells whether the LRU lists are those of nodes.
#[must_use]
pub fn lru_per_node(policy: &Policy) -> bool {
    policy.reclaim >= Reclaim::V48
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_1_measured_a_release_candidate() {
        let placement = |major, minor| Config::of_version(major, minor).thp_placement;
        assert_eq!(placement(4, 19), ThpPlacement::Local);
        assert_eq!(placement(4, 20), ThpPlacement::LocalUnlessReclaim);
        assert_eq!(placement(5, 0), ThpPlacement::Local);
        assert_eq!(placement(6, 18), ThpPlacement::TwoSteps);
    }
}
