//! The counters that a history keeps.

/// The beginnings of their names: those of `/proc/vmstat`, and [`crate::value::names`].
const KEPT: [&str; 12] = [
    "alloc_failed_order_",
    "allocstall",
    "compact_",
    "kswapd_",
    "oom_kill",
    "pageoutrun",
    "pgmigrate_",
    "pgscan_",
    "pgsteal_",
    "psi_memory_",
    "pswp",
    "thp_",
];

/// Counters that are kept in parts of others, or of no picture.
const DROPPED: [&str; 4] = ["_order_", "allocstall_", "pgscan_zone_", "pgscan_direct_throttle"];

/// Tells whether a history keeps a counter.
pub(super) fn is_kept(name: &str) -> bool {
    let kept = KEPT.iter().any(|start| name.starts_with(start));
    let dropped = DROPPED.iter().any(|part| name.contains(part));
    kept && (!dropped || name.starts_with("alloc_failed_order_"))
}
