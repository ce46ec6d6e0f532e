//! The names of samples and counters.

/// The samples of launches and switches, nanoseconds: all, of apps that were built up anew, of known ones.
pub const LATENCY: &str = "latency";
/// Of apps that were built up anew.
pub const LATENCY_COLD: &str = "latency-cold";
/// Of apps that were in memory or in swap.
pub const LATENCY_WARM: &str = "latency-warm";

/// Launches of apps that were built up anew.
pub const COLD: &str = "launches_cold";
/// Launches of apps that were in memory or in swap.
pub const WARM: &str = "launches_warm";
/// Apps killed for others.
pub const KILLED: &str = "apps_killed";
/// Apps that ended for want of memory.
pub const OUT_OF_MEMORY: &str = "apps_out_of_memory";
/// Requests of background tasks that failed.
pub const FAILED: &str = "background_failures";
/// Packets for which there was no memory.
pub const DROPPED: &str = "packets_dropped";
/// Pages that zsmalloc has at the end.
pub const ZSMALLOC: &str = "zsmalloc_pages";
