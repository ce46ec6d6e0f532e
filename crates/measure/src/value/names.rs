//! The names of tracepoints, and of counters that have no name in the kernel.
//!
//! Names of `/proc/vmstat` are used as they are and are not listed here.

use pageblock::frame::Order;
use pageblock::mobility::Migratetype;

use crate::value::counters::Counters;

/// Requests, served or failed (tracepoint).
pub const MM_PAGE_ALLOC: &str = "mm_page_alloc";
/// Blocks freed (tracepoint).
pub const MM_PAGE_FREE: &str = "mm_page_free";
/// Pages freed in batches (tracepoint).
pub const MM_PAGE_FREE_BATCHED: &str = "mm_page_free_batched";
/// Blocks that left the buddy lists (tracepoint).
pub const MM_PAGE_ALLOC_ZONE_LOCKED: &str = "mm_page_alloc_zone_locked";
/// Blocks drained from a per-CPU list to the buddy lists (tracepoint).
pub const MM_PAGE_PCPU_DRAIN: &str = "mm_page_pcpu_drain";
/// Requests served from a list of another type (tracepoint).
pub const MM_PAGE_ALLOC_EXTFRAG: &str = "mm_page_alloc_extfrag";

/// Acquisitions of zone locks.
pub const ZONE_LOCK_ACQUIRED: &str = "zone_lock_acquired";
/// Free lists that were checked, empty or not.
pub const LIST_PROBES: &str = "list_probes";
/// Pages of pageblocks that fallbacks scanned under the zone's lock.
pub const BLOCK_LOOKS: &str = "fallback_block_looks";
/// The most of these pages for one request, including the refill of its per-CPU list.
pub const BLOCK_LOOKS_MOST: &str = "fallback_block_looks_most";
/// Time that tasks waited for a zone's lock while another task scanned pages under it, simulated, in
/// microseconds.
pub const LOCK_WAIT_US: &str = "zone_lock_wait_us";
/// Memory pressure, simulated: the time in which at least one task waited for memory, in microseconds
/// (PSI).
pub const PSI_SOME_US: &str = "psi_memory_some_us";
/// The time in which tasks waited for memory and no other task ran.
pub const PSI_FULL_US: &str = "psi_memory_full_us";
/// Requests of a replay that got the frame that the recorded kernel allocated.
pub const ALLOC_RECORDED_FRAME: &str = "alloc_recorded_frame";
/// Pages allocated from a pageblock of another type than the request's.
pub const TYPE_MISMATCH_PAGES: &str = "type_mismatch_pages";
/// Pages taken from a free list of another type than their pageblock's.
pub const LIST_MISMATCH_PAGES: &str = "list_mismatch_pages";
/// Movements of blocks onto, off and between free lists, in builds with debug assertions.
pub const LIST_MOVEMENTS: &str = "list_movements";
/// The movements to or from a list of another type than the block's pageblock.
pub const LIST_MOVEMENTS_MIXED: &str = "list_movements_mixed";

/// Whole gigabytes (2^30 bytes, aligned) in the zones; not counted where there is none.
pub const GIGABYTES: &str = "gigabytes";
/// Of these, at the end, those in which every page is free or can be moved.
pub const GIGABYTES_MOVABLE: &str = "gigabytes_movable";
/// Of these, at the end, those that are wholly free; pages on CPU lists are free.
pub const GIGABYTES_FREE: &str = "gigabytes_free";
/// Whole gigabytes that could be had as pages at once by moving pages: the free ones, and of others without an unmovable page
/// as many as the rest of free memory above the min watermark has room for.
pub const GIGABYTES_SERVED: &str = "gigabytes_served";

/// User time of programs, simulated, in milliseconds.
pub const SIMULATED_USER_MS: &str = "simulated_user_ms";
/// System time of programs, simulated, in milliseconds. As mmtests counts it: without kernel threads.
pub const SIMULATED_SYSTEM_MS: &str = "simulated_system_ms";
/// Elapsed time of the workload, simulated, in milliseconds.
pub const SIMULATED_ELAPSED_MS: &str = "simulated_elapsed_ms";

/// User time of a real run's programs, in milliseconds.
pub const USER_MS: &str = "user_ms";
/// System time of a real run's programs, in milliseconds.
pub const SYSTEM_MS: &str = "system_ms";
/// Elapsed time of a real run, in milliseconds.
pub const ELAPSED_MS: &str = "elapsed_ms";

/// Returns the user time of programs, simulated or real, in milliseconds.
#[must_use]
pub fn user_ms(counters: &Counters) -> Option<u64> {
    counters.get(SIMULATED_USER_MS).or_else(|| counters.get(USER_MS))
}

/// Returns the system time of programs, simulated or real, in milliseconds.
#[must_use]
pub fn system_ms(counters: &Counters) -> Option<u64> {
    counters.get(SIMULATED_SYSTEM_MS).or_else(|| counters.get(SYSTEM_MS))
}

/// Returns the elapsed time of a workload, simulated or real, in milliseconds.
#[must_use]
pub fn elapsed_ms(counters: &Counters) -> Option<u64> {
    counters.get(SIMULATED_ELAPSED_MS).or_else(|| counters.get(ELAPSED_MS))
}

/// Returns the counter of pageblocks of this type at the end: `blocks_Movable`.
#[must_use]
pub fn blocks(mt: Migratetype) -> String {
    format!("blocks_{mt}")
}

/// Returns the counter of free blocks of this type and order at the end: `free_blocks_Movable_order_2`.
#[must_use]
pub fn free_blocks(list: Migratetype, order: Order) -> String {
    format!("free_blocks_{list}_order_{order}")
}

/// Returns the counter of pages that kswapd or direct reclaim scanned in zones of this kind, for
/// kernels with LRU lists per zone (up to 4.7): `pgscan_zone_dma32`.
#[must_use]
pub fn pgscan_zone(zone: &str) -> String {
    format!("pgscan_zone_{zone}")
}

/// Returns the counter of failed requests of this order: `alloc_failed_order_9`.
#[must_use]
pub fn alloc_failed(order: Order) -> String {
    format!("alloc_failed_order_{order}")
}

/// Returns the counter of served requests of this order: `alloc_order_9`.
#[must_use]
pub fn alloc_served(order: Order) -> String {
    format!("alloc_order_{order}")
}

/// Returns the counter of pages allocated for requests of this type: `alloc_pages_Movable`.
#[must_use]
pub fn alloc_pages(requested: Migratetype) -> String {
    format!("alloc_pages_{requested}")
}

/// Returns the counter of pages requested as one type that came from a pageblock of another:
/// `type_mismatch_UinM`. The letters are those of SysRq-m: U, M, E (reclaimable), H, C, I, R (reserve).
#[must_use]
pub fn type_mismatch(requested: Migratetype, block: Migratetype) -> String {
    format!("type_mismatch_{}in{}", requested.letter(), block.letter())
}
