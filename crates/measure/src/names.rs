//! The names of counters that have no name in a kernel, and of tracepoints.
//!
//! Names of `/proc/vmstat` are used as they are and stand nowhere here.

use pageblock::frame::Order;
use pageblock::mobility::Migratetype;

/// Requests, served or failed (tracepoint).
pub const MM_PAGE_ALLOC: &str = "mm_page_alloc";
/// Blocks given back (tracepoint).
pub const MM_PAGE_FREE: &str = "mm_page_free";
/// Pages given back in lists (tracepoint).
pub const MM_PAGE_FREE_BATCHED: &str = "mm_page_free_batched";
/// Blocks that left the buddy lists (tracepoint).
pub const MM_PAGE_ALLOC_ZONE_LOCKED: &str = "mm_page_alloc_zone_locked";
/// Blocks that went from a CPU list to the buddy lists (tracepoint).
pub const MM_PAGE_PCPU_DRAIN: &str = "mm_page_pcpu_drain";
/// Requests served from a list of another type (tracepoint).
pub const MM_PAGE_ALLOC_EXTFRAG: &str = "mm_page_alloc_extfrag";

/// Times that a zone's lock was taken.
pub const ZONE_LOCK_ACQUIRED: &str = "zone_lock_acquired";
/// Free lists that were looked at, empty or not.
pub const LIST_PROBES: &str = "list_probes";
/// Pages that fallbacks looked at in pageblocks, under the zone's lock.
pub const BLOCK_LOOKS: &str = "fallback_block_looks";
/// The most of them for one request, with the filling of the CPU list that it found empty.
pub const BLOCK_LOOKS_MOST: &str = "fallback_block_looks_most";
/// Time that tasks waited for a zone's lock while another looked at pages under it, simulated, in
/// microseconds.
pub const LOCK_WAIT_US: &str = "zone_lock_wait_us";
/// Memory pressure, simulated: the time in which some task waited for memory, in microseconds (PSI).
pub const PSI_SOME_US: &str = "psi_memory_some_us";
/// The time in which tasks waited for memory and none did anything else.
pub const PSI_FULL_US: &str = "psi_memory_full_us";
/// Requests of a replay that got the frame which the recorded kernel gave.
pub const ALLOC_RECORDED_FRAME: &str = "alloc_recorded_frame";
/// Pages served from a pageblock of another type than the request's, when they were handed out.
pub const TYPE_MISMATCH_PAGES: &str = "type_mismatch_pages";
/// Pages that left a free list of another type than their pageblock's.
pub const LIST_MISMATCH_PAGES: &str = "list_mismatch_pages";
/// Movements of blocks onto, off and between free lists, in builds with debug assertions.
pub const LIST_MOVEMENTS: &str = "list_movements";
/// Those to or from a list of another type than the block's pageblock has.
pub const LIST_MOVEMENTS_MIXED: &str = "list_movements_mixed";

/// Processor time that programs spent in their own code, simulated, in milliseconds.
pub const SIMULATED_USER_MS: &str = "simulated_user_ms";
/// Processor time that programs spent in the kernel, simulated, in milliseconds. As mmtests counts
/// it: without the kernel's own threads.
pub const SIMULATED_SYSTEM_MS: &str = "simulated_system_ms";
/// From the workload's start to its end, simulated, in milliseconds.
pub const SIMULATED_ELAPSED_MS: &str = "simulated_elapsed_ms";

/// Pageblocks of this type at the end: `blocks_Movable`.
#[must_use]
pub fn blocks(mt: Migratetype) -> String {
    format!("blocks_{mt}")
}

/// Free blocks of this type and order at the end: `free_blocks_Movable_order_2`.
#[must_use]
pub fn free_blocks(list: Migratetype, order: Order) -> String {
    format!("free_blocks_{list}_order_{order}")
}

/// Pages that reclaim, of kswapd or of tasks, looked at in zones of this kind, for kernels whose zones have
/// their own lists (up to 4.7): `pgscan_zone_dma32`.
#[must_use]
pub fn pgscan_zone(zone: &str) -> String {
    format!("pgscan_zone_{zone}")
}

/// Requests of this order that were not served: `alloc_failed_order_9`.
#[must_use]
pub fn alloc_failed(order: Order) -> String {
    format!("alloc_failed_order_{order}")
}

/// Requests of this order that were served: `alloc_order_9`.
#[must_use]
pub fn alloc_served(order: Order) -> String {
    format!("alloc_order_{order}")
}

/// Pages handed out to requests of this type: `alloc_pages_Movable`.
#[must_use]
pub fn alloc_pages(requested: Migratetype) -> String {
    format!("alloc_pages_{requested}")
}

/// Pages requested as one type that came from a pageblock of another: `type_mismatch_UinM`. The
/// letters are those of SysRq-m: U, M, E (reclaimable), H, C, I, R (reserve).
#[must_use]
pub fn type_mismatch(requested: Migratetype, block: Migratetype) -> String {
    format!("type_mismatch_{}in{}", requested.letter(), block.letter())
}
