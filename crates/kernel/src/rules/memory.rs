//! Memory of the kernel's own: slabs, compressed swap, processes.
//!
//! Source: mm/slub.c, mm/zsmalloc.c, kernel/fork.c, arch/x86/mm/pgtable.c.

group! {
    /// slabs, compressed swap, processes (mm/slub.c, mm/zsmalloc.c, kernel/fork.c)
    memory: Memory
    choice {
        /// There is a choice between SLAB and SLUB.
        /// Up to 6.7: mm/slab.c was removed for 6.8; later a machine with SLAB gets SLUB.
        slab_exists: bool = true,
        /// A new slab of a high order is worth direct reclaim.
        /// Up to 4.2 (45eb00cd3a03).
        slab_waits: bool = true,
        /// Pages of zsmalloc can be moved.
        /// From 4.8 (48b4800a1c6a).
        zsmalloc_movable: bool = false,
        /// Kernel stacks are pages that are mapped together, not blocks.
        /// From 4.9 on x86-64.
        vmap_stack: bool = false,
        /// Processes have two page tables at the top, side by side.
        /// From 4.15, on CPUs that need it.
        page_table_isolation: bool = false,
    }
    number {
        /// The most pages of a zspage: 4, from 6.3 8 (CONFIG_ZSMALLOC_CHAIN_SIZE).
        zsmalloc_chain: 1..=16 = 4,
    }
}
