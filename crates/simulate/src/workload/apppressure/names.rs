//! The names of samples and counters.

/// The latencies of all launches and switches, in nanoseconds.
pub const LATENCY: &str = "latency";
/// Those of new apps.
pub const LATENCY_COLD: &str = "latency-cold";
/// Those of apps in memory or in swap.
pub const LATENCY_WARM: &str = "latency-warm";

/// Launches of new apps.
pub const COLD: &str = "launches_cold";
/// Launches of apps in memory or in swap.
pub const WARM: &str = "launches_warm";
/// Apps killed to free memory.
pub const KILLED: &str = "apps_killed";
/// Apps that ended because memory was exhausted.
pub const OUT_OF_MEMORY: &str = "apps_out_of_memory";
/// Requests of background tasks that failed.
pub const FAILED: &str = "background_failures";
/// Packets dropped because memory was exhausted.
pub const DROPPED: &str = "packets_dropped";
/// Pages that zsmalloc holds at the end.
pub const ZSMALLOC: &str = "zsmalloc_pages";
