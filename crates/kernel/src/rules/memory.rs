//! Kernel memory: slabs, zram, processes.
//!
//! Source: mm/slub.c, mm/zsmalloc.c, kernel/fork.c, arch/x86/mm/pgtable.c.

pageblock::switches! {
    /// slabs, zram, processes (mm/slub.c, mm/zsmalloc.c, kernel/fork.c)
    memory: Memory
    choice {
        /// SLAB exists beside SLUB.
        /// Up to 6.7: mm/slab.c was removed for 6.8; from then on a machine with SLAB gets SLUB.
        slab_exists: bool = true,
        /// The first attempt at a high-order slab may enter direct reclaim.
        /// Up to 4.2 (45eb00cd3a03).
        slab_waits: bool = true,
        /// The first attempt at a high-order slab wakes kswapd.
        /// Up to 4.5, and in all presets; from 4.6 (444eb2a449ef) not for a caller that may enter direct reclaim.
        slab_wakes: bool = true,
        /// What limits the partial slabs that a CPU keeps.
        slab_partial: SlabPartial {
            /// Up to 5.15, and in all presets: free objects that they had when they were added.
            Objects = "objects",
            /// From 5.16 (b47291ef02b0): their number, by the objects that half of them would have.
            Slabs = "slabs",
        } = SlabPartial::Objects,
        /// What a CPU keeps of each SLUB cache.
        slab_cpu: SlabCpu {
            /// Up to 6.19: a slab that it allocates from, and partial slabs.
            Slabs = "slabs",
            /// From 7.0 (148f95f75c51): two arrays of free objects, and full arrays that the CPUs of a node share (sheaves).
            Sheaves = "sheaves",
        } = SlabCpu::Slabs,
        /// zsmalloc's pages can be migrated.
        /// From 4.8 (48b4800a1c6a).
        zsmalloc_movable: bool = false,
        /// Kernel stacks are mapped from single pages (CONFIG_VMAP_STACK).
        /// From 4.9 on x86-64.
        vmap_stack: bool = false,
        /// Processes have a top-level page table of order 1: one page for the kernel, one for user mode.
        /// From 4.15, on CPUs that need page-table isolation.
        page_table_isolation: bool = false,
    }
    number {
        /// The most pages of a zspage: 4, from 6.3 on 8 (CONFIG_ZSMALLOC_CHAIN_SIZE).
        zsmalloc_chain: 1..=16 = 4,
    }
}
